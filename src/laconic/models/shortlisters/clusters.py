"""Learnt clusters: a classifier ranks clusters of labels, and the best ones' labels are scored.

Labels are numbered here by their place in the tree, so that a cluster is a range of rows; rankers map names back.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from laconic.data.shards import Shard
from laconic.kernels.triton import HAS_KERNELS
from laconic.kernels.triton.largest import largest_places
from laconic.kernels.triton.shortlist import Shortlist, members
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import LabelTree
from laconic.models.shortlisters.base import Shortlister, pad_ranking
from laconic.types import NO_LABEL, Inputs, Ranking

_ALWAYS = 1e4  # more than any score, and small enough to keep the order of true clusters


class Clusters(nn.Module):
    """A classifier over the clusters of a label tree; several ranks share them, each with the labels of its own."""

    order: Tensor
    starts: Tensor
    own_starts: Tensor
    """Where the labels of each own cluster start, counted from the first own label."""

    def __init__(self, classifier: LinearClassifier, tree: LabelTree) -> None:
        super().__init__()
        self.classifier, self.size = classifier, tree.size
        self.register_buffer("order", tree.order)
        self.register_buffer("starts", tree.starts)
        own = slice(self.shard.first, self.shard.last + 1)
        self.register_buffer("own_starts", tree.starts[own] - tree.starts[own.start], persistent=False)
        # How many labels the smallest clusters have together: on the host, which asks for it.
        self._least = tree.starts.cpu().diff().sort().values.cumsum(0).numpy()

    def forward(self, vectors: Float[Tensor, "batch dim"], top: int) -> Ranking:
        """Return the best clusters of each text, best first, of all ranks."""
        best = self.classifier.score_all(vectors).topk(min(top, len(self.shard)))
        return self.shard.best(Ranking(best.indices, best.values), top)

    @property
    def shard(self) -> Shard:
        """Return which of all clusters are owned here."""
        return self.classifier.shard

    def enough(self, labels: int) -> int:
        """Return how many clusters have that many labels together, whichever they are, or the number of all."""
        usual = max(len(self.order) // len(self._least), 1)
        return min(max(-(-labels // usual), int(self._least.searchsorted(labels)) + 1), len(self._least))

    def members(self, clusters: Int[Tensor, "batch k"]) -> Int[Tensor, "batch n"]:
        """Return the own labels of these clusters, of all ranks' clusters; NO_LABEL for those of other ranks."""
        own = self.shard.numbered(clusters)
        return members(torch.where(own == NO_LABEL, len(self.shard), own), self.own_starts, self.size)

    def of(self, labels: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """Return the own cluster of each own label; NO_LABEL stays."""
        cluster = torch.searchsorted(self.own_starts, labels.clamp(min=0), right=True) - 1
        return torch.where(labels == NO_LABEL, NO_LABEL, cluster)

    def of_places(self, places: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """Return the cluster of each label among the clusters and labels of all ranks."""
        return torch.searchsorted(self.starts, places, right=True) - 1

    @torch.no_grad()
    def pick(self, transformed: Float[Tensor, "batch dim"], true: Int[Tensor, "batch p"], top: int) -> Shortlist:
        """Pick each text's clusters for training: its true ones first, at most `top`, then the best others.

        Of the clusters that all ranks pick together, this rank has its own.
        """
        scores = self.classifier.score_range(transformed, slice(0, self.classifier.num_labels))
        scores = scores.scatter_add_(1, true.clamp(min=0), (true != NO_LABEL) * _ALWAYS)
        count = min(top, len(self.shard))
        by_kernel = scores.is_cuda and HAS_KERNELS
        best = largest_places(scores, count) if by_kernel else scores.topk(count, sorted=False).indices
        return Shortlist(self.shard.picked(Ranking(best, scores.gather(1, best)), top), self.own_starts, self.size)


def label_shard(clusters: Shard, starts: Int[Tensor, "bounds"]) -> Shard:
    """Return the shard of the labels whose clusters are of a shard."""
    return Shard(clusters.ranks, tuple(starts[list(clusters.bounds)].tolist()))


class OfClusters(Shortlister):
    """Shortlists the labels of the best clusters, with their cluster's score."""

    def __init__(self, clusters: Clusters, size: int) -> None:
        super().__init__()
        self.clusters, self.num_labels, self.size = clusters, len(clusters.order), size

    def forward(self, inputs: Inputs, vectors: Float[Tensor, "batch dim"], size: int) -> Ranking:
        picked = self.clusters(vectors, self.clusters.enough(size))
        places = self.clusters.members(picked.labels)
        # Clusters smaller than the largest leave gaps: labels move to the front.
        there, order = (places != NO_LABEL).sort(dim=1, descending=True, stable=True)
        scores = picked.scores.repeat_interleave(self.clusters.size, dim=1).gather(1, order)[:, :size]
        labels = self.clusters.order[places.gather(1, order)[:, :size].clamp(min=0)]
        none = ~there[:, :size]
        return pad_ranking(Ranking(labels.masked_fill(none, NO_LABEL), scores.masked_fill(none, 0)), size)


def joined(
    clusters: Int[Tensor, "batch p"], targets: Float[Tensor, "batch p"]
) -> tuple[Int[Tensor, "batch p"], Float[Tensor, "batch p"]]:
    """Merge repeated clusters of a row, keeping the largest target; rows end in NO_LABEL."""
    clusters, order = clusters.sort(dim=1)
    first = torch.ones_like(clusters, dtype=torch.bool)
    first[:, 1:] = clusters[:, 1:] != clusters[:, :-1]
    place = first.cumsum(1) - 1
    return (
        torch.full_like(clusters, NO_LABEL).scatter_(1, place, clusters),
        torch.zeros_like(targets).scatter_reduce_(1, place, targets.gather(1, order), "amax"),
    )
