"""Selection of the largest of many scores, without sorting all of them."""

from __future__ import annotations

import numpy as np

from laconic.kernels.jit import compiled

_PER_LANE = 8  # times as many scores as are wanted, from which on lanes save time
_RUN = 16  # keys that are sorted by insertion


@compiled
def choose(scores, count, wanted, scratch, chosen):  # type: ignore[no-untyped-def]
    """Write the positions of the `wanted` largest of the first `count` scores, in order; return their number."""
    if count <= wanted:
        for i in range(count):
            chosen[i] = i
        return count
    least, equal = threshold_of(scores, count, wanted, scratch)
    kept = 0
    for i in range(count):
        score = scores[i]
        if score >= least:
            if score == least:
                if equal == 0:
                    continue
                equal -= 1
            if kept == wanted:  # where some are no numbers, there is no knowing
                break
            chosen[kept] = i
            kept += 1
    return kept


@compiled
def threshold_of(scores, count, wanted, scratch):  # type: ignore[no-untyped-def]
    """Return the least of the `wanted` largest scores, and how many of those are equal to it.

    What is certainly smaller is sorted out first: looking for it among all would take several times as long.
    """
    bound, inside = -np.float32(np.inf), 0
    if count >= _PER_LANE * wanted:
        bound = _bound_by_lanes(scores, count, wanted, scratch)
    for i in range(count):
        scratch[inside] = scores[i]  # without a branch: what is written in vain is written over next
        inside += scores[i] >= bound
    if inside < wanted:  # the others are no numbers
        return -np.float32(np.inf), wanted
    least, larger = _nth_largest(scratch, inside, wanted), 0
    for i in range(inside):
        larger += scratch[i] > least
    return least, wanted - larger


@compiled
def _bound_by_lanes(scores, count, wanted, scratch):  # type: ignore[no-untyped-def]
    """Return a score that none of the `wanted` largest is below; there are `_PER_LANE` times as many, or more.

    Scores take turns in lanes, at least twice as many as are wanted. That many lanes have a largest score as high.
    """
    lanes = _PER_LANE  # and at most as many as there are scores
    while lanes < 2 * wanted:
        lanes *= 2
    largest, last = scratch[:lanes], count - count % lanes
    largest[:] = -np.inf
    for first in range(0, last, lanes):
        row = scores[first : first + lanes]
        for i in range(lanes):  # no `max`: where one is no number, the comparison is false
            largest[i] = row[i] if row[i] > largest[i] else largest[i]
    return _nth_largest(largest, lanes, wanted)


@compiled
def _nth_largest(scratch, count, nth):  # type: ignore[no-untyped-def]
    """Select by Hoare's quickselect, in place."""
    first, last, wanted = 0, count - 1, nth - 1
    while first < last:
        middle = (first + last) // 2
        low, high = min(scratch[first], scratch[last]), max(scratch[first], scratch[last])
        pivot = min(max(scratch[middle], low), high)
        i, j = first, last
        while i <= j:
            while scratch[i] > pivot:
                i += 1
            while scratch[j] < pivot:
                j -= 1
            if i <= j:
                scratch[i], scratch[j] = scratch[j], scratch[i]
                i += 1
                j -= 1
        if wanted <= j:
            last = j
        elif wanted >= i:
            first = i
        else:
            return scratch[wanted]
    return scratch[wanted]


@compiled
def ascending(keys):  # type: ignore[no-untyped-def]
    """Return the positions of keys in ascending order, those of equal keys in theirs.

    np.argsort gives the same, but takes seconds to compile for every kind of keys.
    """
    count, size = len(keys), _RUN
    order, other = np.arange(count), np.empty(count, np.int64)
    for first in range(0, count, _RUN):
        for i in range(first + 1, min(first + _RUN, count)):
            place, at = order[i], i
            while at > first and keys[order[at - 1]] > keys[place]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = place
    while size < count:
        for first in range(0, count, 2 * size):
            middle, last = min(first + size, count), min(first + 2 * size, count)
            left, right = first, middle
            for i in range(first, last):
                if left < middle and (right == last or not keys[order[right]] < keys[order[left]]):
                    other[i] = order[left]
                    left += 1
                else:
                    other[i] = order[right]
                    right += 1
        order, other = other, order
        size *= 2
    return order
