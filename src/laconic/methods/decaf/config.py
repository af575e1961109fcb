"""DECAF's settings, and the values that the size of the data decides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from laconic.config import Bounds, Choices, check_known, check_within
from laconic.errors import ConfigError
from laconic.methods.common import choose_batch_size, choose_length
from laconic.methods.config import NEURAL_BOUNDS, NeuralConfig, WarmUp
from laconic.models.clustering import Clustering
from laconic.models.shortlisters.labels import Nearness
from laconic.training.optimizer import OPTIMISERS, Halving, Plan
from laconic.units import counted

SHORTLISTS = ("clusters", "nearest")
STARTS = ("text", "random")
CLUSTER_TEXTS = ("together", "apart")
TEXTS_FOR_RECALL = ("held-out", "training")
NEARNESS = Nearness(neighbours=0, centroids=500)
M = TypeVar("M", bound="Module")
_MOST_CLUSTERS = 1 << 17  # with 4 labels a cluster, the paper's counts for 131,073 and 1.3 million labels come out


@dataclass(frozen=True, kw_only=True)
class Module:
    """Settings of one module's training."""

    bounds: ClassVar[Bounds] = {**NEURAL_BOUNDS, "learning_rate": (0, 100)}

    epochs: int = 0
    """Epochs of this module. 0: half of all epochs for the surrogate task, a quarter for each of the others."""
    learning_rate: float = 0.0
    """Learning rate of this module. 0: the method's `learning_rate` for the surrogate task, 0.8 of it for the others.
    """
    halve_after: float = 0.5
    """Fraction of the epochs after which the learning rate is halved for the first time."""
    dropout: float = 0.2
    """Probability that a number after a ReLU is set to 0 in training."""

    def __post_init__(self) -> None:
        check_within(self, self.bounds)


@dataclass(frozen=True, kw_only=True)
class Ranker(Module):
    """Settings of module IV, in which the rows of all labels are trained."""

    choices: ClassVar[Choices] = {"optimiser": OPTIMISERS}

    optimiser: str = "adam"
    """Optimiser of refinement vectors; adam-bf16 and adagrad-bf16 need less memory and run on a GPU only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known(self, self.choices)


@dataclass(frozen=True, kw_only=True)
class Config(NeuralConfig):
    """Settings of DECAF."""

    bounds: ClassVar[Bounds] = {
        **NeuralConfig.bounds,
        "clusters": (0, 1 << 30),
        "beam": (0, 1 << 30),
        "answer_beam": (0, 1 << 30),
        "cluster_size": (1, 1 << 30),
        "recall": (0.01, 1),
        "most_opened": (1e-9, 1),
    }
    choices: ClassVar[Choices] = {
        "shortlist": SHORTLISTS,
        "start": STARTS,
        "cluster_text": CLUSTER_TEXTS,
        "recall_on": TEXTS_FOR_RECALL,
    }

    epochs: int = 0
    """Epochs of all modules together. 0: from 28 for half a million texts and more to 84 for a few."""
    batch_size: int = 0
    """Texts per training step. 0: 256, fewer for small data."""
    learning_rate: float = 0.01
    """Learning rate of the surrogate task."""
    length: int = 0
    """Words read per text. 0: the 99.5 % quantile of the data."""
    surrogate: Module = Module(dropout=0.5)
    """Module I: word vectors are learnt by predicting clusters whose rows are made of their texts alone."""
    shortlister: Module = Module()
    """Module II: labels are clustered again by those word vectors; cluster rows have vectors of their own too."""
    ranker: Ranker = Ranker()
    """Module IV: a row for every label is learnt against the labels of a text's best clusters."""
    clusters: int = 0
    """Clusters of labels, a power of two. 0: the largest that leaves `cluster_size` labels per cluster, at most
    131,072. Symbol: K (DECAF).
    """
    cluster_size: int = 4
    """Least labels per cluster where the number of clusters is chosen."""
    beam: int = 0
    """Best clusters whose labels are scored. 0: as many as `recall` takes. With shortlist=nearest, as many labels as
    these clusters would have. Symbol: B (DECAF).
    """
    answer_beam: int = 0
    """Best clusters whose labels are scored in prediction. 0: as many as `beam`."""
    recall: float = 0.85
    """Fraction of the true labels that must be in the probed clusters, for choosing `beam`. Symbol: r (DECAF, Theorem
    3.1).
    """
    most_opened: float = 0.125
    """Largest fraction of all clusters that may be probed to reach `recall`. 1: no limit."""
    recall_on: str = "held-out"
    """Texts on which `recall` is measured: held-out texts, or training texts as in the paper."""
    label_text: bool = True
    """Whether rows are made of the labels' texts."""
    bias: bool = True
    """Whether clusters and labels have biases; the paper has none."""
    prior: bool = True
    """Whether biases start at log-odds instead of 0; clusters of the surrogate task then have biases too."""
    lite: bool = False
    """Whether word vectors are frozen after the surrogate task (DECAF-lite)."""
    clustering: Clustering = Clustering()
    """How labels are clustered."""
    warm_up: WarmUp = WarmUp()
    """Training of word vectors by contrast of texts and label texts, before the surrogate task."""
    # Ablations of the paper
    shortlist: str = "clusters"
    """Shortlists by learnt clusters (module II), or by the labels whose centroids are nearest, without module II."""
    nearness: Nearness = NEARNESS
    """Setting of models of earlier versions with shortlist=nearest; new models use `beam`."""
    missing: bool = True
    """Whether true labels that the shortlister misses are learnt too; the published code ignores them."""
    refinement: bool = True
    """Whether rows have a vector that each label learns, besides its text. Symbol: ẑ² (DECAF)."""
    start: str = "text"
    """Where refinement vectors start: at the label's text, or at random."""
    cluster_text: str = "together"
    """The text of a cluster: its labels' texts together, as one text of length 1, or apart, summed after encoding."""
    own_vectors: bool = True
    """Whether the shortlister keeps its own word vectors; if not, it reads the ranker's."""
    given_vectors: bool = False
    """Whether the word vectors of `vectors` are frozen and the surrogate task is skipped."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clusters & (self.clusters - 1):
            raise ConfigError(f"clusters must be a power of two (or 0, chosen by the data), but is {self.clusters}")
        if not self.refinement and not self.label_text:
            raise ConfigError("a row is made of a label's text, of a refinement vector, or of both; both are false")
        if not self.refinement and self.ranker.optimiser != "adam":
            raise ConfigError(
                f"ranker.optimiser={self.ranker.optimiser} is for refinement vectors, but refinement is false; use one"
            )
        if self.given_vectors and not self.vectors:
            raise ConfigError("given_vectors keeps word vectors fixed; give some with vectors=FILE")
        if self.given_vectors and self.warm_up.epochs:
            raise ConfigError("given_vectors keeps word vectors fixed, but warm_up.epochs trains them; use one")


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
    shortlister = _module_with_sizes(config.shortlister, epochs / 4, 0.8 * config.learning_rate)
    ranker = _module_with_sizes(config.ranker, epochs / 4, 0.8 * config.learning_rate)
    return replace(
        config,
        epochs=sum(module.epochs for module in (surrogate, shortlister, ranker)),
        batch_size=choose_batch_size(config.batch_size, texts, 256),
        length=choose_length(config.length, usual, encoder="bag"),
        clusters=config.clusters or 1 << int(np.log2(np.clip(labels // config.cluster_size, 1, _MOST_CLUSTERS))),
        surrogate=surrogate,
        shortlister=shortlister,
        ranker=ranker,
    )


def probed_clusters(config: Config, clusters: int, beam: int) -> int:
    """Convert a beam, which counts the config's clusters, to a number of the shortlister's clusters."""
    return min(-(-beam * clusters // (config.clusters or clusters)), clusters)


def _module_with_sizes(module: M, epochs: float, rate: float) -> M:
    return replace(module, epochs=module.epochs or max(1, round(epochs)), learning_rate=module.learning_rate or rate)


def plan_of(config: Config, module: Module, **changes: Any) -> Plan:
    schedule = Halving(after=module.halve_after)
    return config.plan(epochs=module.epochs, learning_rate=module.learning_rate, schedule=schedule, **changes)


def ranker_plan(config: Config) -> Plan:
    return plan_of(config, config.ranker, lazy=True, optimiser=config.ranker.optimiser)
