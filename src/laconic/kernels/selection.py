"""Selection of the largest of many scores, without sorting all of them."""

from __future__ import annotations

import numpy as np

from laconic.kernels.jit import compiled

_BINS = 512
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

    Counting scores by size leaves few among which it is: sorting through all of them would take several times as long.
    """
    low, high = scores[0], scores[0]
    for i in range(count):
        low, high = min(low, scores[i]), max(high, scores[i])
    stretch = np.float32(_BINS - 1) / max(high - low, np.float32(1e-30))
    counts = np.zeros(_BINS, np.int32)
    for i in range(count):
        counts[_bin(scores[i], low, stretch)] += 1
    above, bin = 0, _BINS - 1
    while above + counts[bin] < wanted:
        above += counts[bin]
        bin -= 1
    inside = 0
    for i in range(count):
        if _bin(scores[i], low, stretch) == bin:
            scratch[inside] = scores[i]
            inside += 1
    least = _nth_largest(scratch, inside, wanted - above)
    larger = 0
    for i in range(inside):
        larger += scratch[i] > least
    return least, wanted - above - larger


@compiled
def _bin(score, low, stretch):  # type: ignore[no-untyped-def]
    """Return the bin of a score by size; there is one for scores that are not finite."""
    place = (score - low) * stretch
    if place >= _BINS - 1:
        return _BINS - 1
    return np.int64(place) if place > 0 else 0


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
