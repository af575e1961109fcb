"""Change the labels of a fused ranker."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

from laconic.models.fusion.ranker import FusedRanker
from laconic.training.run import Run
from laconic.update.rankers.additions import Additions
from laconic.update.rankers.fine_tune import Lesson, taught
from laconic.update.rankers.rankers import with_labels, without_labels


@without_labels.register
def _(ranker: FusedRanker, kept: Int[Tensor, "kept"]) -> FusedRanker:
    base, near = without_labels(ranker.base, kept), without_labels(ranker.nearest, kept)
    trees = None if ranker.trees is None else without_labels(ranker.trees, kept)
    return ranker.of(base, near, ranker.frequency[kept.to(ranker.frequency.device)], trees).eval()


@with_labels.register
def _(ranker: FusedRanker, additions: Additions) -> FusedRanker:
    """What was learnt of weighing holds for new labels too: it goes by frequency, words and places, not by names."""
    base, near = with_labels(ranker.base, additions), with_labels(ranker.nearest, additions)
    trees = None if ranker.trees is None else with_labels(ranker.trees, additions)
    known = functional.pad(ranker.frequency.expm1(), (0, additions.num_new))
    frequency = (known + torch.from_numpy(additions.examples.label_counts)).log1p().float()
    return ranker.of(base, near, frequency, trees).eval()


@taught.register
def _(ranker: FusedRanker, lesson: Lesson, run: Run) -> FusedRanker:
    trees = None if ranker.trees is None else taught(ranker.trees, lesson, run)
    return ranker.of(taught(ranker.base, lesson, run), ranker.nearest, ranker.frequency, trees)
