"""Change the labels of a space of texts and label texts."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from laconic.evaluation.evaluate import device_of
from laconic.models.siamese_ranker import SiameseRanker
from laconic.training.run import Run
from laconic.update.rankers.additions import Additions, Seen
from laconic.update.rankers.fine_tune import NewTexts, fine_tune_ranker
from laconic.update.rankers.rankers import with_labels, without_labels
from laconic.update.rankers.rows import with_rows


@without_labels.register
def _(ranker: SiameseRanker, kept: Int[Tensor, "kept"]) -> SiameseRanker:
    return _with_vectors(ranker, ranker.labels.weight[kept])


@with_labels.register
def _(ranker: SiameseRanker, additions: Additions) -> SiameseRanker:
    """Give a new label the mean direction of its own text and of its examples."""
    new = Seen.by(ranker.space, additions, device_of(ranker)).new
    scale = ranker.labels.weight.norm(dim=1).max()
    return _with_vectors(ranker, torch.cat([ranker.labels.weight, scale * functional.normalize(new, dim=1)]))


@fine_tune_ranker.register
def _(ranker: SiameseRanker, texts: NewTexts, run: Run) -> SiameseRanker:
    """Return the ranker as it is: its rows are texts of labels, which new texts do not change."""
    return ranker


def _with_vectors(ranker: SiameseRanker, rows: Float[Tensor, "labels dim"]) -> SiameseRanker:
    assert ranker.labels.bias is not None
    biases = ranker.labels.bias[:1].expand(len(rows)).clone()
    return SiameseRanker(ranker.space, with_rows(ranker.labels, rows.detach(), biases), chunk=ranker.chunk).eval()
