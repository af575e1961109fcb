"""Chooses how wide a packed ranker searches, by what an exact search finds for texts that shaped no tree.

A ranker by itself gets the narrowest beam that finds nearly all of the exact best five. The channels of a combined
model get theirs together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from laconic.kernels.csr import in_threads
from laconic.packed.engine.candidates import Candidates
from laconic.packed.engine.cells import Cells
from laconic.packed.engine.fusion import Fused
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.row_kernels import FINENESS
from laconic.packed.engine.search import Searched
from laconic.packed.engine.texts import Inputs, Ranked, size_of, some
from laconic.types import NO_LABEL

FAITHFUL = 0.995  # of what all labels' best five would be, a tree must find
MOSTLY, NEARLY = 0.985, 0.993  # and cells, at least and at most: what is passed over is nearly as good
ALIKE = 0.998  # and groups of learnt clusters, of what all clusters would give
ENOUGH, TOGETHER = 0.985, 0.997  # and a combined model, of the true labels that exact channels give: at least, at most
_COMBINED, _LEAST_COMBINED = 1000, 250  # texts on which the beams of a combined model's channels are chosen
_SCORED_TOGETHER = 1 << 28  # pairs of text and label that are scored exactly for it, unless texts are fewer than these
_PLACES = 1 << 15  # labels that are scored at a time on a GPU
_PAIRS = 1 << 23  # of text and label that are scored at a time on a CPU
_ROUNDS = 4  # of doubling, usually
_WORTH, _WORTH_OF_CELLS = 0.02, 0.1  # of what is wanted, must be found more where a text takes twice as long
_HARDLY_FELT = 1.5e6  # bytes of rows, up to which more are read until enough is found, whatever that brings
_MOST_RESCORED = 1024  # labels that are scored by all bits, where upper bits say so little
_SCORED_BY_ALL, _LEAST_RESCORED_BY = 1 << 25, 50  # pairs of text and label by which that is found; texts, at least
_REST, _REST_OF_ASTEC = 3e6, 0.75e6  # bytes of scattered rows that a core reads while it does the rest of an answer
SPARED = 64  # one of so many clusters is probed at least: fewer save no time, and some ask for more than five
_FIRST = 512  # labels of probed clusters of a combined model, at first; fewer where one cluster of 64 has fewer
_FIRST_CELLS = 256  # one of so many cells is probed, at first
_COMPARED_BY_ASTEC = 1000  # texts on which cells are chosen: an exact search compares each with all training texts
_FEW = 0.6  # of all groups, of which no more are probed
_FIRST_GROUPS = 64  # one of so many groups of clusters is probed, at first
_COMPARED = 20  # best labels of exact channels, by which those that are found count


def possible_beams(*, most: int, least: int = 1) -> list[int]:
    """Return the beams among which one is chosen, the smallest first."""
    return sorted({max(1, least, round(most / 2 ** (step / 8))) for step in range(88)})


def tuned(
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


def with_enough_rescored(tree: Searched, holdout: Inputs) -> Searched:
    """Score as many of the best labels by all bits as it takes to find nearly all of the exact best five.

    Where rows are much longer in a few directions than in all others, their upper bits tell labels apart less well.
    """
    enough = max(_LEAST_RESCORED_BY, _SCORED_BY_ALL // tree.num_labels)
    texts, exact, rescored = some(holdout, 0, min(enough, size_of(holdout))), tree.exact(), tree.rescored
    wanted = _best_five(exact, texts).labels
    while rescored < min(_MOST_RESCORED, tree.num_labels):
        if _fraction_found(_best_five(replace(exact, rescored=rescored), texts).labels, wanted) >= FAITHFUL:
            break
        rescored *= 2
    return replace(tree, rescored=rescored)


def with_beams(fused: Fused, holdout: Inputs | None, on_step: Callable[[float], None]) -> Fused:
    """Search the channels more widely for as long as the combined best five gain enough true labels by it.

    How many labels are true, the model says itself: a found label counts as much as its probability by exact channels,
    so one that is as good as another may take its place. Searches are narrow at first. Beams and numbers of groups are
    doubled, one after the other and again, where what is found is worth what is read more. Label trees and nearest
    texts are searched as they are: an exact search of theirs would take far longer.
    """
    channels = {name: getattr(fused, name) for name in ("base", "siamese", "transformer")}
    widest = {name: width for name, channel in channels.items() if (width := _widest(channel))}
    if holdout is None or not size_of(holdout) or not widest:
        return fused
    enough = int(np.clip(_SCORED_TOGETHER // fused.num_labels, _LEAST_COMBINED, _COMBINED))
    texts = some(holdout, 0, min(enough, size_of(holdout)))
    exact: dict[str, Any] = {name: channels[name].exact() for name in widest}
    wanted, steps = _best(replace(fused, **exact), texts, min(_COMPARED, fused.num_labels)), count(1)
    kinds = [(name, kind) for name, width in widest.items() for kind in _Width._fields if getattr(width, kind) > 1]

    def widened(widths: Mapping[str, _Width]) -> _Widened:
        on_step(min(1.0, next(steps) / (_ROUNDS * len(kinds) + 1)))
        searched: dict[str, Any] = {name: width.of(channels[name]) for name, width in widths.items()}
        wider, opened = replace(fused, **searched), {name: widths[name].opened(searched[name]) for name in widths}
        return _Widened(
            wider, opened, _share_found(_best_five(wider, texts), wanted), sum(map(_read, searched.values()))
        )

    at = widened({name: width.narrowest(fused.num_labels) for name, width in widest.items()})
    before = None
    while at is not before:
        before = at
        for name, kind in kinds:
            own = at.widths[name].doubled(kind, widest[name])
            if at.found < TOGETHER and own != at.widths[name]:
                wider = widened({**at.widths, name: own})
                least = _WORTH if at.found >= ENOUGH or at.read > _HARDLY_FELT else -np.inf
                at = wider if at.gain_of(wider, _REST) >= least else at
    assert isinstance(at.ranker, Fused)
    return at.ranker


def with_cells(part: Candidates, holdout: Inputs | None, on_step: Callable[[float], None]) -> Candidates:
    """Probe more cells of labels and of texts for as long as enough more of the exact best five are found by it."""
    if holdout is None or not size_of(holdout):
        return part
    texts = some(holdout, 0, min(_COMPARED_BY_ASTEC, size_of(holdout)))
    near, wanted, steps = part.near, _best_five(part.exact(), texts).labels, count(1)
    of_texts = 0 if near.texts is None else near.texts.middles.size
    most = {"labels": near.centres.middles.size, "voting": of_texts}

    def widened(labels: int, voting: int) -> _Widened:
        on_step(min(1.0, next(steps) / (4 * _ROUNDS + 1)))
        searched = part.with_cells(labels, voting)
        found = _fraction_found(_best_five(searched, texts).labels, wanted)
        return _Widened(searched, {"labels": labels, "voting": voting}, found, _read(searched))

    at = widened(**{kind: min(cells, max(1, cells // _FIRST_CELLS)) for kind, cells in most.items()})
    while at.found < NEARLY:
        doubled = {kind: min(2 * cells, most[kind]) for kind, cells in at.widths.items()}
        wider = [widened(**{**at.widths, kind: cells}) for kind, cells in doubled.items() if cells > at.widths[kind]]
        gains = [at.gain_of(one, _REST_OF_ASTEC) for one in wider]
        least = _WORTH_OF_CELLS if at.found >= MOSTLY or at.read > _HARDLY_FELT else -np.inf
        if max(gains, default=-np.inf) <= least:
            break
        at = wider[int(np.argmax(gains))]
    assert isinstance(at.ranker, Candidates)
    return at.ranker


class _Width(NamedTuple):
    """How widely a channel is searched."""

    groups: int  # groups of clusters that are probed; 1 where there are none
    beam: int  # clusters that are probed, or cells

    def narrowest(self, labels: int) -> _Width:
        """Return where to begin, for a channel that may be searched as widely as this."""
        beam = max(1, min(self.beam // SPARED, self.beam * _FIRST // labels))
        return _Width(groups=-(-self.groups // _FIRST_GROUPS), beam=beam)

    def doubled(self, kind: str, widest: _Width) -> _Width:
        """Return what is tried next of one kind."""
        wider: _Width = self._replace(**{kind: min(2 * getattr(self, kind), getattr(widest, kind))})
        return wider

    def opened(self, channel: Searched | Candidates) -> _Width:
        """Return the width as the channel has it: it opens more groups where these have too few clusters."""
        return self._replace(groups=channel.probed_groups) if isinstance(channel, Searched) else self

    def of(self, channel: Searched | Candidates) -> PackedRanker:
        if isinstance(channel, Searched):
            channel = replace(channel, open_groups=self.groups)
        return channel.with_beam(self.beam)


class _Widened(NamedTuple):
    """A ranker with some widths, what it finds, and the bytes that it reads for a text."""

    ranker: PackedRanker
    widths: Mapping[str, Any]
    found: float
    read: float

    def gain_of(self, other: _Widened, rest: float) -> float:
        """Return how much more the other finds, divided by the fraction by which a text takes it longer.

        A core could read `rest` bytes while it does what an answer takes besides.
        """
        return (other.found - self.found) / max((other.read - self.read) / (rest + self.read), 1e-9)


def _widest(channel: PackedRanker | None) -> _Width | None:
    """Return the most clusters that a channel may probe, or cells, of which as many were chosen as it needs alone."""
    match channel:
        case Searched():
            most = channel.probed or channel.clusters.size
            return _Width(groups=1 if channel.groups is None else channel.groups.size, beam=most)
        case Candidates():
            return _Width(groups=1, beam=channel.beam)
    return None


def _read(channel: Searched | Candidates) -> float:
    """Return about how many bytes of rows are read for a text."""
    if isinstance(channel, Candidates):
        near, of_label = channel.near, int(channel.rows.upper.shape[1])
        return sum(map(_read_of_cells, filter(None, (near.centres, near.texts)))) + channel.size * of_label
    always, scored = int(channel.starts[0]), float(channel.clusters.upper.nbytes)
    probed = channel.beam * (channel.rows.size - always) / channel.clusters.size
    if channel.groups is not None:
        scored = scored * channel.probed_groups / channel.groups.size + channel.groups.upper.nbytes
    return float((always + probed) * channel.rows.upper.shape[1] + scored)


def _read_of_cells(cells: Cells) -> float:
    probed = float(cells.beam * cells.rows.upper.nbytes / cells.middles.size)
    scored = cells.middles.upper.nbytes
    if cells.groups is None:
        return probed + scored
    return probed + scored * min(1, cells.open_groups / cells.groups.size) + cells.groups.upper.nbytes


def with_groups(tree: Searched, holdout: Inputs) -> Searched:
    """Probe the fewest groups with which answers equal those of all clusters; have no groups if it takes most."""
    assert tree.groups is not None
    wanted = _best_five(tree.without_groups(), holdout).labels
    opened = [replace(tree, open_groups=groups) for groups in possible_beams(most=int(_FEW * tree.groups.size))]
    enough = bisect_left(opened, ALIKE, key=lambda one: _fraction_found(_best_five(one, holdout).labels, wanted))
    return opened[enough] if enough < len(opened) else tree.without_groups()


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
    at_once = _PLACES if device.type == "cuda" else max(5, _PAIRS // max(1, len(own)))
    best, places = own.new_empty(len(own), 0), torch.empty(len(own), 0, dtype=torch.long, device=device)
    for first in range(0, rows.size, at_once):
        part = slice(first, first + at_once)
        scores = torch.addmm(_on(device, rows.biases[part]), own, _weights(rows, part, device).T)
        own_best = scores.topk(min(5, scores.shape[1]))
        best, places = torch.cat([best, own_best.values], 1), torch.cat([places, first + own_best.indices], 1)
        joined = best.topk(min(5, best.shape[1]))
        best, places = joined.values, places.gather(1, joined.indices)
    found = Ranked.empty(len(own), 5).labels
    found[:, : places.shape[1]] = tree.order[places.cpu().numpy()]
    return found


def _weights(rows: NibbleRows, part: slice, device: torch.device) -> Float[torch.Tensor, "n dim"]:
    """Return some rows as numbers, of all of their bits."""
    weights = _on(device, rows.coarse_of(part)).float()
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
