"""Builds a search tree over the labels of a ranker that scores all of them.

With texts enough it is learnt from them (learned_tree.py). With fewer, or none, clusters are of rows that point the
same way, and each is scored by their mean.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from laconic.export import learned_groups
from laconic.export.cells import BEAM, grouped, rows_of
from laconic.export.encoders import pack_encoder, pack_transform
from laconic.export.learned_tree import Branches, LabelRows, learnt_branches, texts_enough
from laconic.kernels.csr import in_threads
from laconic.models.clustering import cluster_vectors
from laconic.models.rankers import FlatRanker
from laconic.packed.engine.encoders import Encoder, Layered, Unit
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.search import Searched
from laconic.packed.engine.texts import Inputs, size_of, some
from laconic.packed.engine.transformer import Transformer
from laconic.packed.engine.transforms import Transform
from laconic.units import counted

log = logging.getLogger(__name__)

_ALL = 2048  # labels that are scored without a tree's help
_ENOUGH = 1000  # texts to learn from: with fewer, means do better
_READ_SLOWLY = 24_000  # texts, of which no more are read by a transformer, which takes milliseconds for each
_ALWAYS = 64  # one of so many labels, the likeliest of all, is always scored: it may be among the best of any text
_CLUSTER = 16  # labels of a cluster, about
_RESCORED = 32  # labels that are scored again by all bits; 64 give the same best five
_HIGH = 0.1  # of texts, those for which a cluster's best label is most above its mean, say how far it may rise


@torch.no_grad()
def tree_over(ranker: FlatRanker, texts: Inputs | None, device: torch.device) -> Searched:
    """Build a tree: the most probable labels are always scored, the others lie in clusters.

    Clusters are learnt on the device if there are enough texts; the number to probe is a default.
    """
    labels = LabelRows(*rows_of(ranker.classifier))
    encoder = pack_encoder(ranker.encoder)
    transform = pack_transform(ranker.classifier.transform, ranker.encoder.dim)
    is_learnt = texts is not None and size_of(texts) >= _ENOUGH and labels.size > _ALL
    if texts is not None and is_learnt:
        most = min(_readable(encoder, texts), texts_enough(labels.size, device))
        encoded = encoded_by(encoder, some(texts, 0, most))
        branches = _learnt_branches(labels, encoded, transform, device)
    else:
        vectors = transform.apply(encoded_by(encoder, texts)) if texts is not None and size_of(texts) else None
        branches = _grown_branches(labels, vectors, device)
    return Searched(
        encoder=encoder,
        transform=transform,
        rows=NibbleRows.of(labels.rows[branches.order], labels.biases[branches.order]),
        order=branches.order.astype(np.int32),
        starts=branches.starts.astype(np.int32),
        clusters=branches.clusters,
        cluster_transform=branches.reading,
        **branches.groups,
        beam=-(-branches.clusters.size // BEAM),
        rescored=_RESCORED,
    )


@torch.no_grad()
def groups_over(
    clusters: LabelRows, encoder: Encoder, reading: Transform, probed: int, texts: Inputs | None, device: torch.device
) -> dict[str, Any] | None:
    """Learn groups of a model's own clusters; None where all can be scored, or texts are too few to learn from."""
    if texts is None or size_of(texts) < _ENOUGH or not learned_groups.are_grouped(clusters.size):
        return None
    most = min(_readable(encoder, texts), learned_groups.texts_enough(clusters.size, device))
    vectors = reading.apply(encoded_by(encoder, some(texts, 0, most)))
    try:
        return learned_groups.learnt_groups(clusters, vectors, probed, device)
    except torch.OutOfMemoryError:
        cpu = torch.device("cpu")
        log.warning("the GPU has no room to group %s; the CPU does", counted(clusters.size, "cluster"))
    return learned_groups.learnt_groups(
        clusters, vectors[: learned_groups.texts_enough(clusters.size, cpu)], probed, cpu
    )


def _readable(encoder: Encoder, texts: Inputs) -> int:
    """Return how many of the texts an encoder reads within seconds."""
    while isinstance(encoder, Unit | Layered):
        encoder = encoder.encoder
    return min(size_of(texts), _READ_SLOWLY) if isinstance(encoder, Transformer) else size_of(texts)


def _learnt_branches(
    labels: LabelRows, encoded: Float[np.ndarray, "texts width"], transform: Transform, device: torch.device
) -> Branches:
    """Learn branches on the device or, if it is a GPU that has no room for that, on the CPU from fewer texts."""
    try:
        return learnt_branches(labels, encoded, transform.apply(encoded), device)
    except torch.OutOfMemoryError:
        cpu = torch.device("cpu")
        encoded = encoded[: texts_enough(labels.size, cpu)]
        log.warning("the GPU has no room to cluster %s; the CPU does", counted(labels.size, "label"))
    return learnt_branches(labels, encoded, transform.apply(encoded), cpu)


def encoded_by(encoder: Encoder, texts: Inputs) -> Float[np.ndarray, "texts dim"]:
    """Encode texts on all cores."""
    out = np.empty((size_of(texts), encoder.dim), dtype=np.float32)

    def encode(first: int, last: int) -> None:
        out[first:last] = encoder.encode(some(texts, first, last))

    in_threads(len(out), encode)
    return out


def _grown_branches(
    labels: LabelRows, vectors: Float[np.ndarray, "texts dim"] | None, device: torch.device
) -> Branches:
    """Cluster the rows themselves, after subtracting their mean."""
    always = labels.size // _ALWAYS if labels.size > _ALL else labels.size - 1
    by_bias = np.argsort(-labels.biases, kind="stable")
    likely, others = by_bias[:always], np.sort(by_bias[always:])
    clusters = 1 << int(np.log2(max(1, len(others) // _CLUSTER)))
    centred = torch.from_numpy(labels.rows[others] - labels.rows.mean(0))
    tree = cluster_vectors(centred.to(device), clusters, seed=0)
    order, starts = np.concatenate([likely, others[tree.order.numpy()]]), always + tree.starts.numpy()
    rows = _mean_rows(labels.ordered(order), starts, vectors)
    return Branches(order, starts, rows, grouped(rows), None)


def _mean_rows(
    labels: LabelRows, starts: Int[np.ndarray, "bounds"], vectors: Float[np.ndarray, "texts dim"] | None
) -> NibbleRows:
    """Return the mean of each cluster's rows, and how far its best label may be above it."""
    means = np.add.reduceat(labels.rows[starts[0] :], starts[:-1] - starts[0]) / np.diff(starts)[:, None]
    if vectors is None:
        above = np.maximum.reduceat(labels.biases[starts[0] :], starts[:-1] - starts[0])
    else:
        above = _rises(labels, starts, means, vectors)
    return NibbleRows.of(means.astype(np.float32), above, with_exact=False)


def _rises(
    labels: LabelRows,
    starts: Int[np.ndarray, "bounds"],
    means: Float[np.ndarray, "clusters dim"],
    vectors: Float[np.ndarray, "texts dim"],
) -> Float[np.ndarray, "clusters"]:
    """Return how far a cluster's best label is above its mean row, for the texts with the largest difference."""
    kept, found = max(1, round(_HIGH * len(vectors))), np.empty(len(means), dtype=np.float32)
    for first in range(0, len(means), 256):
        last = min(first + 256, len(means))
        start, end = starts[first], starts[last]
        scores = vectors @ labels.rows[start:end].T + labels.biases[start:end]
        best = np.maximum.reduceat(scores, starts[first:last] - start, axis=1)
        gaps = np.sort(best - vectors @ means[first:last].T, axis=0)
        found[first:last] = gaps[-kept:].mean(0)
    return found
