"""Blend labels found by their centroids with the votes of neighbouring texts; cost depends on the lists alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from laconic.kernels.csr import in_threads, keep, order_kept
from laconic.kernels.jit import compiled
from laconic.models.shortlisters.base import pad_ranking
from laconic.types import NO_LABEL, Ranking

_AFTER = -1e6  # less than any score
_ONE = float(1 << 30)  # votes are counted in integers, whose sum is the same in any order


class Voters(NamedTuple):
    """The voting texts of each row with their weights, and the labels of all texts in CSR form."""

    texts: Int[Tensor, "batch m"]
    weights: Float[Tensor, "batch m"]
    starts: Int[Tensor, "bounds"]
    labels: Int[Tensor, "pairs"]


def merge(near: Ranking, voters: Voters, *, counted: int, votes_weight: float, num_labels: int, size: int) -> Ranking:
    """Return the best labels of each text, best first, ties by number; rows are `size` long and end in NO_LABEL.

    `near` are labels with their cosines, best first. The cosines of the first `counted` labels are blended with the
    votes: votes, divided by the row's largest, have `votes_weight`, cosines the rest. Where that gives too few labels,
    the remaining ones of `near` follow, and then any.
    """
    blend = _by_counting if near.labels.is_cpu else _by_sorting
    return _fill(blend(near, voters, counted, votes_weight, num_labels, min(size, num_labels)), size)


def _by_counting(
    near: Ranking, voters: Voters, counted: int, votes_weight: float, num_labels: int, size: int
) -> Ranking:
    """Merge text by text; a hash table finds a label's position among those of the text's lists."""
    labels, cosines, *voting = (np.ascontiguousarray(part.detach().numpy()) for part in (*near, *voters))
    found = np.full((len(labels), size), NO_LABEL, dtype=np.int64)
    scores = np.zeros((len(labels), size), dtype=np.float32)
    rule = (counted, np.float32(votes_weight))
    in_threads(len(labels), lambda *rows: _count(labels, cosines, tuple(voting), rule, rows, found, scores))
    return Ranking(torch.from_numpy(found), torch.from_numpy(scores))


@compiled
def _count(near, cosines, voters, rule, rows, found, scores):  # type: ignore[no-untyped-def]
    (texts, weights, starts, labels), (counted, votes_weight) = voters, rule
    most_labels = 1
    for row in range(rows[0], rows[1]):
        there = near.shape[1]
        for i in range(texts.shape[1]):
            there += starts[texts[row, i] + 1] - starts[texts[row, i]]
        most_labels = max(most_labels, there)
    capacity = 2
    while capacity < 2 * most_labels:
        capacity *= 2
    table = np.full(capacity, -1, dtype=np.int64)  # positions of labels; -1: free
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
            totals[i] *= votes_weight / most
        for i in range(near.shape[1]):
            place = _place(table, slots, own, count, near[row, i])
            if place == count:
                count += 1
                totals[place], state[place] = 0, 0
            if state[place] == 2:  # by a nearer centre
                continue
            if seen < counted:
                totals[place] += (1 - votes_weight) * cosines[row, i]
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
    """Return the label's position among a text's labels; a new label is written at `count`."""
    mask = len(table) - 1
    slot = (label * 0x9E3779B1 >> 7) & mask
    while table[slot] >= 0 and own[table[slot]] != label:
        slot = (slot + 1) & mask
    if table[slot] < 0:
        table[slot], slots[count], own[count] = count, slot, label
    return table[slot]


def _by_sorting(
    near: Ranking, voters: Voters, counted: int, votes_weight: float, num_labels: int, size: int
) -> Ranking:
    """Merge all texts at once by sorting, for a GPU; `near` must have every label of a row only once.

    Votes are summed as integers and the largest cosine is taken, so that the result does not depend on any order.
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
    blended = votes_weight * (votes.double() / most[row]).float() + (1 - votes_weight) * cosines.masked_fill(
        cosines <= _AFTER, 0
    )
    alone = (cosines <= _AFTER) & (votes == 0)
    return _rows(row, label, torch.where(alone, cosines, blended), batch, size)


def _ballots(voters: Voters, num_labels: int) -> tuple[Int[Tensor, "votes"], Float[Tensor, "votes"]]:
    """Return every label of every voter, as row · num_labels + label, and the voter's weight."""
    texts = voters.texts.flatten()
    counts = voters.starts.diff()[texts]
    voter = torch.repeat_interleave(counts)
    within = torch.arange(len(voter), device=voter.device) - (counts.cumsum(0) - counts)[voter]
    labels = voters.labels[voters.starts[texts][voter] + within]
    return voter // max(voters.texts.shape[1], 1) * num_labels + labels, voters.weights.flatten()[voter]


def _rows(row: Int[Tensor, "n"], label: Int[Tensor, "n"], score: Float[Tensor, "n"], batch: int, size: int) -> Ranking:
    """Return each row's best labels, of lists sorted by row and label."""
    order = score.sort(descending=True, stable=True).indices
    order = order[row[order].sort(stable=True).indices]
    row, label, score = row[order], label[order], score[order]
    place = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)
    row, place, label, score = (part[place < size] for part in (row, place, label, score))
    labels, scores = row.new_full((batch, size), NO_LABEL), score.new_zeros(batch, size)
    labels[row, place], scores[row, place] = label, score
    return Ranking(labels, scores)


def _fill(best: Ranking, size: int) -> Ranking:
    """Fill empty positions with the lowest missing labels; unblended labels score 0, or the row's least if below."""
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
    return pad_ranking(Ranking(labels, torch.where(blended, scores, least)), size)
