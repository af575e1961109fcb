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
from laconic.packed.engine.fusion import Fused
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.row_kernels import FINENESS
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.search import Searched
from laconic.packed.engine.texts import Inputs, Ranked, size_of, some
from laconic.types import NO_LABEL

FAITHFUL = 0.995  # of what all labels' best five would be, a tree must find
NEARLY = 0.993  # and cells: a text that is not found changes what others are worth
ALIKE = 0.998  # and groups of learnt clusters, of what all clusters would give
ENOUGH, TOGETHER = 0.985, 0.997  # and a combined model, of the true labels that exact channels give: at least, at most
_COMBINED, _LEAST_COMBINED = 1000, 250  # texts on which the beams of a combined model's channels are chosen
_SCORED_TOGETHER = 1 << 28  # pairs of text and label that are scored exactly for it, unless texts are fewer than these
_PLACES = 1 << 15  # labels that are scored at a time on a GPU
_DOUBLED = 3  # times that a beam is doubled, usually
_WORTH = 0.05  # of what is wanted, must be found more where a text takes twice as long, once enough is found
_LEAST_WORTH = 0.01  # and before, unless rows take less time than the rest
_REST = 3e6  # bytes that a core could read while it reads a text and searches label trees and nearest texts
SPARED = 64  # one of so many clusters is probed at least: fewer save no time, and some ask for more than five
_FIRST = 2048  # labels of probed clusters of a combined model, at first; fewer where one cluster of 64 has fewer
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


def with_beams(fused: Fused, holdout: Inputs | None, on_step: Callable[[float], None]) -> Fused:
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
    at = widened({name: max(1, min(beam // SPARED, beam * _FIRST // labels)) for name, beam in most.items()})
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


def with_groups(tree: Searched, holdout: Inputs) -> Searched:
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
