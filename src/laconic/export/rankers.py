"""Converts trained rankers to packed ones: rows of bytes in cluster order, with a search tree added if there is none.

Search widths are tuned on `tuning_texts`; without them, trees are made of the rows alone and widths are
defaults. A tree is learnt on `device`; the ranker is on the CPU.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from laconic.errors import ConfigError
from laconic.export import transformer  # noqa: F401  # registers how transformers are packed
from laconic.export.cells import cells_of, grouped, rows_of
from laconic.export.encoders import pack_encoder, pack_transform
from laconic.export.shortlists import pack_shortlist
from laconic.export.tree import encoded_by, tree_over
from laconic.kernels.csr import in_threads
from laconic.models.fusion.order import Ordering
from laconic.models.fusion.ranker import FusedRanker
from laconic.models.nearest_ranker import NearestRanker
from laconic.models.rankers import (
    BucketsRanker,
    CandidatesRanker,
    Ensemble,
    FlatRanker,
    Ranker,
    Reranker,
    ShortlistRanker,
)
from laconic.models.shortlisters.nearest import NearestBags, NearestVectors
from laconic.models.shortlisters.space import NearestInSpace
from laconic.models.trees_ranker import TreesRanker
from laconic.packed.engine.blend import Blended
from laconic.packed.engine.buckets import Buckets
from laconic.packed.engine.candidates import Candidates
from laconic.packed.engine.cells import Cells
from laconic.packed.engine.composite import Averaged, Reranked
from laconic.packed.engine.encoders import Given
from laconic.packed.engine.fusion import Fused, TreeOrder
from laconic.packed.engine.near_labels import NearLabels
from laconic.packed.engine.neighbours import Neighbours
from laconic.packed.engine.pairs import Pairs
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.search import Searched
from laconic.packed.engine.shortlists import Shortlist
from laconic.packed.engine.space_labels import SpaceLabels
from laconic.packed.engine.texts import Inputs, Ranked, Some, size_of, some
from laconic.packed.engine.trees import Trees

CPU = torch.device("cpu")
FAITHFUL = 0.995  # of what all labels' best five would be, a tree must find
NEARLY = 0.993  # and cells: a text that is not found changes what others are worth
ALIKE = 0.998  # and groups of learnt clusters, of what all clusters would give
TOGETHER = 0.99  # and channels of a combined model, of what exact channels would give together
_COMBINED = 1000  # texts on which the channels of a combined model are narrowed
_WALKED = 30_000  # texts of words' lists
_HOLDOUT = 4000  # tuning_texts that say how much is found
_SPARED = 64  # one of so many clusters is probed at least: fewer save no time, and some ask for more than five


@singledispatch
def pack_ranker(ranker: Ranker, tuning_texts: Inputs | None = None, device: torch.device = CPU) -> PackedRanker:
    raise ConfigError(
        f"a ranker of the kind {type(ranker).__name__} cannot be packed; laconic predict answers from the model itself"
    )


@pack_ranker.register
@torch.no_grad()
def _(ranker: FlatRanker, tuning_texts: Inputs | None = None, device: torch.device = CPU) -> PackedRanker:
    """Add a search tree, and probe as many of its clusters as it takes."""
    fitting, holdout = _split(tuning_texts)  # texts that shape the tree must not evaluate it
    tree = tree_over(ranker, fitting, device)
    clusters, encoder = tree.clusters.size, tree.encoder
    if holdout is None:
        return tree
    # Texts are encoded once, not for each beam that is tried.
    by_vectors = replace(tree, encoder=Given(features=encoder.dim))
    vectors = encoded_by(encoder, holdout)
    tuned = _tuned(by_vectors, vectors, share=FAITHFUL, most=clusters, least=clusters // _SPARED)
    assert isinstance(tuned, Searched)
    return replace(tuned, encoder=encoder)


@pack_ranker.register
@torch.no_grad()
def _(ranker: ShortlistRanker, tuning_texts: Inputs | None = None, device: torch.device = CPU) -> Searched:
    """Keep the learnt clusters and how many are probed; probe as many of their groups as it takes."""
    of_clusters, dim = ranker.clusters.classifier, ranker.encoder.dim
    clusters = Rows.of(*rows_of(of_clusters), with_exact=False)
    tree = Searched(
        encoder=pack_encoder(ranker.encoder),
        transform=pack_transform(ranker.classifier.transform, dim),
        rows=Rows.of(*rows_of(ranker.classifier)),
        order=ranker.clusters.order.cpu().numpy().astype(np.int32),
        starts=ranker.clusters.starts.cpu().numpy().astype(np.int32),
        clusters=clusters,
        cluster_transform=pack_transform(of_clusters.transform, dim),
        **grouped(clusters),
        beam=ranker.top,
        product=ranker.product,
        trained=ranker.trained,
    )
    holdout = _split(tuning_texts)[1]
    return tree if tree.groups is None or holdout is None else _with_groups(tree, holdout)


@pack_ranker.register
@torch.no_grad()
def _(ranker: CandidatesRanker, tuning_texts: Inputs | None = None, device: torch.device = CPU) -> PackedRanker:
    """Probe as many cells as it takes."""
    dim, shortlist = ranker.encoder.dim, _pack_shortlist(ranker, tuning_texts, device)
    encoder, rows = pack_encoder(ranker.encoder), Rows.of(*rows_of(ranker.classifier))
    transform = pack_transform(ranker.classifier.transform, dim)
    beta, size = float(ranker.beta), ranker.shortlister.size
    part: PackedRanker
    if isinstance(shortlist, NearLabels):
        part = Candidates(encoder=encoder, transform=transform, rows=rows, near=shortlist, beta=beta, size=size)
    else:
        part = Blended(encoder=encoder, transform=transform, rows=rows, shortlist=shortlist, beta=beta, size=size)
    return _tuned(part, _split(tuning_texts)[1], share=NEARLY, most=shortlist.cells)


def _pack_shortlist(ranker: CandidatesRanker, tuning_texts: Inputs | None, device: torch.device) -> Shortlist:
    """Convert the shortlister; that of a learnt space searches it as a packed ranker does."""
    shortlister, dim = ranker.shortlister, ranker.encoder.dim
    if not isinstance(shortlister, NearestInSpace):
        return pack_shortlist(shortlister, dim)
    space, bias = pack_ranker(shortlister.siamese, tuning_texts, device), shortlister.siamese.labels.bias
    assert isinstance(space, Searched)
    assert bias is not None
    numbers = {"temperature": float(shortlister.temperature), "bias": float(bias[0])}
    return SpaceLabels(num_labels=shortlister.num_labels, space=space, width=dim, **numbers)


@pack_ranker.register
@torch.no_grad()
def _(ranker: BucketsRanker, tuning_texts: Inputs | None = None, device: torch.device = CPU) -> Buckets:
    encoders, classifiers = zip(*ranker.parts(), strict=True)
    rows, biases = zip(*(rows_of(classifier.buckets) for classifier in classifiers), strict=True)
    starts = np.cumsum([0, *map(len, rows)])
    buckets = np.stack([classifier.bucket_of.cpu().numpy() for classifier in classifiers], axis=1) + starts[:-1]
    return Buckets(
        encoders=tuple(map(pack_encoder, encoders)),
        transforms=tuple(pack_transform(classifier.transform, encoder.dim) for encoder, classifier in ranker.parts()),
        rows=Rows.of(np.concatenate(rows), np.concatenate(biases)),
        starts=starts.astype(np.int32),
        buckets=buckets.astype(np.int32),
    )


@pack_ranker.register
@torch.no_grad()
def _(ranker: Ensemble, tuning_texts: Inputs | None = None, device: torch.device = CPU) -> Averaged:
    return Averaged(
        members=tuple(pack_ranker(member, tuning_texts, device) for member in ranker.rankers()), width=ranker.width
    )


@pack_ranker.register
@torch.no_grad()
def _(ranker: Reranker, tuning_texts: Inputs | None = None, device: torch.device = CPU) -> Reranked:
    return Reranked(
        base=pack_ranker(ranker.base, tuning_texts, device),
        encoder=pack_encoder(ranker.encoder),
        transform=pack_transform(ranker.classifier.transform, ranker.encoder.dim),
        rows=Rows.of(*rows_of(ranker.classifier)),
        size=ranker.size,
        alpha=float(ranker.alpha),
    )


@pack_ranker.register
@torch.no_grad()
def _(ranker: NearestRanker, tuning_texts: Inputs | None = None, device: torch.device = CPU) -> PackedRanker:
    index = _index_of(ranker.texts)
    part = Neighbours(
        index=index,
        votes=Pairs.of(ranker.votes.lists()),
        label_texts=Pairs.of(ranker.label_texts.lists()),
        popular=ranker.popular.numpy(),
        neighbours=ranker.neighbours,
        power=ranker.power,
        label_text=ranker.label_text,
        walked=_WALKED,
    )
    if not isinstance(index, Cells):
        return part
    return _tuned(part, _split(tuning_texts)[1], share=NEARLY, most=index.middles.size)


@pack_ranker.register
@torch.no_grad()
def _(ranker: TreesRanker, tuning_texts: Inputs | None = None, device: torch.device = CPU) -> Trees:
    return Trees.of(ranker.forest, ranker.features, ranker.beam)


@pack_ranker.register
@torch.no_grad()
def _(ranker: FusedRanker, tuning_texts: Inputs | None = None, device: torch.device = CPU) -> Fused:
    network, nearest = ranker.combiner, pack_ranker(ranker.nearest, tuning_texts, device)
    space = None if ranker.siamese is None else pack_ranker(ranker.siamese, tuning_texts, device)
    assert isinstance(nearest, Neighbours)
    further = None if ranker.transformer is None else pack_ranker(ranker.transformer, tuning_texts, device)
    assert isinstance(space, Searched | None)
    assert isinstance(further, Searched | None)
    layers = {"first": network.first, "second": network.second}
    weights = {name: layer.weight.numpy().T.copy() for name, layer in layers.items()}
    biases = {f"{name}_bias": layer.bias.numpy().copy() for name, layer in layers.items()}
    fused = Fused(
        base=pack_ranker(ranker.base, tuning_texts, device),
        nearest=nearest,
        trees=None if ranker.trees is None else pack_ranker(ranker.trees, tuning_texts, device),
        siamese=space,
        transformer=further,
        frequency=ranker.frequency.numpy(),
        mean=network.mean.numpy(),
        deviation=network.deviation.numpy(),
        **weights,
        **biases,
        last=network.last.weight.numpy()[0].copy(),
        last_bias=float(network.last.bias),
        width=ranker.width,
        tail=ranker.tail,
        order=None if network.order is None else _pack_order(network.order.ordering()),
    )
    return _narrowed(fused, _split(tuning_texts)[1])


def _pack_order(ordering: Ordering) -> TreeOrder:
    arrays = ordering.forest._asdict()
    return TreeOrder(**arrays, slope=ordering.slope, shift=ordering.shift, places=ordering.places)


def _index_of(texts: NearestBags | NearestVectors) -> Pairs | Cells:
    if isinstance(texts, NearestVectors):
        return cells_of(texts.vectors.numpy(), with_exact=True)
    return Pairs.of(texts.index.lists())


def _split(tuning_texts: Inputs | None) -> tuple[Some | None, Some | None]:
    """Divide the tuning texts into those that a tree is learnt from and those that it is evaluated on."""
    if tuning_texts is None:
        return None, None
    size = size_of(tuning_texts)
    first = size - min(_HOLDOUT, -(-size // 2))
    return some(tuning_texts, 0, first), some(tuning_texts, first, size)


def _tuned(tree: PackedRanker, holdout: Inputs | None, *, share: float, most: int, least: int = 1) -> PackedRanker:
    """Choose the smallest of some beams that finds this fraction of the exact best five."""
    if holdout is None or not size_of(holdout):
        return tree
    wanted = _best_five(tree.exact(), holdout)
    beams = sorted({max(1, least, round(most / 2 ** (step / 8))) for step in range(88)})
    enough = bisect_left(
        beams, share, key=lambda beam: _fraction_found(_best_five(tree.with_beam(beam), holdout), wanted)
    )
    return tree.with_beam(beams[min(enough, len(beams) - 1)])


def _narrowed(fused: Fused, holdout: Inputs | None) -> Fused:
    """Halve the beams of the channels for as long as the combined best five are nearly those of exact channels."""
    if holdout is None or not size_of(holdout):
        return fused
    texts = some(holdout, 0, min(_COMBINED, size_of(holdout)))
    wanted, channels = _best_five(fused.exact(), texts), ["base", "siamese", "transformer"]
    while channels:
        for name in list(channels):
            channel = getattr(fused, name)
            if not isinstance(channel, Searched | Candidates) or channel.beam < 2:
                channels.remove(name)
                continue
            changed: dict[str, Any] = {name: channel.with_beam(channel.beam // 2)}
            narrower = replace(fused, **changed)
            if _fraction_found(_best_five(narrower, texts), wanted) >= TOGETHER:
                fused = narrower
            else:
                channels.remove(name)
    return fused


def _with_groups(tree: Searched, holdout: Inputs) -> Searched:
    """Double the number of probed groups until answers equal those of all clusters."""
    assert tree.groups is not None
    whole = np.array([0, tree.clusters.size], dtype=np.int32)
    wanted, groups = _best_five(replace(tree, groups=None, group_starts=whole), holdout), tree.open_groups
    while groups < tree.groups.size:
        found = replace(tree, open_groups=groups)
        if _fraction_found(_best_five(found, holdout), wanted) >= ALIKE:
            return found
        groups *= 2
    return replace(tree, open_groups=tree.groups.size)


def _best_five(ranker: PackedRanker, inputs: Inputs) -> Int[np.ndarray, "texts 5"]:
    """Rank on all cores."""
    labels = Ranked.empty(size_of(inputs), 5).labels

    def rank(first: int, last: int) -> None:
        labels[first:last] = ranker.rank(some(inputs, first, last), 5).labels

    in_threads(len(labels), rank)
    return labels


def _fraction_found(found: Int[np.ndarray, "texts k"], wanted: Int[np.ndarray, "texts k"]) -> float:
    return float((wanted[:, :, None] == found[:, None]).any(2).mean())
