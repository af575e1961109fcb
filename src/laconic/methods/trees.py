"""trees: linear classifiers over words and pairs of words, in label trees searched by beam (Parabel, Bonsai).

Labels of similar texts are close in a tree. Each child of a node has a classifier, trained only on texts that have a
label under that node. A label's score is the product of probabilities along its path, averaged over all trees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from laconic.config import Bounds
from laconic.data.dataset import Dataset
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ModelError
from laconic.methods.config import MethodConfig
from laconic.methods.result import Trained
from laconic.methods.validation import calibrates_apart, calibration_parts
from laconic.models.label_trees.features import Reading, feature_rows
from laconic.models.label_trees.forest import join_trees
from laconic.models.label_trees.grow import GrowSettings, grow_trees
from laconic.models.label_trees.learn import LearnSettings
from laconic.models.label_trees.solver import SolverSettings
from laconic.models.shortlisters.nearest import tensor_of
from laconic.models.trees_ranker import StoredForest, TreesRanker
from laconic.training.run import Run

KERNELS = "trees-kernels"  # a stage
_FEW = 256  # texts that suffice to compile the kernels
_TOLERANCE = 0.1  # of a classifier's gradients, as elsewhere: 0.03 takes longer and finds the same labels


@dataclass(frozen=True, kw_only=True)
class Config(MethodConfig):
    """Settings of label trees."""

    bounds: ClassVar[Bounds] = {
        "trees": (1, 64),
        "fan_out": (2, 1 << 15),
        "leaf": (2, 1 << 15),
        "cost": (1e-6, 1e6),
        "threshold": (0, 1000),
        "epochs": (1, 10_000),
        "beam": (1, 1 << 20),
        "pairs": (0, 1 << 28),
        "validation": (0, 0.9),
        "calibration": (0, 0.9),
        "seed": (0, 1 << 40),
    }

    trees: int = 3
    """Label trees whose scores are averaged. Symbol: T (Parabel)."""
    fan_out: int = 512
    """Most children of a node above the last level, rounded to a power of two. Symbol: K (Bonsai)."""
    leaf: int = 100
    """Most labels of a node of the last level. Symbol: M (Parabel)."""
    cost: float = 1.0
    """Weight of errors against the norm of the weights in a classifier's objective. Symbol: C (liblinear)."""
    threshold: float = 0.1
    """Weights below this absolute value are dropped. Symbol: Δ (Parabel)."""
    epochs: int = 3
    """Most passes of a classifier's solver over all its texts. Two over the texts that matter follow each."""
    beam: int = 10
    """Nodes searched per level of a tree. Symbol: P (Parabel)."""
    pairs: int = 1 << 20
    """Hash buckets for pairs of neighbouring words. 0: words alone."""
    validation: float = 0.0
    """Fraction of training texts held out for wrappers, such as fusion, that learn from them. 0: none."""
    calibration: float = 0.05
    """Fraction of the texts, at least 300 and at most 5,000 of them, by which scores are calibrated where `validation`
    is 0: they are ranked by one more tree, which has not seen them and is not kept. 0: scores are not calibrated.
    """
    seed: int = 0
    """Seed of the trees' random choices."""
    vocabulary: VocabularyConfig = VocabularyConfig(sublinear=True)


def train(data: Dataset, config: Config, run: Run) -> Trained:
    learnt_from, _ = data.split(config.validation, config.seed)

    def trees_in_time(seconds: float) -> int:
        return run.amount("trees", config.trees, "tree", lambda: seconds, done=1)

    limited = run.deadline is not None and run.deadline.is_limit
    if run.deadline is not None:  # a first use of the kernels compiles them, which says nothing of a tree's time
        with run.stage(KERNELS):
            build(learnt_from.rows(np.arange(min(_FEW, len(learnt_from)))), replace(config, trees=1))
    with run.stage("trees") as advance:
        ranker = build(learnt_from, config, advance, trees_in_time if limited else None)
    config = replace(config, trees=trees_in_time(0.0))
    if not calibrates_apart(data, config):
        return Trained(ranker, config)
    # One tree is enough: its scores are nearly as often true as the mean of several (docs/log.md).
    others, _ = calibration_parts(data, config.calibration)
    with run.stage("trees-for-calibration") as advance:
        return Trained(ranker, config, calibration_ranker=build(others, replace(config, trees=1), advance))


def build(
    data: Dataset,
    config: Config,
    advance: Callable[[float], None] = lambda fraction: None,
    trees_in_time: Callable[[float], int] | None = None,
) -> TreesRanker:
    """Train on all of the data; texts of weight 0 or without labels have no effect.

    `advance` gets the fraction that is done, time and again. `trees_in_time` returns the number of trees after the
    first one has taken so many seconds; by default they are as many as the config says.
    """
    data = _weighted_texts(data)
    reading = _reading(data, config)
    rows = feature_rows(data.inputs, reading)
    learning = LearnSettings(config.cost, config.threshold, SolverSettings(_TOLERANCE, config.epochs))
    growing = GrowSettings(config.fan_out, config.leaf, learning)
    if trees_in_time is None:
        trees = grow_trees(data, rows, growing, range(config.seed, config.seed + config.trees), advance)
    else:
        began = monotonic()
        trees = grow_trees(data, rows, growing, [config.seed], partial(_of_all, advance, 0, 1, config.trees))
        count = trees_in_time(monotonic() - began)
        further = range(config.seed + 1, config.seed + count)
        trees += grow_trees(data, rows, growing, further, partial(_of_all, advance, 1, count - 1, count))
    return TreesRanker(StoredForest.of(join_trees(trees)), reading, beam=config.beam)


def _of_all(advance: Callable[[float], None], before: int, own: int, trees: int, fraction: float) -> None:
    """Report the fraction of some trees as one of all trees."""
    advance((before + own * fraction) / trees)


def restore(config: Config, tensors: Mapping[str, Tensor]) -> TreesRanker:
    """Restore the ranker from its state_dict, after checking every number that compiled loops use as an index."""
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


def _weighted_texts(data: Dataset) -> Dataset:
    """Return the texts of a weight above 0, with label values scaled to at most 1, times the labels' weights."""
    labels = csr_array(data.labels / data.labels.data.max(initial=np.finfo(np.float32).tiny))
    if data.label_weights is not None:
        labels.data *= data.label_weights[labels.indices]
    data = replace(data, labels=labels)
    return data if data.weights is None else data.rows(np.flatnonzero(data.weights > 0))


def _reading(data: Dataset, config: Config) -> Reading:
    """Choose the features: no pairs where words have no order, fewer buckets for little data."""
    ids = data.inputs.shape[1]
    if not data.ordered or not isinstance(data.inputs, csr_array):
        return Reading(ids, ids, 0)
    enough = 1 << (4 * data.inputs.nnz).bit_length()
    return Reading(ids - config.vocabulary.subwords, ids, min(config.pairs, enough))
