"""The settings of DECAF, and those that the size of the data decides."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ConfigError
from laconic.methods.common import BOUNDS, check_known, check_within, sized_batch, sized_length
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
    epochs: int = 0  # 0: of all, half for the surrogate task and a quarter for either other
    learning_rate: float = 0.0  # 0: learning_rate for the surrogate task, 0.8 of it for the others
    halve_after: float = 0.5  # share of its epochs until the learning rate is first halved
    dropout: float = 0.2

    def __post_init__(self) -> None:
        check_within(self, {"epochs": (0, 100_000), "learning_rate": (0, 100), "halve_after": (0, 1)})
        check_within(self, {"dropout": (0, 0.99)})


@dataclass(frozen=True, kw_only=True)
class Config:
    epochs: int = 0  # of all modules; 0: from 28 for half a million texts and more to 84 for a few
    batch_size: int = 0  # 0: 256, less for small data
    learning_rate: float = 0.01  # of the surrogate task
    seed: int = 29
    length: int = 0  # words of a text that are read; 0: as many as 99.5 % of texts have
    embedding: int = 300
    permutation: int = 0  # a seed that puts the dimensions of `vectors` in another order; 0: as they are
    surrogate: Module = Module(dropout=0.5)  # I: word vectors, by clusters whose rows are their texts alone
    shortlister: Module = Module()  # II: clusters anew, of what those word vectors say, with rows of their own
    ranker: Module = Module()  # IV: a row for every label, against the labels of a text's best clusters
    shortlist: str = "clusters"  # or nearest: labels by their centroids, in place of module II
    nearness: Nearness = NEARNESS  # of models of earlier versions with shortlist=nearest
    clusters: int = 0  # a power of two; 0: the largest that leaves `cluster_size` labels a cluster, at most 131,072
    cluster_size: int = 4
    # Clusters whose labels are scored; 0: as many as it takes for `recall`. Nearest labels are as many as so many
    # clusters would have.
    beam: int = 0
    answer_beam: int = 0  # the same when texts are answered; 0: beam
    recall: float = 0.85  # share of true labels that are in the clusters opened
    most_opened: float = 0.125  # the share of clusters that `recall` may open; 1: all, if it takes them
    recall_on: str = "held-out"  # texts, or training texts as in the paper
    missing: bool = True  # true labels that the shortlister misses are learnt; the code does without them
    label_text: bool = True  # rows are made of labels' texts
    refinement: bool = True  # and of a vector that each label learns
    start: str = "text"  # of refinement vectors: the label's text, or random
    cluster_text: str = "together"  # a cluster's texts as one, of length 1; or apart: the sum of what each one gives
    bias: bool = True  # of clusters and labels; the paper has none
    prior: bool = True  # biases start at log-odds, not at 0, and clusters have some in the surrogate task too
    own_vectors: bool = True  # the shortlister keeps those it was learnt on; if not, it reads the ranker's
    lite: bool = False  # word vectors stay as the surrogate task leaves them
    given_vectors: bool = False  # word vectors stay as `vectors` has them, and there is no surrogate task
    validation: float = 0.05  # share of training texts that choose epoch and beam; 0: the last epoch is kept
    vectors: str = ""  # a file of word vectors to start from
    clustering: Clustering = Clustering()
    text: Splitter = Splitter()
    vocabulary: VocabularyConfig = VocabularyConfig()

    def __post_init__(self) -> None:
        bounds = {name: bound for name, bound in BOUNDS.items() if "dropout" not in name}
        most: dict[str, tuple[int | float, int | float]] = dict.fromkeys(
            ("clusters", "beam", "answer_beam"), (0, 1 << 30)
        )
        check_within(self, bounds | most | {"recall": (0.01, 1), "most_opened": (1e-9, 1)})
        check_known(self, {"shortlist": SHORTLISTS, "start": STARTS, "cluster_text": CLUSTER_TEXTS})
        check_known(self, {"recall_on": TEXTS_FOR_RECALL})
        if self.clusters & (self.clusters - 1):
            raise ConfigError(f"clusters must be a power of two (or 0, chosen by the data), but is {self.clusters}")
        if not self.refinement and not self.label_text:
            raise ConfigError("a row is made of a label's text, of a refinement vector, or of both; both are false")
        if self.given_vectors and not self.vectors:
            raise ConfigError("given_vectors keeps word vectors as they are; give some with vectors=FILE")


def sized(config: Config, texts: int, labels: int, usual: int) -> Config:
    """The config with a number wherever the data decides; `usual` is how many words 99.5 % of texts do not exceed."""
    if config.clusters > labels:
        raise ConfigError(f"clusters must be at most the {counted(labels, 'label')}, but is {config.clusters:,}")
    if config.nearness != NEARNESS:
        raise ConfigError(
            "nearness is a setting of earlier versions; beam says how many of the nearest labels are taken"
        )
    epochs = config.epochs or round(np.clip(28 * (485_000 / max(texts, 1)) ** 0.5, 28, 84))
    surrogate = _sized(config.surrogate, epochs / 2, config.learning_rate)
    shortlister, ranker = (
        _sized(module, epochs / 4, 0.8 * config.learning_rate) for module in (config.shortlister, config.ranker)
    )
    return replace(
        config,
        epochs=sum(module.epochs for module in (surrogate, shortlister, ranker)),
        batch_size=sized_batch(config.batch_size, texts, 256),
        length=sized_length(config.length, usual, bag=True),
        clusters=config.clusters or 1 << int(np.log2(np.clip(labels // config.cluster_size, 1, _MOST_CLUSTERS))),
        surrogate=surrogate,
        shortlister=shortlister,
        ranker=ranker,
    )


def opened(config: Config, clusters: int, beam: int) -> int:
    """Return how many of a shortlister's clusters a beam opens, where the config may count other, larger clusters."""
    return min(-(-beam * clusters // (config.clusters or clusters)), clusters)


def _sized(module: Module, epochs: float, rate: float) -> Module:
    return replace(module, epochs=module.epochs or max(1, round(epochs)), learning_rate=module.learning_rate or rate)


def plan_of(config: Config, module: Module, *, lazy: bool = False) -> Plan:
    return Plan(
        epochs=module.epochs,
        batch_size=config.batch_size,
        learning_rate=module.learning_rate,
        schedule=Halving(after=module.halve_after),
        lazy=lazy,
        seed=config.seed,
    )
