"""Learnt clusters: a classifier of its own ranks clusters of labels, and the labels of the best are worth scoring.

Labels are numbered here by their place in the tree, so that a cluster is a range of rows; rankers map names back.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from laconic.classifiers import LinearClassifier
from laconic.clustering import LabelTree
from laconic.kernels.shortlist import Shortlist, members
from laconic.types import NO_LABEL, Ranking

_ALWAYS = 1e9  # more than any score


class Clusters(nn.Module):
    order: Tensor
    starts: Tensor

    def __init__(self, classifier: LinearClassifier, tree: LabelTree) -> None:
        super().__init__()
        self.classifier, self.size = classifier, tree.size
        self.register_buffer("order", tree.order)
        self.register_buffer("starts", tree.starts)

    def forward(self, vectors: Float[Tensor, "batch dim"], top: int) -> Ranking:
        """The best clusters of each text, best first."""
        best = self.classifier.score_all(vectors).topk(top)
        return Ranking(best.indices, best.values)

    def members(self, clusters: Int[Tensor, "batch k"]) -> Int[Tensor, "batch n"]:
        """The labels of these clusters."""
        return members(clusters, self.starts, self.size)

    def of(self, labels: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """The cluster of each label; NO_LABEL has none and stays."""
        cluster = torch.searchsorted(self.starts, labels.clamp(min=0), right=True) - 1
        return torch.where(labels == NO_LABEL, NO_LABEL, cluster)

    @torch.no_grad()
    def pick(self, transformed: Float[Tensor, "batch dim"], true: Int[Tensor, "batch p"], top: int) -> Shortlist:
        """For training: the true clusters of each text, and the best others."""
        scores = self.classifier.score_range(transformed, slice(0, self.classifier.num_labels))
        scores = scores.scatter_add(1, true.clamp(min=0), (true != NO_LABEL) * _ALWAYS)
        return Shortlist(scores.topk(top, sorted=False).indices, self.starts, self.size)


def joined(
    clusters: Int[Tensor, "batch p"], targets: Float[Tensor, "batch p"]
) -> tuple[Int[Tensor, "batch p"], Float[Tensor, "batch p"]]:
    """Every cluster of a row once, as true as the truest of its labels; what is left over is NO_LABEL."""
    clusters, order = clusters.sort(dim=1)
    first = torch.ones_like(clusters, dtype=torch.bool)
    first[:, 1:] = clusters[:, 1:] != clusters[:, :-1]
    place = first.cumsum(1) - 1
    return (
        torch.full_like(clusters, NO_LABEL).scatter_(1, place, clusters),
        torch.zeros_like(targets).scatter_reduce_(1, place, targets.gather(1, order), "amax"),
    )
