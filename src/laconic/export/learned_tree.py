"""Learns clusters of labels, and the rows that select them, from texts.

A cluster is worth opening where its best label is among a text's best. Its row learns just that, for texts seen along
the few directions in which they differ most: such a row is short, so there may be many clusters, of few labels each.
Where they are too many to score all of them for every text, rows of groups of clusters learn the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float16, Int
from torch import Tensor

from laconic.models.clustering import cluster_vectors
from laconic.packed.engine.halves import in_halves
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.transforms import Layer, Transform

# One of so many labels, the likeliest of all, is always scored: it may be among the best of any text. But no more than
# so many are, since all of them are read for every text.
_ALWAYS, _MOST_ALWAYS = 256, 512
_CLUSTER = 6  # labels of a cluster, at least
_LEARNABLE = 8192  # clusters that few texts are enough for; more take as many texts to learn
SCANNED = 2048  # clusters that are all scored for every text; where there are more, they are in groups
_MOST_CLUSTERS = 1 << 16
GROUP = 16  # clusters of a group
OPEN = 8  # one of so many groups is probed, where nothing says how many it takes
_DIRECTIONS = 128
_BEST = 5  # as good as the fifth best is good enough
_PENALTY = 1e-3  # of a regression, as a fraction of what its inputs add up to
_FLOOR = 1e-2  # of a direction's spread, as a fraction of the mean: what hardly differs is not stretched without end
_SCORES, _SCORES_ON_GPU = 1 << 32, 1 << 36  # texts × labels that are looked at, at most
_AT_ONCE, _AT_ONCE_ON_GPU = 1 << 25, 1 << 27  # and together
_ROOM = 4  # one of so many bytes of a GPU may hold what texts make of clusters
FAR = 1000.0  # scores that are farther apart than this are as good as so far
_EPOCHS, _BATCH, _RATE = 4, 256, 0.006


class LabelRows(NamedTuple):
    """The rows and biases of a classifier."""

    rows: Float[np.ndarray, "labels dim"]
    biases: Float[np.ndarray, "labels"]

    @property
    def size(self) -> int:
        return len(self.rows)

    def ordered(self, order: Int[np.ndarray, "labels"]) -> LabelRows:
        return LabelRows(self.rows[order], self.biases[order])


class Branches(NamedTuple):
    """The upper levels of a tree: its clusters and the rows that select them."""

    order: Int[np.ndarray, "labels"]  # the label of each place
    starts: Int[np.ndarray, "bounds"]  # where clusters begin; places before the first are always scored
    clusters: NibbleRows
    groups: dict[str, Any]  # of clusters, as a packed ranker has them: groups, group_starts and open_groups
    reading: Transform | None  # of the encoder's vectors, for clusters; None: they read what labels read


def learnt_branches(
    labels: LabelRows,
    encoded: Float[np.ndarray, "texts width"],
    vectors: Float[np.ndarray, "texts dim"],
    device: torch.device,
) -> Branches:
    """Learn a tree on the device from vectors of texts, `texts_enough` of them or fewer, before and after the
    classifier's transform.
    """
    rows, biases, own = (torch.from_numpy(part).to(device) for part in (*labels, vectors))
    order, starts = _by_profile(rows, biases, own)
    reading = _whitening(encoded, None)
    seen = torch.from_numpy(reading.apply(encoded)).to(device)
    seen = torch.cat([seen, seen.new_ones(len(seen), 1)], 1)  # of which the last weight is a bias
    places = torch.from_numpy(order).to(device)
    heights = _heights(rows[places], biases[places], starts, own)
    rotation = _rotation(seen.shape[1] - 1)
    clusters, groups = _learnt_rows(seen, heights, rotation), _groups(seen, heights, rotation)
    return Branches(order, starts, clusters, groups, _whitening(encoded, rotation))


def texts_enough(labels: int, device: torch.device) -> int:
    """Return how many texts a tree over these labels is learnt from, at most; a GPU looks at more, if they fit.

    Its whole memory counts, not what is free of it, so that one card packs a model into the same tree every time.
    """
    if device.type != "cuda":
        return max(1, _SCORES // labels)
    bytes_of_text = torch.float16.itemsize * _num_clusters(labels, _MOST_CLUSTERS)
    fitting = torch.cuda.get_device_properties(device).total_memory // _ROOM // bytes_of_text
    return max(1, min(_SCORES_ON_GPU // labels, fitting))


def _num_clusters(labels: int, texts: int = 0) -> int:
    """Return how many clusters labels have; more than a few only where so many texts on a GPU teach them."""
    most = min(_MOST_CLUSTERS, max(_LEARNABLE, texts))
    return 1 << int(np.log2(np.clip(labels // _CLUSTER, 1, most)))


def _rotation(directions: int) -> Float[np.ndarray, "directions directions"]:
    """Return a random rotation.

    A learnt row has a few large numbers, for the first directions, and many small ones. After a rotation all are about
    equally large, so that four bits tell them apart; and as rows and vectors are rotated alike, products stay what they
    were. Rows are learnt before, because Adam goes by single directions.
    """
    drawn = np.random.default_rng(0).normal(size=(directions, directions))
    rotation: Float[np.ndarray, "directions directions"] = np.linalg.qr(drawn).Q
    return rotation


def _groups(
    seen: Float[Tensor, "texts inputs"],
    heights: Float16[Tensor, "texts clusters"],
    rotation: Float[np.ndarray, "directions directions"],
) -> dict[str, Any]:
    """Learn which groups of adjacent clusters, which are similar, have a cluster that is high enough."""
    clusters = heights.shape[1]
    if clusters <= SCANNED:
        return {"groups": None, "group_starts": np.array([0, clusters], dtype=np.int32), "open_groups": 1}
    best = heights.view(len(heights), -1, GROUP).amax(2)
    starts = np.arange(0, clusters + 1, GROUP, dtype=np.int32)
    return {"groups": _learnt_rows(seen, best, rotation), "group_starts": starts, "open_groups": best.shape[1] // OPEN}


def _by_profile(
    rows: Float[Tensor, "labels dim"], biases: Float[Tensor, "labels"], vectors: Float[Tensor, "texts dim"]
) -> tuple[Int[np.ndarray, "labels"], Int[np.ndarray, "bounds"]]:
    """Cluster labels by the scores that texts give them; return their order and where clusters begin.

    So directions in which no text differs tell no label apart, and what all rows have in common tells none either.
    """
    always = min(len(rows) // _ALWAYS, _MOST_ALWAYS)
    likeliest = (rows @ vectors.mean(0) + biases).argsort(descending=True, stable=True)
    likely, others = likeliest[:always], likeliest[always:].sort().values
    clusters = _num_clusters(len(others), len(vectors) if rows.is_cuda else 0)
    axes, spread = _principal(vectors.cpu().numpy(), _DIRECTIONS)
    scores = torch.from_numpy((axes * np.sqrt(spread)).astype(np.float32)).to(rows.device)
    profiles = (rows @ scores - rows.mean(0) @ scores)[others]
    tree = cluster_vectors(profiles, clusters, seed=0)
    order = torch.cat([likely, others[tree.order.to(others.device)]])
    return order.cpu().numpy(), always + tree.starts.numpy()


def _whitening(
    encoded: Float[np.ndarray, "texts width"], rotation: Float[np.ndarray, "directions directions"] | None
) -> Layer:
    """Whiten vectors along their principal directions, so that one learning rate suits all, and rotate them.

    Weights are rounded before the mean is taken off by them: it may be many times what vectors differ by.
    """
    weight = whitening_of(encoded, _DIRECTIONS)
    weight = weight if rotation is None else rotation @ weight
    rounded = in_halves(np.ascontiguousarray(weight, dtype=np.float32))
    bias = (-rounded.astype(np.float64) @ encoded.mean(0)).astype(np.float32)
    return Layer.of(rounded, bias, activation="none")


def whitening_of(vectors: Float[np.ndarray, "texts dim"], directions: int) -> Float[np.ndarray, "directions dim"]:
    """Return the principal directions of vectors, each stretched so that vectors differ as much along all of them."""
    axes, spread = _principal(vectors, directions)
    stretched: Float[np.ndarray, "dim directions"] = axes / np.sqrt(
        np.maximum(spread + _FLOOR * spread.mean(), np.finfo(np.float32).tiny)
    )
    return stretched.T


def _principal(
    vectors: Float[np.ndarray, "texts dim"], directions: int
) -> tuple[Float[np.ndarray, "dim directions"], Float[np.ndarray, "directions"]]:
    """Return the principal directions of vectors, and the variance along each, largest first."""
    spread, axes = np.linalg.eigh(np.cov(vectors.T.astype(np.float64)))
    return axes[:, ::-1][:, :directions], np.maximum(spread[::-1][:directions], 0)


def _heights(
    rows: Float[Tensor, "labels dim"],
    biases: Float[Tensor, "labels"],
    starts: Int[np.ndarray, "bounds"],
    vectors: Float[Tensor, "texts dim"],
) -> Float16[Tensor, "texts clusters"]:
    """Return how far each cluster's best label is above the text's threshold."""
    always = int(starts[0])
    bounds = np.concatenate([np.arange(always), starts])  # a label that is always scored is a cluster here
    places = _places(bounds, rows.device) if rows.is_cuda else None
    at_once = _AT_ONCE_ON_GPU if rows.is_cuda else _AT_ONCE
    heights = vectors.new_empty((len(vectors), len(starts) - 1), dtype=torch.float16)
    step = max(1, at_once // len(biases))
    for some, into in zip(torch.split(vectors, step), torch.split(heights, step), strict=True):
        scores = (some @ rows.T).add_(biases)
        best = _largest(scores, bounds) if places is None else _largest_together(scores, places)
        enough = best.topk(min(_BEST, len(bounds) - 1)).values[:, -1:]
        into.copy_((best[:, always:] - enough).clamp_(-FAR, FAR))
    return heights


def _largest(scores: Float[Tensor, "texts labels"], bounds: Int[np.ndarray, "bounds"]) -> Float[Tensor, "texts n"]:
    """Return the largest score of each cluster."""
    return torch.from_numpy(np.maximum.reduceat(scores.numpy(), bounds[:-1], axis=1))


def _places(bounds: Int[np.ndarray, "bounds"], device: torch.device) -> Int[Tensor, "n width"]:
    """Return the labels of each cluster, on the device; a smaller one has its last label several times."""
    width = np.arange(np.diff(bounds).max())
    return torch.from_numpy(np.minimum(bounds[:-1, None] + width, bounds[1:, None] - 1)).to(device)


def _largest_together(
    scores: Float[Tensor, "texts labels"], places: Int[Tensor, "n width"]
) -> Float[Tensor, "texts n"]:
    """Return the largest score of each cluster, on any device."""
    return scores[:, places].amax(2)


def _learnt_rows(
    seen: Float[Tensor, "texts inputs"],
    heights: Float16[Tensor, "texts clusters"],
    rotation: Float[np.ndarray, "directions directions"],
) -> NibbleRows:
    weights = fitted(seen, heights).cpu().numpy()
    rows = (weights[:, :-1] @ rotation.T).astype(np.float32)
    return NibbleRows.of(rows, weights[:, -1], with_exact=False)


def fitted(
    seen: Float[Tensor, "texts inputs"], heights: Float16[Tensor, "texts clusters"]
) -> Float[Tensor, "clusters inputs"]:
    """Return rows that say for which texts a cluster, or a group, is high enough: above 0."""
    return _learnt(_regressed(seen, heights), seen, heights)


def _regressed(
    seen: Float[Tensor, "texts inputs"], heights: Float16[Tensor, "texts clusters"]
) -> Float[Tensor, "clusters inputs"]:
    """Fit the heights by least squares, as the start of training."""
    products = seen.new_zeros(seen.shape[1], heights.shape[1])
    for part, own in zip(torch.split(seen, _BATCH), torch.split(heights, _BATCH), strict=True):
        products += part.T @ own.float()
    square = (seen.T @ seen).double()
    square += _PENALTY * square.trace() / len(square) * torch.eye(len(square), device=square.device)
    solved: Tensor = torch.linalg.solve(square, products.double())
    return solved.T.float().contiguous()


def _learnt(
    weights: Float[Tensor, "clusters inputs"],
    seen: Float[Tensor, "texts inputs"],
    heights: Float16[Tensor, "texts clusters"],
) -> Float[Tensor, "clusters inputs"]:
    """Train with cross-entropy against σ(height): clusters far below the threshold need no exact score."""
    chance = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam([weights], lr=_RATE, betas=(0.9, 0.99))
    steps = _EPOCHS * -(-len(seen) // _BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(_EPOCHS):
        for rows in torch.split(torch.randperm(len(seen), generator=chance).to(seen.device), _BATCH):
            error = (seen[rows] @ weights.T).sigmoid_() - heights[rows].float().sigmoid_()
            weights.grad = error.T @ seen[rows] / len(rows)
            optimizer.step()
            schedule.step()
    return weights
