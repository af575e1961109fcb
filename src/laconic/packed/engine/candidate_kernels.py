"""Kernels of packed Astec: near labels and labels of near texts, blended and scored by their rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.kernels.jit import compiled
from laconic.kernels.selection import ascending, choose
from laconic.packed.engine.cell_kernels import CellLimits, CellTree, nearest_rows
from laconic.packed.engine.row_kernels import Grid, fetch_run, fine_dot, quantise, score_run
from laconic.types import NO_LABEL

_EMPTY = -1
_LABELS_AHEAD = 8
_CLOSE = np.float32(0.95)  # of the largest probability by coarse rows


class Near(NamedTuple):
    """The vectors of labels and of texts."""

    centres: CellTree
    centre_limits: CellLimits
    owners: Int[np.ndarray, "centres"]  # the label of each centre
    texts: CellTree
    text_limits: CellLimits
    text_starts: Int[np.ndarray, "texts+1"]
    text_labels: Int[np.ndarray, "pairs"]


class Blend(NamedTuple):
    """Sizes and weights of the shortlist."""

    counted: int  # labels whose centres count
    listed: int  # centres that are looked up: of what comes after, a list is filled
    neighbours: int  # texts that are asked
    power: float  # of their cosines
    votes: float  # their share; the centres' is the rest
    size: int  # of the shortlist


class Own(NamedTuple):
    """Classifier rows in label order."""

    rows: Grid
    fine: Int[np.ndarray, "labels dim"]
    beta: float  # the rows' share of the score; nearness has the rest
    rescored: int


class Ballot(NamedTuple):
    """Scratch for labels in order of first occurrence, and their votes."""

    table: Int[np.ndarray, "slots"]  # where in the list a label is, by its hash
    labels: Int[np.ndarray, "n"]
    votes: Float[np.ndarray, "n"]
    by_centre: Float[np.ndarray, "n"]


@compiled
def shortlist(near, blend, vector):  # type: ignore[no-untyped-def]
    """Write the shortlist, at least `blend.size` labels unordered, with their similarities; return its length.

    Votes, divided by the most that a label has, count for their share, cosines of centres for the rest. Where that
    makes too few labels, further ones follow by their centres, and then any.
    """
    capacity = max(near.centre_limits.capacity, near.text_limits.capacity)
    found, places = np.empty(capacity, np.float32), np.empty(capacity, np.int32)
    width = max(blend.listed, blend.neighbours)
    best, cosines = np.empty(width, np.int32), np.empty(width, np.float32)
    texts, named = 0, blend.listed + blend.size
    if blend.neighbours > 0:
        texts = nearest_rows(near.texts, near.text_limits, vector, found, places, blend.neighbours, best, cosines)
    for i in range(texts):
        named += near.text_starts[best[i] + 1] - near.text_starts[best[i]]
    ballot, nearness = _empty_ballot(named), np.empty(named, np.float32)
    count, most = _vote(near, blend, best[:texts], cosines, ballot)
    kept = nearest_rows(near.centres, near.centre_limits, vector, found, places, blend.listed, best, cosines)
    counted, seen = 0, 0
    while seen < kept and counted < blend.counted:
        slot = _slot(ballot, near.owners[best[seen]], count)
        count += slot == count
        if ballot.by_centre[slot] == 0:  # its nearest centre comes first
            ballot.by_centre[slot] = cosines[seen]
            counted += 1
        seen += 1
    share, least = np.float32(blend.votes) if blend.neighbours > 0 else np.float32(0), np.float32(0)
    for i in range(count):
        nearness[i] = share * ballot.votes[i] / most + (1 - share) * ballot.by_centre[i]
        least = min(least, nearness[i])
    begun, label = count, 0
    while count < blend.size:
        count += _slot(ballot, near.owners[best[seen]] if seen < kept else label, count) == count
        label += seen >= kept
        seen += 1
    nearness[begun:count] = least
    return ballot.labels, nearness, count


@compiled
def _empty_ballot(most):  # type: ignore[no-untyped-def]
    slots = 64
    while slots < 2 * most:
        slots *= 2
    table, labels = np.full(slots, _EMPTY, np.int32), np.empty(most, np.int32)
    return Ballot(table, labels, np.zeros(most, np.float32), np.zeros(most, np.float32))


@compiled
def _vote(near, blend, texts, cosines, ballot):  # type: ignore[no-untyped-def]
    """Count the votes of texts; return the number of labels with votes and the most votes of a label."""
    count, most = 0, np.float32(1e-12)
    for i in range(len(texts)):
        weight = np.float32(max(cosines[i], np.float32(0)) ** blend.power)
        for j in range(near.text_starts[texts[i]], near.text_starts[texts[i] + 1]):
            slot = _slot(ballot, near.text_labels[j], count)
            count += slot == count
            ballot.votes[slot] += weight
            most = max(most, ballot.votes[slot])
    return count, most


@compiled
def _slot(ballot, label, count):  # type: ignore[no-untyped-def]
    """Return the position of a label in the list of `count`; a new one is appended."""
    table = ballot.table
    place = (np.uint32(label) * np.uint32(2654435769)) & np.uint32(len(table) - 1)
    while table[place] != _EMPTY:
        if ballot.labels[table[place]] == label:
            return np.int64(table[place])
        place = (place + np.uint32(1)) & np.uint32(len(table) - 1)
    table[place] = count
    ballot.labels[count] = label
    return np.int64(count)


@compiled
def list_labels(near, blend, encoded, into):  # type: ignore[no-untyped-def]
    """Write the nearest labels of each text, nearest first, with their similarities."""
    labels, nearness = into
    for text in range(len(labels)):
        some, near_by, count = shortlist(near, blend, _unit(encoded[text]))
        scratch, chosen = np.empty(count, np.float32), np.empty(count, np.int32)
        kept = choose(near_by, count, labels.shape[1], scratch, chosen)
        for i in range(kept):
            scratch[i] = -near_by[chosen[i]]
        order = ascending(scratch[:kept])
        for i in range(kept):
            labels[text, i], nearness[text, i] = some[chosen[order[i]]], -scratch[order[i]]


@compiled
def rank_candidates(near, blend, own, encoded, vectors, into):  # type: ignore[no-untyped-def]
    """Write the best labels of each text, best first."""
    labels, scores = into
    most = blend.size
    some, nearness, by_rows = np.empty(most, np.int32), np.empty(most, np.float32), np.empty(most, np.float32)
    totals, scratch, chosen = np.empty(most, np.float32), np.empty(most, np.float32), np.empty(most, np.int32)
    for text in range(len(labels)):
        vector = vectors[text]
        kept, largest, nearest = _candidates(near, blend, own, encoded[text], vector, some, nearness, by_rows)
        for i in range(kept):
            totals[i] = own.beta * by_rows[i] / largest + (1 - own.beta) * nearness[i] / nearest
        last = choose(totals, kept, own.rescored, scratch, chosen)
        for i in range(last):
            exact = _probability(own, some[chosen[i]], vector)
            scratch[i] = -(own.beta * exact / largest + (1 - own.beta) * nearness[chosen[i]] / nearest)
        best = ascending(scratch[:last])
        for i in range(min(last, labels.shape[1])):
            labels[text, i], scores[text, i] = some[chosen[best[i]]], -scratch[best[i]]


@compiled
def score_candidates(near, blend, own, encoded, vectors, into):  # type: ignore[no-untyped-def]
    """Write the scores of given labels; those outside the shortlist come last."""
    labels, scores = into
    most = blend.size
    some, nearness, by_rows = np.empty(most, np.int32), np.empty(most, np.float32), np.empty(most, np.float32)
    for text in range(len(labels)):
        vector = vectors[text]
        kept, largest, nearest = _candidates(near, blend, own, encoded[text], vector, some, nearness, by_rows)
        last, least = 0, np.float32(np.inf)
        for i in range(kept):
            total = own.beta * by_rows[i] / largest + (1 - own.beta) * nearness[i] / nearest
            if total < least:
                last, least = i, total
        if kept > 0:
            exact = _probability(own, some[last], vector)
            least = own.beta * exact / largest + (1 - own.beta) * nearness[last] / nearest
        for j in range(labels.shape[1]):
            label = labels[text, j]
            if label == NO_LABEL:
                continue
            score = own.beta * _probability(own, label, vector) / largest
            place = 0
            while place < kept and some[place] != label:
                place += 1
            if place < kept:
                scores[text, j] = score + (1 - own.beta) * nearness[place] / nearest
            else:
                scores[text, j] = min(score, least)


@compiled
def _candidates(near, blend, own, encoded, vector, some, nearness, by_rows):  # type: ignore[no-untyped-def]
    """Write the shortlist with its coarse classifier scores and its similarities, both as sigmoids.

    Returns how many labels there are, and the largest of either, by which others will be divided.
    """
    numbers = np.empty(len(vector), np.int16)
    listed, near_by, count = shortlist(near, blend, _unit(encoded))
    scratch, first = np.empty(count, np.float32), np.empty(count, np.int32)
    kept = choose(near_by, count, blend.size, scratch, first)
    nearest, likeliest = np.float32(1e-12), 0
    scale = quantise(vector, numbers)
    for i in range(kept):
        label = listed[first[i]]
        if i + _LABELS_AHEAD < kept:
            ahead = listed[first[i + _LABELS_AHEAD]]
            fetch_run(own.rows, ahead, ahead + 1)
        score_run(own.rows, label, label + 1, numbers, scale, by_rows, i)
        by_rows[i] = _sigmoid(by_rows[i])
        if by_rows[i] > by_rows[likeliest]:
            likeliest = i
        some[i], nearness[i] = label, _sigmoid(near_by[first[i]])
        nearest = max(nearest, nearness[i])
    largest = np.float32(1e-12)
    for i in range(kept):  # of those that may be the likeliest, rounding being what it is
        if by_rows[i] >= _CLOSE * by_rows[likeliest]:
            largest = max(largest, _probability(own, some[i], vector))
    return kept, largest, nearest


@compiled
def _unit(vector):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for i in range(len(vector)):
        total += vector[i] * vector[i]
    return vector / max(np.sqrt(total), np.float32(1e-12))


@compiled
def _probability(own, label, vector):  # type: ignore[no-untyped-def]
    return _sigmoid(fine_dot(own.rows, own.fine, label, vector) + own.rows.biases[label])


@compiled
def _sigmoid(score):  # type: ignore[no-untyped-def]
    return np.float32(1) / (np.float32(1) + np.exp(-score))
