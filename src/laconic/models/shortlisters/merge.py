"""Two lists into one: labels by their centroids, and labels by the texts that have them, blended.

What it costs depends on the lists, not on how many labels there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from laconic.kernels.csr import in_threads, keep, order_kept
from laconic.kernels.jit import compiled
from laconic.types import NO_LABEL, Ranking

_AFTER = -1e6  # less than any score
_ONE = float(1 << 30)  # votes are counted in whole numbers, whose sum is the same in any order


class Voters(NamedTuple):
    """For each row some texts and the weight that each gives its labels, which lie one text after another."""

    texts: Int[Tensor, "batch m"]
    weights: Float[Tensor, "batch m"]
    starts: Int[Tensor, "bounds"]
    labels: Int[Tensor, "pairs"]


def merged(near: Ranking, voters: Voters, *, counted: int, share: float, num_labels: int, size: int) -> Ranking:
    """The best labels of each text, best first, of equals the lower number; rows are `size` long and end in NO_LABEL.

    `near` are labels with their cosines, best first. The cosines of the first `counted` labels are blended with the
    votes: divided by a row's most, votes count for `share`, cosines for the rest. Where that makes too few labels,
    the further of `near` follow, and then any.
    """
    merge = _by_counting if near.labels.is_cpu else _by_sorting
    best = merge(near, voters, counted, share, num_labels, min(size, num_labels))
    return _filled(best, size)


def _by_counting(near: Ranking, voters: Voters, counted: int, share: float, num_labels: int, size: int) -> Ranking:
    """Merge text by text; a hash table finds the place of a label among those that the lists of a text have."""
    labels, cosines, *voting = (np.ascontiguousarray(part.detach().numpy()) for part in (*near, *voters))
    found = np.full((len(labels), size), NO_LABEL, dtype=np.int64)
    scores = np.zeros((len(labels), size), dtype=np.float32)
    rule = (counted, np.float32(share))
    in_threads(len(labels), lambda *rows: _count(labels, cosines, tuple(voting), rule, rows, found, scores))
    return Ranking(torch.from_numpy(found), torch.from_numpy(scores))


@compiled
def _count(near, cosines, voters, rule, rows, found, scores):  # type: ignore[no-untyped-def]
    (texts, weights, starts, labels), (counted, share) = voters, rule
    most_labels = 1
    for row in range(rows[0], rows[1]):
        there = near.shape[1]
        for i in range(texts.shape[1]):
            there += starts[texts[row, i] + 1] - starts[texts[row, i]]
        most_labels = max(most_labels, there)
    capacity = 2
    while capacity < 2 * most_labels:
        capacity *= 2
    table = np.full(capacity, -1, dtype=np.int64)  # places of labels; -1: free
    slots, own = np.empty(most_labels, dtype=np.int64), np.empty(most_labels, dtype=np.int64)
    totals = np.zeros(most_labels, dtype=np.float32)
    state = np.zeros(most_labels, dtype=np.uint8)  # 1: has votes; 2: was seen among the near
    for row in range(rows[0], rows[1]):
        count, seen, most, kept = 0, 0, np.float32(1e-12), 0
        for i in range(texts.shape[1]):
            for j in range(starts[texts[row, i]], starts[texts[row, i] + 1]):
                place = _place(table, slots, own, count, labels[j])
                if place == count:
                    count += 1
                    totals[place], state[place] = 0, 1
                totals[place] += weights[row, i]
                most = max(most, totals[place])
        for i in range(count):
            totals[i] *= share / most
        for i in range(near.shape[1]):
            place = _place(table, slots, own, count, near[row, i])
            if place == count:
                count += 1
                totals[place], state[place] = 0, 0
            if state[place] == 2:  # by a nearer centre
                continue
            if seen < counted:
                totals[place] += (1 - share) * cosines[row, i]
            elif state[place] == 0:
                totals[place] = _AFTER - i
            state[place] = 2
            seen += 1
        for i in range(count):
            kept = keep(own[i], totals[i], found[row], scores[row], kept)
        order_kept(found[row], scores[row], kept)
        for i in range(count):
            table[slots[i]] = -1


@compiled
def _place(table, slots, own, count, label):  # type: ignore[no-untyped-def]
    """Return the label's place among a text's own; `count`, where it is written now, if it has none yet."""
    mask = len(table) - 1
    slot = (label * 0x9E3779B1 >> 7) & mask
    while table[slot] >= 0 and own[table[slot]] != label:
        slot = (slot + 1) & mask
    if table[slot] < 0:
        table[slot], slots[count], own[count] = count, slot, label
    return table[slot]


def _by_sorting(near: Ranking, voters: Voters, counted: int, share: float, num_labels: int, size: int) -> Ranking:
    """All texts at once, for a GPU: sorting brings what is said of a label together. Every label is near once.

    Sums are of whole numbers, and of cosines the largest is taken, so that nothing depends on an order.
    """
    (batch, width), device = near.labels.shape, near.labels.device
    place = torch.arange(width, device=device)
    by_near = torch.where(place < counted, near.scores, _AFTER - place).flatten()
    of_near = (near.labels + num_labels * torch.arange(batch, device=device)[:, None]).flatten()
    of_votes, by_votes = _ballots(voters, num_labels)
    keys, order = torch.cat([of_votes, of_near]).sort(stable=True)
    votes = torch.cat([(by_votes * _ONE).round().long(), torch.zeros_like(of_near)])[order]
    cosines = torch.cat([torch.full_like(by_votes, -torch.inf), by_near])[order]

    ends = torch.ones_like(keys, dtype=torch.bool)
    ends[:-1] = keys[1:] != keys[:-1]
    row, label = keys[ends] // num_labels, keys[ends] % num_labels
    votes = votes.cumsum(0)[ends].diff(prepend=votes.new_zeros(1))
    segment = ends.cumsum(0) - ends.long()
    cosines = cosines.new_full(row.shape, -torch.inf).scatter_reduce_(0, segment, cosines, "amax")
    most = votes.new_ones(batch).scatter_reduce_(0, row, votes, "amax")
    blended = share * (votes.double() / most[row]).float() + (1 - share) * cosines.masked_fill(cosines <= _AFTER, 0)
    alone = (cosines <= _AFTER) & (votes == 0)
    return _rows(row, label, torch.where(alone, cosines, blended), batch, size)


def _ballots(voters: Voters, num_labels: int) -> tuple[Int[Tensor, "votes"], Float[Tensor, "votes"]]:
    """Every label of every voter, as row · num_labels + label, and the voter's weight."""
    texts = voters.texts.flatten()
    counts = voters.starts.diff()[texts]
    voter = torch.repeat_interleave(counts)
    within = torch.arange(len(voter), device=voter.device) - (counts.cumsum(0) - counts)[voter]
    labels = voters.labels[voters.starts[texts][voter] + within]
    return voter // max(voters.texts.shape[1], 1) * num_labels + labels, voters.weights.flatten()[voter]


def _rows(row: Int[Tensor, "n"], label: Int[Tensor, "n"], score: Float[Tensor, "n"], batch: int, size: int) -> Ranking:
    """Each row's best labels, of lists in the order of rows and labels."""
    order = score.sort(descending=True, stable=True).indices
    order = order[row[order].sort(stable=True).indices]
    row, label, score = row[order], label[order], score[order]
    place = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)
    row, place, label, score = (part[place < size] for part in (row, place, label, score))
    labels, scores = row.new_full((batch, size), NO_LABEL), score.new_zeros(batch, size)
    labels[row, place], scores[row, place] = label, score
    return Ranking(labels, scores)


def _filled(best: Ranking, size: int) -> Ranking:
    """What comes after the blended labels gets 0, or the last score if that is less; empty places get the lowest labels
    that are not there yet."""
    (labels, scores), width = best, best.labels.shape[1]
    empty = labels == NO_LABEL
    if empty.any():
        low = torch.where((labels >= 0) & (labels < width), labels, width)
        taken = labels.new_zeros((len(labels), width + 1), dtype=torch.uint8).scatter_(1, low, 1)[:, :width]
        free, count = taken.sort(dim=1, stable=True).indices, (~empty).sum(1, keepdim=True)
        place = (torch.arange(width, device=labels.device) - count).clamp(min=0)
        labels = torch.where(empty, free.gather(1, place), labels)
    blended = ~empty & (scores > _AFTER)
    least = torch.where(blended, scores, 0).amin(1, keepdim=True) if width else scores
    scores, rest = torch.where(blended, scores, least), (0, size - width)
    return Ranking(functional.pad(labels, rest, value=NO_LABEL), functional.pad(scores, rest))
