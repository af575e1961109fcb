"""trees: linear classifiers over words and pairs of words, in trees of labels searched by beam (Parabel, Bonsai).

Labels that like texts have lie together in a tree. Each child of a node has a classifier, learnt from texts that have
some label under that node alone. A label's score is the product of the chances on the way to it, the mean of all trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ModelError
from laconic.methods.common import check_within
from laconic.methods.result import Trained
from laconic.models.label_trees.features import Reading, feature_rows
from laconic.models.label_trees.forest import join_trees
from laconic.models.label_trees.grow import GrowSettings, grow_tree
from laconic.models.label_trees.learn import LearnSettings, SolverSettings
from laconic.models.shortlisters.nearest import tensor_of
from laconic.models.trees_ranker import StoredForest, TreesRanker
from laconic.training.run import Run

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
    rows = feature_rows(data.inputs, reading)
    learning = LearnSettings(config.cost, config.threshold, SolverSettings(_TOLERANCE, config.epochs))
    growing = GrowSettings(config.fan_out, config.leaf, learning)
    trees = [grow_tree(data, rows, growing, config.seed + number) for number in range(config.trees)]
    return TreesRanker(StoredForest.of(join_trees(trees)), reading, beam=config.beam)


def restore(config: Config, tensors: Mapping[str, Tensor]) -> TreesRanker:
    """The ranker from its state_dict, whose every number is looked at before a compiled loop follows it."""
    reading = Reading(*(_count_of(tensors, name) for name in Reading._fields))
    if not reading.is_sound():
        raise ModelError(
            f"the model's tensors words, ids and pairs are {', '.join(map(str, reading))}, which cannot be; the file "
            "is damaged: fetch it again"
        )
    return TreesRanker(StoredForest.of_tensors(tensors, "trees"), reading, beam=config.beam)


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


# Other labels and words
