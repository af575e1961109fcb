"""Change the labels of a space of texts and label texts, as a ranker and as a shortlister."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from laconic.evaluation.evaluate import device_of
from laconic.models.rankers import Ranker
from laconic.models.shortlisters.space import NearestInSpace
from laconic.models.siamese_ranker import SiameseRanker
from laconic.training.run import Run
from laconic.update.rankers.additions import Additions, Seen
from laconic.update.rankers.fine_tune import NewTexts, fine_tune_ranker
from laconic.update.rankers.rankers import with_labels, without_labels
from laconic.update.rankers.rows import with_rows
from laconic.update.rankers.shortlisters import shortlister_with_labels, shortlister_without_labels


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


@shortlister_without_labels.register
def _(shortlister: NearestInSpace, kept: Int[Tensor, "kept"]) -> NearestInSpace:
    return shortlister.over(_space(without_labels(shortlister.siamese, kept)))


@shortlister_with_labels.register
def _(shortlister: NearestInSpace, additions: Additions, labels: Seen) -> NearestInSpace:
    """Place the new labels by the space's own encoder, whose vectors are not those of the ranker."""
    return shortlister.over(_space(with_labels(shortlister.siamese, additions)))


def _space(ranker: Ranker) -> SiameseRanker:
    assert isinstance(ranker, SiameseRanker)
    return ranker


def _with_vectors(ranker: SiameseRanker, rows: Float[Tensor, "labels dim"]) -> SiameseRanker:
    assert ranker.labels.bias is not None
    biases = ranker.labels.bias[:1].expand(len(rows)).clone()
    return SiameseRanker(ranker.space, with_rows(ranker.labels, rows.detach(), biases), chunk=ranker.chunk).eval()
