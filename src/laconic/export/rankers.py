"""Converts trained rankers to packed ones: rows of bytes in cluster order, with a search tree added if there is none.

Search widths are tuned on `tuning_texts`; without them, trees are made of the rows alone and widths are
defaults. A tree is learnt on `device`; the ranker is on the CPU.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int

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
from laconic.packed.engine.row_kernels import FINENESS
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.search import Searched
from laconic.packed.engine.shortlists import Shortlist
from laconic.packed.engine.space_labels import SpaceLabels
from laconic.packed.engine.texts import Inputs, Ranked, Some, size_of, some
from laconic.packed.engine.trees import Trees
from laconic.types import NO_LABEL

CPU = torch.device("cpu")
OnPart: TypeAlias = Callable[[float, int], None]  # parts that are packed, the last one maybe in part, and all parts
FAITHFUL = 0.995  # of what all labels' best five would be, a tree must find
NEARLY = 0.993  # and cells: a text that is not found changes what others are worth
ALIKE = 0.998  # and groups of learnt clusters, of what all clusters would give
ENOUGH, TOGETHER = 0.985, 0.997  # and a combined model, of the true labels that exact channels give: at least, at most
_COMBINED, _LEAST_COMBINED = 1000, 250  # texts on which the beams of a combined model's channels are chosen
_SCORED_TOGETHER = 1 << 28  # pairs of text and label that are scored exactly for it, unless texts are fewer than these
_WALKED = 30_000  # texts of words' lists
_HOLDOUT, _LEAST_HOLDOUT = 4000, 1000  # tuning_texts that say how much is found
_SCORED = 1 << 29  # pairs of text and label for which they are scored exactly, with which they are at most so many
_GROWN = 0.5  # of the time that a tree takes, until it is grown
_PLACES = 1 << 15  # labels that are scored at a time on a GPU
_DOUBLED = 3  # times that a beam is doubled, usually
_WORTH = 0.05  # of what is wanted, must be found more where a text takes twice as long, once enough is found
_LEAST_WORTH = 0.01  # and before, unless rows take less time than the rest
_REST = 3e6  # bytes that a core could read while it reads a text and searches label trees and nearest texts
_SPARED = 64  # one of so many clusters is probed at least: fewer save no time, and some ask for more than five
_FIRST = 2048  # labels of probed clusters of a combined model, at first; fewer where one cluster of 64 has fewer
_COMPARED = 20  # best labels of exact channels, by which those that are found count


def pack_ranker(
    ranker: Ranker,
    tuning_texts: Inputs | None = None,
    device: torch.device = CPU,
    on_part: OnPart = lambda done, parts: None,
) -> PackedRanker:
    """Pack a ranker with all that it is made of; `on_part` hears how many of its parts are packed, and of how many."""
    return Packing(ranker, tuning_texts, device, on_part).part(ranker)


def num_parts(ranker: Ranker) -> int:
    """Count the rankers that a ranker is made of, itself among them."""
    return sum(isinstance(module, Ranker) for module in ranker.modules())


class Packing:
    """The texts and the device that packing uses, and how far it is."""

    def __init__(self, ranker: Ranker, tuning_texts: Inputs | None, device: torch.device, on_part: OnPart) -> None:
        # Texts that shape a tree must not evaluate it.
        self.fitting, self.holdout = _split(tuning_texts, ranker.num_labels)
        self.device = device
        self._on_part, self._parts, self._done = on_part, num_parts(ranker), 0

    def part(self, ranker: Ranker) -> PackedRanker:
        """Pack a ranker, be it one of another."""
        return self._counted(pack_part(ranker, self))

    def channel(self, ranker: Ranker) -> PackedRanker:
        """Pack a channel of a combined model; where it searches a tree, its beam is chosen with the other channels'."""
        if isinstance(ranker, FlatRanker):
            return self._counted(tree_over(ranker, self.fitting, self.device))
        return self.part(ranker)

    def _counted(self, packed: PackedRanker) -> PackedRanker:
        self._done += 1
        self.within(0.0)
        return packed

    def within(self, fraction: float) -> None:
        """Tell that this fraction of a part is packed."""
        self._on_part(self._done + fraction, self._parts)


@singledispatch
def pack_part(ranker: Ranker, packing: Packing) -> PackedRanker:
    """Convert one kind of ranker; the rankers that it is made of are left to `packing.part`."""
    raise ConfigError(
        f"a ranker of the kind {type(ranker).__name__} cannot be packed; laconic predict answers from the model itself"
    )


@pack_part.register
@torch.no_grad()
def _(ranker: FlatRanker, packing: Packing) -> PackedRanker:
    """Add a search tree, and probe as many of its clusters as it takes."""
    fitting, holdout = packing.fitting, packing.holdout
    tree = tree_over(ranker, fitting, packing.device)
    clusters, encoder = tree.clusters.size, tree.encoder
    if holdout is None:
        return tree
    # Texts are encoded once, not for each beam that is tried.
    by_vectors = replace(tree, encoder=Given(features=encoder.dim))
    vectors = encoded_by(encoder, holdout)
    packing.within(_GROWN)
    beams = _beams(most=clusters, least=clusters // _SPARED)
    wanted = best_of_all(by_vectors, vectors, packing.device) if packing.device.type == "cuda" else None

    def tell(done: float) -> None:
        packing.within(_GROWN + (1 - _GROWN) * done)

    tuned = _tuned(by_vectors, vectors, FAITHFUL, beams, tell, wanted)
    assert isinstance(tuned, Searched)
    return replace(tuned, encoder=encoder)


@pack_part.register
@torch.no_grad()
def _(ranker: ShortlistRanker, packing: Packing) -> Searched:
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
    holdout = packing.holdout
    return tree if tree.groups is None or holdout is None else _with_groups(tree, holdout)


@pack_part.register
@torch.no_grad()
def _(ranker: CandidatesRanker, packing: Packing) -> PackedRanker:
    """Probe as many cells as it takes."""
    dim, shortlist = ranker.encoder.dim, _pack_shortlist(ranker, packing)
    encoder, rows = pack_encoder(ranker.encoder), Rows.of(*rows_of(ranker.classifier))
    transform = pack_transform(ranker.classifier.transform, dim)
    beta, size = float(ranker.beta), ranker.shortlister.size
    part: PackedRanker
    if isinstance(shortlist, NearLabels):
        part = Candidates(encoder=encoder, transform=transform, rows=rows, near=shortlist, beta=beta, size=size)
    else:
        part = Blended(encoder=encoder, transform=transform, rows=rows, shortlist=shortlist, beta=beta, size=size)
    return _tuned(part, packing.holdout, NEARLY, _beams(most=shortlist.cells), packing.within)


def _pack_shortlist(ranker: CandidatesRanker, packing: Packing) -> Shortlist:
    """Convert the shortlister; that of a learnt space searches it as a packed ranker does."""
    shortlister, dim = ranker.shortlister, ranker.encoder.dim
    if not isinstance(shortlister, NearestInSpace):
        return pack_shortlist(shortlister, dim)
    space, bias = packing.part(shortlister.siamese), shortlister.siamese.labels.bias
    assert isinstance(space, Searched)
    assert bias is not None
    numbers = {"temperature": float(shortlister.temperature), "bias": float(bias[0])}
    return SpaceLabels(num_labels=shortlister.num_labels, space=space, width=dim, **numbers)


@pack_part.register
@torch.no_grad()
def _(ranker: BucketsRanker, packing: Packing) -> Buckets:
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


@pack_part.register
@torch.no_grad()
def _(ranker: Ensemble, packing: Packing) -> Averaged:
    return Averaged(members=tuple(packing.part(member) for member in ranker.rankers()), width=ranker.width)


@pack_part.register
@torch.no_grad()
def _(ranker: Reranker, packing: Packing) -> Reranked:
    return Reranked(
        base=packing.part(ranker.base),
        encoder=pack_encoder(ranker.encoder),
        transform=pack_transform(ranker.classifier.transform, ranker.encoder.dim),
        rows=Rows.of(*rows_of(ranker.classifier)),
        size=ranker.size,
        alpha=float(ranker.alpha),
    )


@pack_part.register
@torch.no_grad()
def _(ranker: NearestRanker, packing: Packing) -> PackedRanker:
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
    return _tuned(part, packing.holdout, NEARLY, _beams(most=index.middles.size), packing.within)


@pack_part.register
@torch.no_grad()
def _(ranker: TreesRanker, packing: Packing) -> Trees:
    return Trees.of(ranker.forest, ranker.features, ranker.beam)


@pack_part.register
@torch.no_grad()
def _(ranker: FusedRanker, packing: Packing) -> Fused:
    network, nearest = ranker.combiner, packing.part(ranker.nearest)
    space = None if ranker.siamese is None else packing.channel(ranker.siamese)
    assert isinstance(nearest, Neighbours)
    further = None if ranker.transformer is None else packing.channel(ranker.transformer)
    assert isinstance(space, Searched | None)
    assert isinstance(further, Searched | None)
    layers = {"first": network.first, "second": network.second}
    weights = {name: layer.weight.numpy().T.copy() for name, layer in layers.items()}
    biases = {f"{name}_bias": layer.bias.numpy().copy() for name, layer in layers.items()}
    fused = Fused(
        base=packing.channel(ranker.base),
        nearest=nearest,
        trees=None if ranker.trees is None else packing.part(ranker.trees),
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
    return _with_beams(fused, packing.holdout, packing.within)


def _pack_order(ordering: Ordering) -> TreeOrder:
    arrays = ordering.forest._asdict()
    return TreeOrder(**arrays, slope=ordering.slope, shift=ordering.shift, places=ordering.places)


def _index_of(texts: NearestBags | NearestVectors) -> Pairs | Cells:
    if isinstance(texts, NearestVectors):
        return cells_of(texts.vectors.numpy(), with_exact=True)
    return Pairs.of(texts.index.lists())


def _split(tuning_texts: Inputs | None, labels: int) -> tuple[Some | None, Some | None]:
    """Divide the tuning texts into those that a tree is learnt from and those that it is evaluated on.

    Exact answers score all labels for each of the latter, so there are fewer of them for very many labels.
    """
    if tuning_texts is None:
        return None, None
    size, most = size_of(tuning_texts), int(np.clip(_SCORED // labels, _LEAST_HOLDOUT, _HOLDOUT))
    first = size - min(most, -(-size // 2))
    return some(tuning_texts, 0, first), some(tuning_texts, first, size)


def _beams(*, most: int, least: int = 1) -> list[int]:
    """Return the beams among which one is chosen, the smallest first."""
    return sorted({max(1, least, round(most / 2 ** (step / 8))) for step in range(88)})


def _tuned(
    tree: PackedRanker,
    holdout: Inputs | None,
    share: float,
    beams: Sequence[int],
    on_step: Callable[[float], None],
    wanted: Int[np.ndarray, "texts 5"] | None = None,
) -> PackedRanker:
    """Choose the smallest of some beams that finds this fraction of the exact best five, `wanted` if they are known."""
    if holdout is None or not size_of(holdout):
        return tree
    wanted, steps = _best_five(tree.exact(), holdout).labels if wanted is None else wanted, count(1)
    most = 1 + len(beams).bit_length()  # times that texts are ranked

    def found(beam: int) -> float:
        on_step(next(steps) / most)
        return _fraction_found(_best_five(tree.with_beam(beam), holdout).labels, wanted)

    enough = bisect_left(beams, share, key=found)
    return tree.with_beam(beams[min(enough, len(beams) - 1)])


def _with_beams(fused: Fused, holdout: Inputs | None, on_step: Callable[[float], None]) -> Fused:
    """Widen the beams of the channels for as long as the combined best five gain enough true labels by it.

    How many labels are true, the model says itself: a found label counts as much as its probability by exact channels,
    so one that is as good as another may take its place. Beams are narrow at first. The one is doubled that finds most
    for what is read more, if that is worth it. Label trees and nearest texts are searched as they are: an exact search
    of theirs would take far longer.
    """
    most = {name: beam for name in ("base", "siamese", "transformer") if (beam := _widest(getattr(fused, name)))}
    if holdout is None or not size_of(holdout) or not most:
        return fused
    enough = int(np.clip(_SCORED_TOGETHER // fused.num_labels, _LEAST_COMBINED, _COMBINED))
    texts = some(holdout, 0, min(enough, size_of(holdout)))
    exact: dict[str, Any] = {name: getattr(fused, name).exact() for name in most}
    wanted, steps = _best(replace(fused, **exact), texts, min(_COMPARED, fused.num_labels)), count(1)

    def widened(beams: Mapping[str, int]) -> _Widened:
        on_step(min(1.0, next(steps) / (_DOUBLED * len(most) ** 2)))
        channels: dict[str, Any] = {name: getattr(fused, name).with_beam(beam) for name, beam in beams.items()}
        wider = replace(fused, **channels)
        return _Widened(
            wider, beams, _share_found(_best_five(wider, texts), wanted), sum(map(_read, channels.values()))
        )

    labels = fused.num_labels
    at = widened({name: max(1, min(beam // _SPARED, beam * _FIRST // labels)) for name, beam in most.items()})
    while at.found < TOGETHER and at.beams != most:
        doubled = {name: min(2 * beam, most[name]) for name, beam in at.beams.items()}
        tried = [widened({**at.beams, name: doubled[name]}) for name in most if at.beams[name] < most[name]]
        best = max(tried, key=at.gain_of)
        if at.gain_of(best) < at.least_gain():
            break
        at = best
    return at.fused


class _Widened(NamedTuple):
    """A combined model with some beams, what it finds, and the bytes that its channels read for a text."""

    fused: Fused
    beams: Mapping[str, int]
    found: float
    read: float

    def least_gain(self) -> float:
        """Return the gain from which on a wider beam is worth its time."""
        if self.found >= ENOUGH:
            return _WORTH
        return _LEAST_WORTH if self.read > _REST else -np.inf

    def gain_of(self, other: _Widened) -> float:
        """Return how much more the other finds, divided by the fraction by which a text takes it longer."""
        return (other.found - self.found) / max((other.read - self.read) / (_REST + self.read), 1e-9)


def _widest(channel: PackedRanker | None) -> int:
    """Return the most clusters that a channel may probe, or cells, of which as many were chosen as it needs alone."""
    match channel:
        case Searched():
            return channel.clusters.size
        case Candidates():
            return channel.beam
    return 0


def _read(channel: Searched | Candidates) -> float:
    """Return about how many bytes of rows are read for a text."""
    if isinstance(channel, Candidates):
        centres = channel.near.centres
        return channel.beam * centres.rows.coarse.nbytes / centres.middles.size
    always = int(channel.starts[0])
    probed = channel.beam * (channel.rows.size - always) / channel.clusters.size
    return (always + probed) * channel.rows.dim + channel.clusters.coarse.nbytes


def _with_groups(tree: Searched, holdout: Inputs) -> Searched:
    """Double the number of probed groups until answers equal those of all clusters."""
    assert tree.groups is not None
    whole = np.array([0, tree.clusters.size], dtype=np.int32)
    wanted, groups = _best_five(replace(tree, groups=None, group_starts=whole), holdout).labels, tree.open_groups
    while groups < tree.groups.size:
        found = replace(tree, open_groups=groups)
        if _fraction_found(_best_five(found, holdout).labels, wanted) >= ALIKE:
            return found
        groups *= 2
    return replace(tree, open_groups=tree.groups.size)


def _best_five(ranker: PackedRanker, inputs: Inputs) -> Ranked:
    return _best(ranker, inputs, 5)


def _best(ranker: PackedRanker, inputs: Inputs, k: int) -> Ranked:
    """Rank on all cores."""
    best = Ranked.empty(size_of(inputs), k)

    def rank(first: int, last: int) -> None:
        best.labels[first:last], best.scores[first:last] = ranker.rank(some(inputs, first, last), k)

    in_threads(len(best.labels), rank)
    return best


def best_of_all(
    tree: Searched, encoded: Float[np.ndarray, "texts width"], device: torch.device
) -> Int[np.ndarray, "texts 5"]:
    """Return the best five of all labels as `tree.exact()` ranks them, by products on the device."""
    rows, own = tree.rows, torch.from_numpy(tree.transform.apply(encoded)).to(device)
    best = own.new_empty(len(own), 0)
    best_labels = best.long()
    for first in range(0, rows.size, _PLACES):
        part = slice(first, first + _PLACES)
        scores = torch.addmm(_on(device, rows.biases[part]), own, _weights(rows, part, device).T)
        order = _on(device, tree.order[part]).long().expand_as(scores)
        joined = torch.cat([best, scores], 1).topk(min(5, best.shape[1] + scores.shape[1]))
        best, best_labels = joined.values, torch.cat([best_labels, order], 1).gather(1, joined.indices)
    found = Ranked.empty(len(own), 5).labels
    found[:, : best_labels.shape[1]] = best_labels.cpu().numpy()
    return found


def _weights(rows: Rows, part: slice, device: torch.device) -> Float[torch.Tensor, "n dim"]:
    """Return some rows as numbers, of both of their bytes."""
    weights = _on(device, rows.coarse[part]).float()
    if rows.fine is not None:
        weights += _on(device, rows.fine[part]).float() / FINENESS
    return weights * _on(device, rows.scales[part])[:, None]


def _on(device: torch.device, part: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(part).to(device)


def _share_found(found: Ranked, wanted: Ranked) -> float:
    """Return nDCG@5 of what was found, where a label counts as much as its probability in the wanted ranking."""
    k = found.labels.shape[1]
    at = (found.labels[:, :, None] == wanted.labels[:, None]) & (found.labels[:, :, None] != NO_LABEL)
    discounts = 1 / np.log2(np.arange(2, k + 2))
    gained, most = (at * wanted.scores[:, None]).sum(2) @ discounts, wanted.scores[:, :k] @ discounts
    return float(gained.sum() / max(most.sum(), np.finfo(np.float32).tiny))


def _fraction_found(found: Int[np.ndarray, "texts k"], wanted: Int[np.ndarray, "texts k"]) -> float:
    return float((wanted[:, :, None] == found[:, None]).any(2).mean())
