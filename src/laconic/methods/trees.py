"""trees: linear classifiers over words and pairs of words, in trees of labels searched by beam (Parabel, Bonsai).

Labels that like texts have lie together in a tree. Each child of a node has a classifier, learnt from texts that have
some label under that node alone. A label's score is the product of the chances on the way to it, the mean of all trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array, vstack
from torch import Tensor

from laconic.update.rankers import Additions, Lesson, NewWords, taught, with_labels, without_labels
from laconic.update.rankers.words import add_words, with_empty_ranges
from laconic.data.dataset import Dataset
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ModelError
from laconic.models.label_trees.forest import Forest, Ways, joined, ways_of
from laconic.models.label_trees.edit import grafted, pruned
from laconic.models.label_trees.learn import NOTHING, Learning
from laconic.models.label_trees.grow import Growing, planted
from laconic.models.label_trees.rows import Reading, features_of, of_length_one
from laconic.models.label_trees.search import Room, make_room, rank_texts, score_texts
from laconic.models.label_trees.solver import Solving
from laconic.models.label_trees.buffers import StoredForest
from laconic.methods.common import check_within
from laconic.methods.result import Trained
from laconic.models.rankers import Ranker
from laconic.training.run import Run
from laconic.kernels.csr import TRACE, Lists, in_threads
from laconic.models.shortlisters.nearest import tensor_of, words_of
from laconic.types import NO_LABEL, Inputs, Ranking, Tokens

_TOLERANCE = 0.1  # of a classifier's slopes, as others have it: 0.03 takes longer and finds the same labels


@dataclass(frozen=True, kw_only=True)
class Config:
    trees: int = 3  # whose scores are averaged
    fan_out: int = 512  # children of a node at most, above the last; counted in powers of two
    leaf: int = 100  # labels of a last node at most
    cost: float = 1.0  # of a mistake, against the weights' length
    threshold: float = 0.1  # weights below it are dropped
    epochs: int = 8  # of a classifier at most
    beam: int = 10  # nodes that are opened on each level
    pairs: int = 1 << 20  # buckets that pairs of neighbouring words are hashed into; 0: words alone
    validation: float = 0.0  # share of training texts that are not learnt from, for what is learnt over this method
    seed: int = 0
    text: Splitter = Splitter()
    vocabulary: VocabularyConfig = VocabularyConfig(sublinear=True)

    def __post_init__(self) -> None:
        check_within(self, _BOUNDS)


_BOUNDS = {
    "trees": (1, 64),
    "fan_out": (2, 1 << 15),
    "leaf": (2, 1 << 15),
    "cost": (1e-6, 1e6),
    "threshold": (0, 1000),
    "epochs": (1, 10_000),
    "beam": (1, 1 << 20),
    "pairs": (0, 1 << 28),
    "validation": (0, 0.9),
    "seed": (0, 1 << 40),
}


def train(data: Dataset, config: Config, run: Run) -> Trained:
    learnt_from, _ = data.split(config.validation, config.seed)
    return Trained(build(learnt_from, config), config)


def build(data: Dataset, config: Config) -> TreesRanker:
    """Learns from all of the data; texts that count for nothing, or have no label, teach nothing."""
    data = _with_something(data)
    reading = _reading(data, config)
    rows = _rows(data.inputs, reading)
    learning = Learning(config.cost, config.threshold, Solving(_TOLERANCE, config.epochs))
    growing = Growing(config.fan_out, config.leaf, learning)
    trees = [planted(data, rows, growing, config.seed + number) for number in range(config.trees)]
    return TreesRanker(config, StoredForest.of(joined(trees)), reading)


def restore(config: Config, tensors: Mapping[str, Tensor]) -> TreesRanker:
    """The ranker from its state_dict, whose every number is looked at before a compiled loop follows it."""
    reading = Reading(*(_count_of(tensors, name) for name in Reading._fields))
    if not reading.is_sound():
        raise ModelError(
            f"the model's tensors words, ids and pairs are {', '.join(map(str, reading))}, which cannot be; the file "
            "is damaged: fetch it again"
        )
    return TreesRanker(config, StoredForest.of_tensors(tensors, "trees"), reading)


def _count_of(tensors: Mapping[str, Tensor], name: str) -> int:
    count = tensor_of(tensors, name, torch.int64)
    if count.ndim:
        raise ModelError(f"the model's tensor {name!r} must be one number; the file is damaged: fetch it again")
    return int(count)


def _with_something(data: Dataset) -> Dataset:
    """The texts that have a weight; labels have numbers of 0 to 1."""
    labels = csr_array(data.labels / data.labels.data.max(initial=np.finfo(np.float32).tiny))
    data = replace(data, labels=labels)
    return data if data.weights is None else data.rows(np.flatnonzero(data.weights > 0))


def _reading(data: Dataset, config: Config) -> Reading:
    """Words without reading order have no neighbours; a few texts need few buckets."""
    ids = data.inputs.shape[1]
    if not data.ordered or not isinstance(data.inputs, csr_array):
        return Reading(ids, ids, 0)
    enough = 1 << (4 * data.inputs.nnz).bit_length()
    return Reading(ids - config.vocabulary.subwords, ids, min(config.pairs, enough))


def _rows(inputs: csr_array | Float[np.ndarray, "texts dim"], reading: Reading) -> Lists:
    sparse = isinstance(inputs, csr_array)
    return features_of(Lists.of(inputs), reading) if sparse else of_length_one(Lists.dense(inputs))


class TreesRanker(Ranker):
    """Trees of labels that are searched for a text's features."""

    def __init__(self, config: Config, trees: StoredForest, reading: Reading) -> None:
        super().__init__()
        self.config = config
        self.read(trees, reading)
        self.num_labels = self.ways.child_of.shape[1]

    def read(self, trees: StoredForest, reading: Reading) -> None:
        """Go by these trees, whose features are numbered as the reading says."""
        self.trees, self.features = trees, reading
        for name, count in reading._asdict().items():
            self.register_buffer(name, torch.tensor(count))
        for name in ("forest", "ways"):
            self.__dict__.pop(name, None)  # what was derived from other trees

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        queries, trees = self._queries(inputs), (self.forest, self.ways)
        labels = np.full((len(queries.starts) - 1, k), NO_LABEL, dtype=np.int64)
        scores = np.zeros(labels.shape, dtype=np.float32)

        def work(first: int, last: int) -> None:
            room = self._room()
            rank_texts(trees, queries, self.config.beam, (first, last), room, (labels, scores))

        in_threads(len(labels), work)
        return Ranking(torch.from_numpy(labels), torch.from_numpy(scores))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        queries, trees, wanted = self._queries(inputs), (self.forest, self.ways), labels.numpy()
        assert wanted.max(initial=NO_LABEL) < self.num_labels
        scores = np.zeros(wanted.shape, dtype=np.float32)

        def work(first: int, last: int) -> None:
            room = self._room()
            score_texts(trees, queries, (first, last), room, (wanted, scores))

        in_threads(len(wanted), work)
        return torch.from_numpy(scores)

    def with_forest(self, forest: Forest) -> TreesRanker:
        """The same over other trees."""
        return TreesRanker(self.config, StoredForest.of(forest), self.features)

    @cached_property
    def forest(self) -> Forest:
        return self.trees.forest()

    @cached_property
    def ways(self) -> Ways:
        return ways_of(self.forest)

    def _room(self) -> Room:
        room: Room = make_room(len(self.ways.child_to), self.num_labels, len(self.forest.roots))
        return room

    def _queries(self, inputs: Inputs) -> Lists:
        if isinstance(inputs, Tokens):
            return features_of(words_of(inputs), self.features)
        return of_length_one(Lists.dense(inputs.numpy()))


# Other labels and words


@add_words.register
def _(ranker: TreesRanker, words: NewWords) -> None:
    """Give new words features without weights: trees know them once a label with such words joins."""
    forest, reading = ranker.forest, ranker.features
    grown = reading._replace(words=reading.words + words.count, ids=reading.ids + words.count)
    forest = forest._replace(feature_starts=with_empty_ranges(forest.feature_starts, words))
    ranker.read(StoredForest.of(forest), grown)


@without_labels.register
def _(ranker: TreesRanker, kept: Int[Tensor, "kept"]) -> TreesRanker:
    """Trees stay as they are but for the labels: so others have the same scores as before."""
    return ranker.with_forest(pruned(ranker.forest, kept.numpy(), ranker.num_labels))


@with_labels.register
def _(ranker: TreesRanker, additions: Additions) -> TreesRanker:
    """A classifier that gives a label's own text and examples a score of 1 on average, and strange texts NOTHING.

    Of examples that known labels have, nothing is learnt.
    """
    own = vstack([additions.label_texts, additions.examples.inputs], format="csr")
    texts_of, rows = additions.texts_of_new(), _rows(own, ranker.features)
    texts_of.data /= np.repeat(texts_of.sum(axis=1), np.diff(texts_of.indptr))
    shape = own.shape[0], max(ranker.features.size, own.shape[1])  # a stranger's model may count fewer
    means = csr_array(texts_of @ csr_array((rows.values, rows.numbers, rows.starts), shape=shape))
    lengths = np.repeat(means.power(2).sum(axis=1), np.diff(means.indptr))  # squared: the mean cosine to the mean
    means.data *= (1 - NOTHING) / np.maximum(lengths, TRACE)
    biases = np.full(additions.num_new, NOTHING, dtype=np.float32)
    return ranker.with_forest(grafted(ranker.forest, means, biases, ranker.num_labels))


@taught.register
def _(ranker: TreesRanker, lesson: Lesson, run: Run) -> TreesRanker:
    """New labels have their classifiers already; what known ones have learnt stays as it is."""
    return ranker
