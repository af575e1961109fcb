"""Selection of the largest of many scores, without sorting all of them."""

from __future__ import annotations

import numpy as np

from laconic.kernels.jit import compiled

_FEW = 256  # scores; of fewer, the place in the order is found without counting them first
_SHIFT = 20  # bits that a score's bin leaves out: the others are its sign, its exponent and three more
_BINS = 1 << 12
_LOWEST, _HIGHEST = 0x008, 0xFF7  # bins of finite scores
_SIGN, _ALL = np.uint32(1 << 31), np.uint32((1 << 32) - 1)
_RUN = 16  # keys that are sorted by insertion


@compiled
def choose(scores, count, wanted, scratch, chosen):  # type: ignore[no-untyped-def]
    """Write the positions of the `wanted` largest of the first `count` scores, in order; return their number."""
    if count <= wanted:
        for i in range(count):
            chosen[i] = i
        return count
    if wanted == 0:
        return 0
    least, equal, as_large = _threshold(scores, count, wanted, scratch)
    kept = 0
    if equal == as_large:  # as nearly always: no branch but the last is hard to foresee
        for i in range(count):
            chosen[kept] = i
            kept += scores[i] >= least
            if kept == wanted:
                break
        return kept
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
    """Return the least of the `wanted` largest scores, and how many of those are equal to it."""
    least, equal, _ = _threshold(scores, count, wanted, scratch)
    return least, equal


@compiled
def _threshold(scores, count, wanted, scratch):  # type: ignore[no-untyped-def]
    """Return the least of the `wanted` largest scores, how many of those are equal to it, and how many of all are.

    Scores are counted by their upper bits first: looking for a place in the order of all of them would take several
    times as long. `scores` are float32.
    """
    if count >= _FEW:
        counts = np.zeros(_BINS, np.int32)
        bits = scores.view(np.uint32)
        for i in range(count):
            counts[_bin(bits[i])] += 1
        if counts[:_LOWEST].sum() + counts[_HIGHEST + 1 :].sum() == 0:
            place, above = _BINS - 1, 0
            while above + counts[place] < wanted:
                above += counts[place]
                place -= 1
            inside = 0
            for i in range(count):
                scratch[inside] = scores[i]  # without a branch: what is written in vain is written over next
                inside += _bin(bits[i]) == place
            return _nth_of(scratch, inside, wanted - above)
    inside = 0
    for i in range(count):
        scratch[inside] = scores[i]
        inside += scores[i] >= -np.inf
    if inside < wanted:  # the others are no numbers
        return -np.float32(np.inf), wanted, wanted + 1
    return _nth_of(scratch, inside, wanted)


@compiled
def _bin(bits):  # type: ignore[no-untyped-def]
    """Return the bin of a score by its bits: no larger score has a lower one, and zeros of both signs have the same."""
    return (bits ^ _ALL if bits > _SIGN else bits | _SIGN) >> np.uint32(_SHIFT)


@compiled
def _nth_of(scratch, count, nth):  # type: ignore[no-untyped-def]
    """Return the nth largest of some scores, how many of the nth largest are equal to it, and how many of all are."""
    least, larger, as_large = _nth_largest(scratch, count, nth), 0, 0
    for i in range(count):
        larger += scratch[i] > least
        as_large += scratch[i] == least
    return least, nth - larger, as_large


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
