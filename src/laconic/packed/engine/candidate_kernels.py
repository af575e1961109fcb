"""Kernels of packed Astec: near labels and labels of near texts, blended and scored by their rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.kernels.exponential import exp_below_zero
from laconic.kernels.jit import compiled
from laconic.kernels.prefetch import prefetch
from laconic.kernels.selection import ascending, choose, threshold_of
from laconic.packed.engine.cell_kernels import CellLimits, CellTree, nearest_places
from laconic.packed.engine.nibble_kernels import (
    NibbleGrid,
    both_dot,
    fetch_row,
    fetch_upper_row,
    in_bytes,
    padded,
    score_rows,
)
from laconic.types import NO_LABEL

_EMPTY = -1
_UNSEEN = np.float32(-np.inf)  # as the cosine of a centre that does not count
_SURELY = 16  # labels, of which one is the likeliest or least likely by all bits: by upper bits they are the first


class Near(NamedTuple):
    """The vectors of labels and of texts."""

    centres: CellTree
    centre_limits: CellLimits
    owners: Int[np.ndarray, "centres"]  # the label of each centre
    centre_starts: Int[np.ndarray, "labels+1"]  # where each label's places begin
    centre_places: Int[np.ndarray, "centres"]  # of its centres
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

    rows: NibbleGrid
    beta: float  # the rows' share of the score; nearness has the rest
    rescored: int  # labels that are scored again by all bits


class Ballot(NamedTuple):
    """Scratch for labels in order of first occurrence, and what makes them near."""

    table: Int[np.ndarray, "slots"]  # where in the list a label is, by its hash
    labels: Int[np.ndarray, "n"]
    votes: Float[np.ndarray, "n"]
    by_centre: Float[np.ndarray, "n"]  # the cosine of its nearest centre, if that counts
    nearness: Float[np.ndarray, "n"]


@compiled
def shortlist(near, blend, vector):  # type: ignore[no-untyped-def]
    """Return the shortlist, at least `blend.size` labels unordered, with their similarities, and its length.

    Votes, divided by the most that a label has, count for their share, cosines of centres for the rest: the largest of
    those in probed cells and those of labels with votes. Where that makes too few labels, any follow.
    """
    capacity = max(near.centre_limits.capacity, near.text_limits.capacity)
    found, places = np.empty(capacity, np.float32), np.empty(capacity, np.int32)
    width = max(blend.listed, blend.neighbours)
    best, cosines = np.empty(width, np.int32), np.empty(width, np.float32)
    texts, named = 0, blend.listed + blend.size
    if blend.neighbours > 0:
        texts = nearest_places(near.texts, near.text_limits, vector, found, places, blend.neighbours, best, cosines)
    for i in range(texts):
        prefetch(near.texts.order, best[i] * near.texts.order.itemsize)
    for i in range(texts):
        best[i] = near.texts.order[best[i]]
        prefetch(near.text_starts, best[i] * near.text_starts.itemsize)
    for i in range(texts):
        first, last = near.text_starts[best[i]], near.text_starts[best[i] + 1]
        prefetch(near.text_labels, first * near.text_labels.itemsize)
        named += last - first
    ballot, share = _empty_ballot(named), np.float32(blend.votes) if blend.neighbours > 0 else np.float32(0)
    voted, most = _vote(near, blend, best[:texts], cosines, ballot)
    count = voted
    kept = nearest_places(near.centres, near.centre_limits, vector, found, places, blend.listed, best, cosines)
    for i in range(kept):
        slot = _slot(ballot, near.owners[near.centres.order[best[i]]], count)
        count += slot == count
        ballot.by_centre[slot] = max(ballot.by_centre[slot], cosines[i])
    _ask_centres(near, vector, ballot, voted)
    if count > blend.counted:
        _keep_nearest(ballot.by_centre[:count], blend.counted, ballot.nearness)
    nearness, least = ballot.nearness, np.float32(0)
    for i in range(count):
        ballot.votes[i] *= share / most
        nearness[i] = ballot.votes[i]
        if ballot.by_centre[i] != _UNSEEN:
            nearness[i] += (1 - share) * ballot.by_centre[i]
            least = min(least, nearness[i])
    label = 0
    while count < blend.size:
        count += _slot(ballot, label, count) == count
        label += 1
    for i in range(voted, count):
        if ballot.by_centre[i] == _UNSEEN:
            nearness[i] = least
    return ballot, count


@compiled
def _empty_ballot(most):  # type: ignore[no-untyped-def]
    slots = 64
    while slots < 2 * most:
        slots *= 2
    table, labels = np.full(slots, _EMPTY, np.int32), np.empty(most, np.int32)
    votes, by_centre = np.zeros(most, np.float32), np.full(most, _UNSEEN, np.float32)
    return Ballot(table, labels, votes, by_centre, np.empty(most, np.float32))


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
def _ask_centres(near, vector, ballot, voted):  # type: ignore[no-untyped-def]
    """Look at the centres of the labels with votes that are in no probed cell."""
    rows, starts = near.centres.rows, near.centre_starts
    for slot in range(voted):
        label = ballot.labels[slot]
        if ballot.by_centre[slot] == _UNSEEN and starts[label] < starts[label + 1]:
            fetch_row(rows, near.centre_places[starts[label]])
    whole = padded(vector, rows.upper.shape[1])
    for slot in range(voted):
        if ballot.by_centre[slot] == _UNSEEN:
            for i in range(starts[ballot.labels[slot]], starts[ballot.labels[slot] + 1]):
                cosine = both_dot(rows, near.centre_places[i], whole)
                ballot.by_centre[slot] = max(ballot.by_centre[slot], cosine)


@compiled
def _keep_nearest(by_centre, counted, scratch):  # type: ignore[no-untyped-def]
    """Let only the largest cosines count."""
    least, _ = threshold_of(by_centre, len(by_centre), counted, scratch)
    for i in range(len(by_centre)):
        if by_centre[i] < least:
            by_centre[i] = _UNSEEN


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
        ballot, count = shortlist(near, blend, _unit(encoded[text]))
        scratch, chosen = np.empty(count, np.float32), np.empty(count, np.int32)
        kept = choose(ballot.nearness, count, labels.shape[1], scratch, chosen)
        for i in range(kept):
            scratch[i] = -ballot.nearness[chosen[i]]
        order = ascending(scratch[:kept])
        for i in range(kept):
            labels[text, i], nearness[text, i] = ballot.labels[chosen[order[i]]], -scratch[order[i]]


class _Candidates(NamedTuple):
    """Scratch for a text's shortlist, and what its labels are scored by."""

    labels: Int[np.ndarray, "n"]
    by_rows: Float[np.ndarray, "n"]  # probabilities by upper bits; those of the likeliest by all bits
    nearness: Float[np.ndarray, "n"]  # as sigmoids
    totals: Float[np.ndarray, "n"]
    scratch: Float[np.ndarray, "n"]
    chosen: Int[np.ndarray, "n"]
    numbers: Int[np.ndarray, "dim"]  # the text's vector in bytes


@compiled
def _no_candidates(own, size):  # type: ignore[no-untyped-def]
    numbers, chosen = np.empty(2 * own.rows.upper.shape[1], np.int8), np.empty(size, np.int32)
    floats = np.empty((4, size), np.float32)
    return _Candidates(np.empty(size, np.int64), floats[0], floats[1], floats[2], floats[3], chosen, numbers)


@compiled
def rank_candidates(held, encoded, vectors, labels, scores):  # type: ignore[no-untyped-def]
    """Write the best labels of each text, best first; held are a Near, a Blend and an Own."""
    near, blend, own = held.value
    some = _no_candidates(own, blend.size)
    chosen, totals = some.chosen, some.totals
    for text in range(len(labels)):
        vector = padded(vectors[text], own.rows.upper.shape[1])
        kept, largest, nearest = _list_candidates(near, blend, own, encoded[text], vector, some)
        for i in range(kept):
            totals[i] = _total(own, some.by_rows[i] / largest, some.nearness[i] / nearest)
        again = choose(totals, kept, own.rescored, some.scratch, chosen)
        for i in range(again):
            fetch_row(own.rows, some.labels[chosen[i]])
        for i in range(again):
            exact = _probability(own, some.labels[chosen[i]], vector)
            some.scratch[i] = -_total(own, exact / largest, some.nearness[chosen[i]] / nearest)
        best = ascending(some.scratch[:again])
        for i in range(min(again, labels.shape[1])):
            labels[text, i], scores[text, i] = some.labels[chosen[best[i]]], -some.scratch[best[i]]


@compiled
def score_candidates(held, encoded, vectors, labels, scores):  # type: ignore[no-untyped-def]
    """Write the scores of given labels; those outside the shortlist come last. Held are a Near, a Blend and an Own."""
    near, blend, own = held.value
    some = _no_candidates(own, blend.size)
    for text in range(len(labels)):
        vector = padded(vectors[text], own.rows.upper.shape[1])
        kept, largest, nearest = _list_candidates(near, blend, own, encoded[text], vector, some)
        for i in range(kept):
            some.totals[i] = -_total(own, some.by_rows[i] / largest, some.nearness[i] / nearest)
        least = np.float32(np.inf)
        for i in range(choose(some.totals, kept, _SURELY, some.scratch, some.chosen)):
            last = some.chosen[i]
            exact = _probability(own, some.labels[last], vector)
            least = min(least, _total(own, exact / largest, some.nearness[last] / nearest))
        for j in range(labels.shape[1]):
            label = labels[text, j]
            if label == NO_LABEL:
                continue
            score = _probability(own, label, vector) / largest
            place = 0
            while place < kept and some.labels[place] != label:
                place += 1
            if place < kept:
                scores[text, j] = _total(own, score, some.nearness[place] / nearest)
            else:
                scores[text, j] = min(own.beta * score, least)


@compiled
def _list_candidates(near, blend, own, encoded, vector, some):  # type: ignore[no-untyped-def]
    """Write the shortlist with its probabilities and its similarities.

    Returns how many labels there are, and the largest of either, by which others will be divided.
    """
    ballot, count = shortlist(near, blend, _unit(encoded))
    kept = choose(ballot.nearness, count, blend.size, np.empty(count, np.float32), some.chosen)
    scale, lacking = in_bytes(vector, some.numbers)
    if scale == 0:  # of numbers that are none, or all zero
        vector[:] = 0
    nearest, largest = np.float32(1e-12), np.float32(1e-12)
    for i in range(kept):
        some.labels[i], some.nearness[i] = ballot.labels[some.chosen[i]], ballot.nearness[some.chosen[i]]
        fetch_upper_row(own.rows, some.labels[i])
    for i in range(kept):
        some.nearness[i] = _quick_sigmoid(some.nearness[i])
        nearest = max(nearest, some.nearness[i])
    score_rows(own.rows, some.labels, kept, some.numbers, lacking, scale, some.by_rows)
    likeliest = choose(some.by_rows, kept, _SURELY, some.scratch, some.chosen)
    for i in range(kept):
        some.by_rows[i] = _quick_sigmoid(some.by_rows[i])
    for i in range(likeliest):
        first = some.chosen[i]
        some.by_rows[first] = _probability(own, some.labels[first], vector)
        largest = max(largest, some.by_rows[first])
    return kept, largest, nearest


@compiled
def _total(own, by_row, nearness):  # type: ignore[no-untyped-def]
    return own.beta * by_row + (1 - own.beta) * nearness


@compiled
def _unit(vector):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for i in range(len(vector)):
        total += vector[i] * vector[i]
    return vector / max(np.sqrt(total), np.float32(1e-12))


@compiled
def _probability(own, label, vector):  # type: ignore[no-untyped-def]
    return _sigmoid(both_dot(own.rows, label, vector) + own.rows.biases[label])


@compiled
def _quick_sigmoid(score):  # type: ignore[no-untyped-def]
    """Return the sigmoid to within 4e-6 of it, so that loops become vector instructions."""
    small = exp_below_zero(-abs(score))
    return (np.float32(1) if score >= 0 else small) / (np.float32(1) + small)


@compiled
def _sigmoid(score):  # type: ignore[no-untyped-def]
    return np.float32(1) / (np.float32(1) + np.exp(-score))
