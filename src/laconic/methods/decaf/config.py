"""DECAF's settings, and the values that the size of the data decides."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from laconic.errors import ConfigError
from laconic.methods.common import choose_batch_size, choose_length
from laconic.methods.config import NEURAL_BOUNDS, Bounds, NeuralConfig, check_within
from laconic.models.clustering import Clustering
from laconic.models.shortlisters.labels import Nearness
from laconic.training.optimizer import Halving, Plan
from laconic.units import counted

SHORTLISTS = ("clusters", "nearest")
STARTS = ("text", "random")
CLUSTER_TEXTS = ("together", "apart")
TEXTS_FOR_RECALL = ("held-out", "training")
NEARNESS = Nearness(neighbours=0, centroids=500)
_MOST_CLUSTERS = 1 << 17  # with 4 labels a cluster, the paper's counts for 131,073 and 1.3 million labels come out


@dataclass(frozen=True, kw_only=True)
class Module:
    """Settings of one module's training."""

    epochs: int = 0  # 0: of all, half for the surrogate task and a quarter for either other
    learning_rate: float = 0.0  # 0: learning_rate for the surrogate task, 0.8 of it for the others
    halve_after: float = 0.5  # fraction of its epochs until the learning rate is first halved
    dropout: float = 0.2

    def __post_init__(self) -> None:
        check_within(self, {**NEURAL_BOUNDS, "learning_rate": (0, 100)})


@dataclass(frozen=True, kw_only=True)
class Config(NeuralConfig):
    """Settings of DECAF."""

    bounds: ClassVar[Bounds] = {
        **NeuralConfig.bounds,
        "clusters": (0, 1 << 30),
        "beam": (0, 1 << 30),
        "answer_beam": (0, 1 << 30),
        "recall": (0.01, 1),
        "most_opened": (1e-9, 1),
    }
    choices: ClassVar[Mapping[str, Collection[str]]] = {
        "shortlist": SHORTLISTS,
        "start": STARTS,
        "cluster_text": CLUSTER_TEXTS,
        "recall_on": TEXTS_FOR_RECALL,
    }

    epochs: int = 0  # of all modules; 0: from 28 for half a million texts and more to 84 for a few
    batch_size: int = 0  # 0: 256, less for small data
    learning_rate: float = 0.01  # of the surrogate task
    length: int = 0  # words read per text; 0: the 99.5 % quantile of the data
    surrogate: Module = Module(dropout=0.5)  # I: word vectors, by clusters whose rows are their texts alone
    shortlister: Module = Module()  # II: new clusters, by those word vectors, with rows of their own
    ranker: Module = Module()  # IV: a row for every label, against the labels of a text's best clusters
    clusters: int = 0  # a power of two; 0: the largest that leaves `cluster_size` labels per cluster, at most 131,072
    cluster_size: int = 4
    # Clusters whose labels are scored; 0: as many as it takes for `recall`. With shortlist=nearest: as many labels as
    # this many clusters would have.
    beam: int = 0
    answer_beam: int = 0  # clusters probed in prediction; 0: beam
    recall: float = 0.85  # fraction of true labels in the probed clusters
    most_opened: float = 0.125  # the most of all clusters to probe for `recall`; 1: no limit
    recall_on: str = "held-out"  # texts, or training texts as in the paper
    label_text: bool = True  # rows are made of labels' texts
    bias: bool = True  # of clusters and labels; the paper has none
    prior: bool = True  # start biases at log-odds, not at 0; clusters have some in the surrogate task too
    lite: bool = False  # freeze word vectors after the surrogate task
    clustering: Clustering = Clustering()
    # Ablations of the paper
    shortlist: str = "clusters"  # or nearest: labels by their centroids, in place of module II
    nearness: Nearness = NEARNESS  # of models of earlier versions with shortlist=nearest
    missing: bool = True  # learn true labels that the shortlister misses; the published code does not
    refinement: bool = True  # rows have a vector that each label learns, besides its text
    start: str = "text"  # of refinement vectors: the label's text, or random
    cluster_text: str = "together"  # a cluster's texts as one, of length 1; or apart: the sum over its labels
    own_vectors: bool = True  # the shortlister keeps its own word vectors; if not, it reads the ranker's
    given_vectors: bool = False  # freeze `vectors` and skip the surrogate task

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clusters & (self.clusters - 1):
            raise ConfigError(f"clusters must be a power of two (or 0, chosen by the data), but is {self.clusters}")
        if not self.refinement and not self.label_text:
            raise ConfigError("a row is made of a label's text, of a refinement vector, or of both; both are false")
        if self.given_vectors and not self.vectors:
            raise ConfigError("given_vectors keeps word vectors fixed; give some with vectors=FILE")


def with_sizes(config: Config, texts: int, labels: int, usual: int) -> Config:
    """Return the config with a value wherever the data decides; `usual` is the 99.5 % quantile of words per text."""
    if config.clusters > labels:
        raise ConfigError(f"clusters must be at most the {counted(labels, 'label')}, but is {config.clusters:,}")
    if config.nearness != NEARNESS:
        raise ConfigError(
            "nearness is a setting of earlier versions; beam says how many of the nearest labels are taken"
        )
    epochs = config.epochs or round(np.clip(28 * (485_000 / max(texts, 1)) ** 0.5, 28, 84))
    surrogate = _module_with_sizes(config.surrogate, epochs / 2, config.learning_rate)
    shortlister, ranker = (
        _module_with_sizes(module, epochs / 4, 0.8 * config.learning_rate)
        for module in (config.shortlister, config.ranker)
    )
    return replace(
        config,
        epochs=sum(module.epochs for module in (surrogate, shortlister, ranker)),
        batch_size=choose_batch_size(config.batch_size, texts, 256),
        length=choose_length(config.length, usual, ordered=False),
        clusters=config.clusters or 1 << int(np.log2(np.clip(labels // config.cluster_size, 1, _MOST_CLUSTERS))),
        surrogate=surrogate,
        shortlister=shortlister,
        ranker=ranker,
    )


def probed_clusters(config: Config, clusters: int, beam: int) -> int:
    """Convert a beam, which counts the config's clusters, to a number of the shortlister's clusters."""
    return min(-(-beam * clusters // (config.clusters or clusters)), clusters)


def _module_with_sizes(module: Module, epochs: float, rate: float) -> Module:
    return replace(module, epochs=module.epochs or max(1, round(epochs)), learning_rate=module.learning_rate or rate)


def plan_of(config: Config, module: Module, *, lazy: bool = False) -> Plan:
    schedule = Halving(after=module.halve_after)
    return config.plan(epochs=module.epochs, learning_rate=module.learning_rate, schedule=schedule, lazy=lazy)
