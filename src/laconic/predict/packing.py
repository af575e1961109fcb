"""From a finished ranker to the parts of the engine: small rows in the order of clusters, with a tree where there was
none.

`probes` are texts by which what a packed model leaves out is judged, and its dials are set. Without them a tree goes by
its rows alone, and dials are where they were right for others.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import numpy as np
import torch
from jaxtyping import Float, Int

from laconic.clustering import cluster_vectors
from laconic.engine.blended import Blended
from laconic.engine.buckets import Buckets
from laconic.engine.candidates import Candidates
from laconic.engine.cells import Cells
from laconic.engine.fused import Fused
from laconic.engine.joined import Averaged, Reranked
from laconic.engine.near_labels import NearLabels
from laconic.engine.neighbours import Neighbours
from laconic.engine.pairs import Pairs
from laconic.engine.ranking import PackedRanker
from laconic.engine.rows import Rows
from laconic.engine.search import Searched
from laconic.engine.texts import Inputs, halves, size_of
from laconic.errors import ConfigError
from laconic.fusing import FusedRanker
from laconic.methods.nearest import NearestRanker
from laconic.predict.packing_cells import BEAM, cells_of, grouped, rows_of
from laconic.predict.packing_encoders import packed_encoder, packed_transform
from laconic.predict.packing_shortlists import packed_shortlist
from laconic.rankers import BucketsRanker, CandidatesRanker, Ensemble, FlatRanker, Ranker, Reranker, ShortlistRanker
from laconic.shortlisters.nearest import NearestBags, NearestVectors

FAITHFUL = 0.998  # of what all labels' best five would be, a tree must find
NEARLY = 0.993  # and cells: a text that is not found changes what others are worth
_ALL = 2048  # labels that are scored without a tree's help
_ALWAYS = 64  # one of so many labels, the likeliest of all, is always scored: it may be among the best of any text
_CLUSTER = 16  # labels of a cluster, about
_HIGH = 0.1  # of probes, those that are most above a cluster's mean, say how far it may rise


@singledispatch
def packed(ranker: Ranker, probes: Inputs | None = None) -> PackedRanker:
    raise ConfigError(
        f"a ranker of the kind {type(ranker).__name__} cannot be packed; laconic predict answers from the model itself"
    )


@packed.register
@torch.no_grad()
def _(ranker: FlatRanker, probes: Inputs | None = None) -> PackedRanker:
    """The likeliest labels come first and are always scored; then clusters of rows that point the same way."""
    rows, biases = rows_of(ranker.classifier)
    order, starts = _grown(rows, biases)
    rows, biases = rows[order], biases[order]
    encoder, transform = (
        packed_encoder(ranker.encoder),
        packed_transform(ranker.classifier.transform, ranker.encoder.dim),
    )
    seen, unseen = (None, None) if probes is None else halves(probes)  # what shapes the tree must not judge it
    vectors = None if seen is None or not size_of(seen) else transform.apply(encoder.encode(seen))
    clusters = _cluster_rows(rows, biases, starts, vectors)
    tree = Searched(
        encoder=encoder,
        transform=transform,
        rows=Rows.of(rows, biases),
        order=order.astype(np.int32),
        starts=starts.astype(np.int32),
        clusters=clusters,
        cluster_transform=None,
        **grouped(clusters),
        beam=-(-clusters.size // BEAM),
    )
    return _dialled(tree, unseen, FAITHFUL, most=clusters.size)


@packed.register
@torch.no_grad()
def _(ranker: ShortlistRanker, probes: Inputs | None = None) -> Searched:
    """Clusters are as they were learnt, and as many are opened; of their groups as many as it takes."""
    of_clusters, dim = ranker.clusters.classifier, ranker.encoder.dim
    clusters = Rows.of(*rows_of(of_clusters), with_exact=False)
    tree = Searched(
        encoder=packed_encoder(ranker.encoder),
        transform=packed_transform(ranker.classifier.transform, dim),
        rows=Rows.of(*rows_of(ranker.classifier)),
        order=ranker.clusters.order.cpu().numpy().astype(np.int32),
        starts=ranker.clusters.starts.cpu().numpy().astype(np.int32),
        clusters=clusters,
        cluster_transform=packed_transform(of_clusters.transform, dim),
        **grouped(clusters),
        beam=ranker.top,
        product=ranker.product,
    )
    return tree if tree.groups is None or probes is None else _with_groups(tree, probes)


@packed.register
@torch.no_grad()
def _(ranker: CandidatesRanker, probes: Inputs | None = None) -> PackedRanker:
    """Of cells as many are opened as it takes."""
    dim, shortlist = ranker.encoder.dim, packed_shortlist(ranker.shortlister, ranker.encoder.dim)
    encoder, rows = packed_encoder(ranker.encoder), Rows.of(*rows_of(ranker.classifier))
    transform = packed_transform(ranker.classifier.transform, dim)
    beta, size = float(ranker.beta), ranker.shortlister.size
    part: PackedRanker
    if isinstance(shortlist, NearLabels):
        part = Candidates(encoder=encoder, transform=transform, rows=rows, near=shortlist, beta=beta, size=size)
    else:
        part = Blended(encoder=encoder, transform=transform, rows=rows, shortlist=shortlist, beta=beta, size=size)
    return _dialled(part, None if probes is None else halves(probes)[1], NEARLY, most=shortlist.cells)


@packed.register
@torch.no_grad()
def _(ranker: BucketsRanker, probes: Inputs | None = None) -> Buckets:
    encoders, classifiers = zip(*ranker.parts(), strict=True)
    rows, biases = zip(*(rows_of(classifier.buckets) for classifier in classifiers), strict=True)
    starts = np.cumsum([0, *map(len, rows)])
    buckets = np.stack([classifier.bucket_of.cpu().numpy() for classifier in classifiers], axis=1) + starts[:-1]
    return Buckets(
        encoders=tuple(map(packed_encoder, encoders)),
        transforms=tuple(packed_transform(classifier.transform, encoder.dim) for encoder, classifier in ranker.parts()),
        rows=Rows.of(np.concatenate(rows), np.concatenate(biases)),
        starts=starts.astype(np.int32),
        buckets=buckets.astype(np.int32),
    )


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
        rows=Rows.of(*rows_of(ranker.classifier)),
        size=ranker.size,
        alpha=float(ranker.alpha),
    )


@packed.register
@torch.no_grad()
def _(ranker: NearestRanker, probes: Inputs | None = None) -> PackedRanker:
    index = _index_of(ranker.texts)
    part = Neighbours(
        index=index,
        votes=Pairs.of(ranker.votes.lists()),
        label_texts=Pairs.of(ranker.label_texts.lists()),
        popular=ranker.popular.numpy(),
        neighbours=ranker.config.neighbours,
        power=ranker.config.power,
        label_text=ranker.config.label_text,
    )
    return _dialled(part, probes, NEARLY, most=index.middles.size) if isinstance(index, Cells) else part


@packed.register
@torch.no_grad()
def _(ranker: FusedRanker, probes: Inputs | None = None) -> Fused:
    network, nearest = ranker.combiner, packed(ranker.nearest, probes)
    assert isinstance(nearest, Neighbours)
    layers = {"first": network.first, "second": network.second}
    weights = {name: layer.weight.numpy().T.copy() for name, layer in layers.items()}
    biases = {f"{name}_bias": layer.bias.numpy().copy() for name, layer in layers.items()}
    return Fused(
        base=packed(ranker.base, probes),
        nearest=nearest,
        frequency=ranker.frequency.numpy(),
        mean=network.mean.numpy(),
        deviation=network.deviation.numpy(),
        **weights,
        **biases,
        last=network.last.weight.numpy()[0].copy(),
        last_bias=float(network.last.bias),
        width=ranker.width,
        tail=ranker.tail,
    )


def _index_of(texts: NearestBags | NearestVectors) -> Pairs | Cells:
    if isinstance(texts, NearestVectors):
        return cells_of(texts.vectors.numpy(), with_exact=True)
    return Pairs.of(texts.index.lists())


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


def _dialled(tree: PackedRanker, probes: Inputs | None, share: float, most: int) -> PackedRanker:
    """With the smallest beam, of some, that finds that share of what would be the best five."""
    if probes is None or not size_of(probes):
        return tree
    wanted = tree.exact().rank(probes, 5).labels
    for beam in sorted({max(1, round(most / 2 ** (step / 2))) for step in range(2, 22)}):
        if _share_found(tree.opening(beam).rank(probes, 5).labels, wanted) >= share:
            return tree.opening(beam)
    return tree.opening(most)


def _with_groups(tree: Searched, probes: Inputs) -> Searched:
    """With so many groups opened, doubled as often as it takes, that answers are what all clusters would give."""
    assert tree.groups is not None
    whole = np.array([0, tree.clusters.size], dtype=np.int32)
    wanted, groups = replace(tree, groups=None, group_starts=whole).rank(probes, 5).labels, tree.open_groups
    while groups < tree.groups.size:
        found = replace(tree, open_groups=groups)
        if _share_found(found.rank(probes, 5).labels, wanted) >= FAITHFUL:
            return found
        groups *= 2
    return replace(tree, open_groups=tree.groups.size)


def _share_found(found: Int[np.ndarray, "texts k"], wanted: Int[np.ndarray, "texts k"]) -> float:
    return float((wanted[:, :, None] == found[:, None]).any(2).mean())
