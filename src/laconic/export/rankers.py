"""Converts trained rankers to packed ones: rows of bytes in cluster order, with a search tree added if there is none.

Search widths are tuned on `tuning_texts`; without them, trees are made of the rows alone and widths are
defaults. A tree is learnt on `device`; the ranker is on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import Any, TypeAlias

import numpy as np
import torch

from laconic.errors import ConfigError
from laconic.export import transformer  # noqa: F401  # registers how transformers are packed
from laconic.export.beams import (
    FAITHFUL,
    NEARLY,
    SPARED,
    best_of_all,
    possible_beams,
    tuned,
    with_beams,
    with_cells,
    with_enough_rescored,
    with_groups,
)
from laconic.export.cells import cells_of, grouped, rows_of
from laconic.export.encoders import pack_encoder, pack_transform
from laconic.export.learned_tree import LabelRows
from laconic.export.shortlists import pack_shortlist
from laconic.export.tree import encoded_by, groups_over, tree_over
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
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.pairs import Pairs
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.search import Searched
from laconic.packed.engine.shortlists import Shortlist
from laconic.packed.engine.space_labels import SpaceLabels
from laconic.packed.engine.texts import Inputs, Some, size_of, some
from laconic.packed.engine.trees import Trees

CPU = torch.device("cpu")
OnPart: TypeAlias = Callable[[float, int], None]  # parts that are packed, the last one maybe in part, and all parts
_WALKED, _WALKED_BESIDE = 30_000, 10_000  # texts of words' lists: of nearest texts alone, and beside other channels
_HOLDOUT, _LEAST_HOLDOUT = 4000, 1000  # tuning_texts that say how much is found
_SCORED = 1 << 29  # pairs of text and label for which they are scored exactly, with which they are at most so many
_GROWN = 0.5  # of the time that a tree takes, until it is grown


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
        match ranker:
            case FlatRanker():
                return self._counted(_rescoring_enough(tree_over(ranker, self.fitting, self.device), self))
            case ShortlistRanker():
                return self._counted(_rescoring_enough(_over_learnt_clusters(ranker, self), self))
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
    return _probing_enough(_rescoring_enough(tree_over(ranker, packing.fitting, packing.device), packing), packing)


@pack_part.register
@torch.no_grad()
def _(ranker: ShortlistRanker, packing: Packing) -> Searched:
    """Keep the learnt clusters; probe as many as it takes, and no more than the model."""
    return _probing_enough(_rescoring_enough(_over_learnt_clusters(ranker, packing), packing), packing)


def _over_learnt_clusters(ranker: ShortlistRanker, packing: Packing) -> Searched:
    """Probe the clusters that the model probes."""
    of_clusters, encoder, dim = ranker.clusters.classifier, pack_encoder(ranker.encoder), ranker.encoder.dim
    rows, reading = LabelRows(*rows_of(of_clusters)), pack_transform(of_clusters.transform, dim)
    clusters = NibbleRows.of(*rows, with_exact=False)
    groups = groups_over(rows, encoder, reading, ranker.top, packing.fitting, packing.device)
    return Searched(
        encoder=encoder,
        transform=pack_transform(ranker.classifier.transform, dim),
        rows=NibbleRows.of(*rows_of(ranker.classifier)),
        order=ranker.clusters.order.cpu().numpy().astype(np.int32),
        starts=ranker.clusters.starts.cpu().numpy().astype(np.int32),
        clusters=clusters,
        cluster_transform=reading,
        **(groups or grouped(clusters)),
        beam=ranker.top,
        product=ranker.product,
        trained=ranker.trained,
        probed=ranker.top,
    )


def _rescoring_enough(tree: Searched, packing: Packing) -> Searched:
    """Score as many of the best labels by all bits as it takes."""
    return tree if packing.holdout is None else with_enough_rescored(tree, packing.holdout)


def _probing_enough(tree: Searched, packing: Packing) -> Searched:
    """Probe the fewest clusters, and groups of them, that find nearly all of the exact best five."""
    if packing.holdout is None:
        return tree
    # Texts are encoded once, not for each beam that is tried.
    encoder = tree.encoder
    by_vectors = replace(tree.without_groups(), encoder=Given(features=encoder.dim))
    vectors = encoded_by(encoder, packing.holdout)
    packing.within(_GROWN)
    most = tree.probed or tree.clusters.size
    beams = possible_beams(most=most, least=most // SPARED)
    wanted = None if tree.probed else best_of_all(by_vectors, vectors, packing.device)

    def tell(done: float) -> None:
        packing.within(_GROWN + (1 - _GROWN) * done)

    found = tuned(by_vectors, vectors, FAITHFUL, beams, tell, wanted)
    assert isinstance(found, Searched)
    if tree.groups is not None:
        groups = {name: getattr(tree, name) for name in ("groups", "group_starts", "open_groups")}
        found = with_groups(replace(found, **groups), vectors)
    return replace(found, encoder=encoder)


@pack_part.register
@torch.no_grad()
def _(ranker: CandidatesRanker, packing: Packing) -> PackedRanker:
    """Probe as many cells as it takes."""
    dim, shortlist = ranker.encoder.dim, _pack_shortlist(ranker, packing)
    parts: dict[str, Any] = {
        "encoder": pack_encoder(ranker.encoder),
        "transform": pack_transform(ranker.classifier.transform, dim),
        "beta": float(ranker.beta),
        "size": ranker.shortlister.size,
    }
    rows = rows_of(ranker.classifier)
    if isinstance(shortlist, NearLabels):
        astec = Candidates(rows=NibbleRows.of(*rows), near=shortlist, **parts)
        return with_cells(astec, packing.holdout, packing.within)
    part = Blended(rows=Rows.of(*rows), shortlist=shortlist, **parts)
    return tuned(part, packing.holdout, NEARLY, possible_beams(most=shortlist.cells), packing.within)


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
    return tuned(part, packing.holdout, NEARLY, possible_beams(most=index.middles.size), packing.within)


@pack_part.register
@torch.no_grad()
def _(ranker: TreesRanker, packing: Packing) -> Trees:
    return Trees.of(ranker.forest, ranker.features, ranker.beam)


@pack_part.register
@torch.no_grad()
def _(ranker: FusedRanker, packing: Packing) -> Fused:
    network, nearest = ranker.combiner, packing.part(ranker.nearest)
    assert isinstance(nearest, Neighbours)
    nearest = replace(nearest, walked=_WALKED_BESIDE)
    space = None if ranker.siamese is None else packing.channel(ranker.siamese)
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
    return with_beams(fused, packing.holdout, packing.within)


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
