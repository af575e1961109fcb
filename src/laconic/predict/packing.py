"""From a finished ranker to the parts of the engine: small rows in the order of clusters, with a tree where there was
none.

`probes` are texts by which what a packed model leaves out is judged, and its dials are set. Without them a tree goes by
its rows alone, and dials are where they were right for others.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from laconic.classifiers import Classifier
from laconic.clustering import cluster_vectors
from laconic.engine.candidates import Candidates
from laconic.engine.cells import Cells
from laconic.engine.fused import Fused
from laconic.engine.joined import Averaged, Reranked
from laconic.engine.neighbours import Neighbours, Pairs
from laconic.engine.ranking import PackedRanker
from laconic.engine.rows import Rows
from laconic.engine.search import Searched
from laconic.engine.texts import Inputs, halves
from laconic.errors import ConfigError
from laconic.fusing import FusedRanker
from laconic.methods.nearest import NearestRanker
from laconic.predict.packing_encoders import packed_encoder, packed_transform
from laconic.rankers import CandidatesRanker, Ensemble, FlatRanker, Ranker, Reranker, ShortlistRanker
from laconic.shortlisters.centres import k_means
from laconic.shortlisters.labels import NearestLabels
from laconic.shortlisters.nearest import NearestBags

FAITHFUL = 0.998  # of what all labels' best five would be, a tree must find
NEARLY = 0.993  # and cells: a text that is not found changes what others are worth
_ALL = 2048  # labels that are scored without a tree's help
_ALWAYS = 64  # one of so many labels, the likeliest of all, is always scored: it may be among the best of any text
_CLUSTER = 16  # labels of a cluster, about
_BEAM = 12  # one of so many clusters is opened, where no text says how many it takes
_HIGH = 0.1  # of probes, those that are most above a cluster's mean, say how far it may rise
_CELL = 40  # rows of a cell, about
_SEEN_OF_CELL = 64  # rows by which its middle is found
_ROUNDS = 8  # of k-means
_AT_ONCE = 8192  # rows that look for their cell together
_SCANNED_CELLS = 2048  # cells whose middles are all looked at
_CELLS_OF_GROUP = 32
_SCANNED = 8192  # clusters that are all scored; where there are more, they are in groups
_GROUP = 256  # clusters of a group
_GROUPS = 16  # groups that are opened


@singledispatch
def packed(ranker: Ranker, probes: Inputs | None = None) -> PackedRanker:
    raise NotImplementedError(type(ranker))


@packed.register
@torch.no_grad()
def _(ranker: FlatRanker, probes: Inputs | None = None) -> Searched:
    """The likeliest labels come first and are always scored; then clusters of rows that point the same way."""
    rows, biases = _rows_of(ranker.classifier)
    order, starts = _grown(rows, biases)
    rows, biases = rows[order], biases[order]
    encoder, transform = (
        packed_encoder(ranker.encoder),
        packed_transform(ranker.classifier.transform, ranker.encoder.dim),
    )
    seen, unseen = (None, None) if probes is None else halves(probes)  # what shapes the tree must not judge it
    vectors = None if seen is None else transform.apply(encoder.encode(seen))
    clusters = _cluster_rows(rows, biases, starts, vectors)
    tree = Searched(
        encoder=encoder,
        transform=transform,
        rows=Rows.of(rows, biases),
        order=order.astype(np.int32),
        starts=starts.astype(np.int32),
        clusters=clusters,
        cluster_transform=None,
        **_grouped(clusters),
        beam=-(-clusters.size // _BEAM),
    )
    return tree if unseen is None else _dialled(tree, unseen, FAITHFUL)


@packed.register
@torch.no_grad()
def _(ranker: ShortlistRanker, probes: Inputs | None = None) -> Searched:
    """Clusters are as they were learnt, and as many are opened."""
    of_clusters, dim = ranker.clusters.classifier, ranker.encoder.dim
    clusters = Rows.of(*_rows_of(of_clusters), with_exact=False)
    return Searched(
        encoder=packed_encoder(ranker.encoder),
        transform=packed_transform(ranker.classifier.transform, dim),
        rows=Rows.of(*_rows_of(ranker.classifier)),
        order=ranker.clusters.order.cpu().numpy().astype(np.int32),
        starts=ranker.clusters.starts.cpu().numpy().astype(np.int32),
        clusters=clusters,
        cluster_transform=packed_transform(of_clusters.transform, dim),
        **_grouped(clusters),
        beam=ranker.top,
        product=ranker.product,
    )


@packed.register
@torch.no_grad()
def _(ranker: CandidatesRanker, probes: Inputs | None = None) -> Candidates:
    """Labels and texts lie in cells, of which as many are opened as it takes."""
    near = ranker.shortlister
    assert isinstance(near, NearestLabels)
    how = near.nearness
    has_texts = len(near.texts) > 0
    part = Candidates(
        encoder=packed_encoder(ranker.encoder),
        transform=packed_transform(ranker.classifier.transform, ranker.encoder.dim),
        rows=Rows.of(*_rows_of(ranker.classifier)),
        beta=float(ranker.beta),
        centres=cells_of(near.centres.cpu().numpy()),
        owners=near.centre_labels.cpu().numpy().astype(np.int32),
        texts=cells_of(near.texts.cpu().numpy()) if has_texts else None,
        text_starts=near.text_starts.cpu().numpy(),
        text_labels=near.text_labels.cpu().numpy().astype(np.int32),
        counted=min(how.centroids, near.num_labels),
        neighbours=how.neighbours if has_texts else 0,
        power=how.neighbour_power or 1.0,
        votes=float(near.neighbour_weight),
        size=near.size,
    )
    return part if probes is None else _dialled(part, halves(probes)[1], NEARLY)


@packed.register
@torch.no_grad()
def _(ranker: Ensemble, probes: Inputs | None = None) -> Averaged:
    return Averaged(members=tuple(packed(member, probes) for member in ranker.rankers()), width=ranker.width)


@packed.register
@torch.no_grad()
def _(ranker: Reranker, probes: Inputs | None = None) -> Reranked:
    return Reranked(
        base=packed(ranker.base, probes),
        encoder=packed_encoder(ranker.encoder),
        transform=packed_transform(ranker.classifier.transform, ranker.encoder.dim),
        rows=Rows.of(*_rows_of(ranker.classifier)),
        size=ranker.size,
        alpha=float(ranker.alpha),
    )


@packed.register
@torch.no_grad()
def _(ranker: NearestRanker, probes: Inputs | None = None) -> Neighbours:
    if not isinstance(ranker.texts, NearestBags):
        raise ConfigError("a model of dense features cannot be packed: its nearest texts are found by every cosine")
    return Neighbours(
        index=Pairs.of(ranker.texts.index.lists()),
        votes=Pairs.of(ranker.votes.lists()),
        label_texts=Pairs.of(ranker.label_texts.lists()),
        popular=ranker.popular.numpy(),
        neighbours=ranker.config.neighbours,
        power=ranker.config.power,
        label_text=ranker.config.label_text,
    )


@packed.register
@torch.no_grad()
def _(ranker: FusedRanker, probes: Inputs | None = None) -> Fused:
    network, nearest = ranker.combiner, packed(ranker.nearest)
    assert isinstance(nearest, Neighbours)
    layers = {"first": network.first, "second": network.second}
    weights = {name: np.ascontiguousarray(layer.weight.numpy().T) for name, layer in layers.items()}
    biases = {f"{name}_bias": layer.bias.numpy() for name, layer in layers.items()}
    return Fused(
        base=packed(ranker.base, probes),
        nearest=nearest,
        frequency=ranker.frequency.numpy(),
        mean=network.mean.numpy(),
        deviation=network.deviation.numpy(),
        **weights,
        **biases,
        last=network.last.weight.numpy()[0],
        last_bias=float(network.last.bias),
        width=ranker.width,
        tail=ranker.tail,
    )


def cells_of(rows: Float[np.ndarray, "rows dim"]) -> Cells:
    """Cells of rows that point the same way, by k-means; cells that point the same way lie together."""
    cells = 1 << int(np.log2(max(1, len(rows) // _CELL)))
    middles = _middles(torch.from_numpy(rows), cells).numpy()
    nearest = _nearest_of(rows, middles)
    order, starts = np.argsort(nearest, kind="stable"), np.searchsorted(np.sort(nearest), np.arange(cells + 1))
    of_cells = Rows.of(middles, np.zeros(cells, np.float32), with_exact=False)
    return Cells(
        rows=Rows.of(rows[order], np.zeros(len(rows), np.float32), with_exact=False),
        order=order.astype(np.int32),
        starts=starts.astype(np.int32),
        middles=of_cells,
        **_grouped(of_cells, _SCANNED_CELLS, _CELLS_OF_GROUP),
        beam=-(-cells // _BEAM),
    )


def _middles(rows: Float[Tensor, "rows dim"], cells: int) -> Float[Tensor, "cells dim"]:
    """In the order of a tree of them, so that a run of cells is a group of like ones."""
    chance = torch.Generator().manual_seed(0)
    some = rows[torch.randperm(len(rows), generator=chance)[: cells * _SEEN_OF_CELL]]
    middles = k_means(some, cells, seed=0, rounds=_ROUNDS)
    groups = max(1, cells // _CELLS_OF_GROUP)
    return middles[cluster_vectors(middles.numpy(), groups, seed=0).order]


def _nearest_of(
    rows: Float[np.ndarray, "rows dim"], middles: Float[np.ndarray, "cells dim"]
) -> Int[np.ndarray, "rows"]:
    parts = range(0, len(rows), _AT_ONCE)
    return np.concatenate([(rows[first : first + _AT_ONCE] @ middles.T).argmax(1) for first in parts])


def _rows_of(classifier: Classifier) -> tuple[Float[np.ndarray, "labels dim"], Float[np.ndarray, "labels"]]:
    every = slice(0, classifier.num_labels)
    return classifier.rows(every).detach().cpu().numpy(), classifier.biases(every).detach().cpu().numpy()


def _grown(
    rows: Float[np.ndarray, "labels dim"], biases: Float[np.ndarray, "labels"]
) -> tuple[Int[np.ndarray, "labels"], Int[np.ndarray, "bounds"]]:
    """Labels in the order of places, and where clusters begin. What all rows have in common tells none apart."""
    always = len(rows) // _ALWAYS if len(rows) > _ALL else len(rows) - 1
    by_bias = np.argsort(-biases, kind="stable")
    likely, others = by_bias[:always], np.sort(by_bias[always:])
    clusters = 1 << int(np.log2(max(1, len(others) // _CLUSTER)))
    tree = cluster_vectors(rows[others] - rows.mean(0), clusters, seed=0)
    return np.concatenate([likely, others[tree.order.numpy()]]), always + tree.starts.numpy()


def _cluster_rows(
    rows: Float[np.ndarray, "labels dim"],
    biases: Float[np.ndarray, "labels"],
    starts: Int[np.ndarray, "bounds"],
    vectors: Float[np.ndarray, "probes dim"] | None,
) -> Rows:
    """The mean of a cluster's rows, and how far above that its best label may be."""
    means = np.add.reduceat(rows[starts[0] :], starts[:-1] - starts[0]) / np.diff(starts)[:, None]
    if vectors is None:
        above = np.maximum.reduceat(biases[starts[0] :], starts[:-1] - starts[0])
    else:
        above = _rises(rows, biases, starts, means, vectors)
    return Rows.of(means.astype(np.float32), above, with_exact=False)


def _rises(
    rows: Float[np.ndarray, "labels dim"],
    biases: Float[np.ndarray, "labels"],
    starts: Int[np.ndarray, "bounds"],
    means: Float[np.ndarray, "clusters dim"],
    vectors: Float[np.ndarray, "probes dim"],
) -> Float[np.ndarray, "clusters"]:
    """How far a cluster's best label is above its mean row, for those probes for which it is most."""
    kept, found = max(1, round(_HIGH * len(vectors))), np.empty(len(means), dtype=np.float32)
    for first in range(0, len(means), 256):
        last = min(first + 256, len(means))
        start, end = starts[first], starts[last]
        scores = vectors @ rows[start:end].T + biases[start:end]
        best = np.maximum.reduceat(scores, starts[first:last] - start, axis=1)
        gaps = np.sort(best - vectors @ means[first:last].T, axis=0)
        found[first:last] = gaps[-kept:].mean(0)
    return found


def _grouped(clusters: Rows, scanned: int = _SCANNED, size: int = _GROUP) -> dict[str, Any]:
    """Clusters that are neighbours in their tree are alike, so a group is a run of them."""
    if clusters.size <= scanned:
        return {"groups": None, "group_starts": np.array([0, clusters.size], dtype=np.int32), "open_groups": 1}
    starts = np.append(np.arange(0, clusters.size, size), clusters.size)
    rows = clusters.coarse * clusters.scales[:, None]
    means = np.add.reduceat(rows, starts[:-1]) / np.diff(starts)[:, None]
    groups = Rows.of(means, np.maximum.reduceat(clusters.biases, starts[:-1]), with_exact=False)
    return {"groups": groups, "group_starts": starts.astype(np.int32), "open_groups": _GROUPS}


Tree = TypeVar("Tree", Searched, Candidates)


def _dialled(tree: Tree, probes: Inputs, share: float) -> Tree:
    """With the smallest beam, of some, that finds that share of what would be the best five."""
    wanted, most = tree.exact().rank(probes, 5).labels, tree.exact().beam
    for beam in sorted({max(1, round(most / 2 ** (step / 2))) for step in range(2, 22)}):
        if _share_found(tree.opening(beam).rank(probes, 5).labels, wanted) >= share:
            return tree.opening(beam)
    return tree.opening(most)


def _share_found(found: Int[np.ndarray, "texts k"], wanted: Int[np.ndarray, "texts k"]) -> float:
    return float((wanted[:, :, None] == found[:, None]).any(2).mean())
