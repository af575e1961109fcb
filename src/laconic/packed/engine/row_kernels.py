"""Kernels over label rows: scores of runs of rows, selection of the best, and re-scoring in 16 bits.

Rows are int8 with a scale each. A text's vector is rounded to integers of 12 bits, so that what is lost is lost by
the rows alone, and no sum of up to 8,000 products overflows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numba import types
from numba.core import cgutils
from numba.core.cgutils import ir
from numba.extending import intrinsic

from laconic.kernels.jit import compiled, compiled_in_any_order

MOST_DIM = 8000
_BYTE, _NUMBER = ir.IntType(8), ir.IntType(32)
_BINS = 512
_LINE = 64  # bytes that are fetched together
_LARGEST = 2047.0
FINENESS = 254.0  # steps of a row's second byte in one step of its first
_LEAST = 1e-30  # what is smaller is nothing: what it would be stretched by has no end


class Grid(NamedTuple):
    """Rows as kernels read them."""

    coarse: Int[np.ndarray, "rows dim"]
    scales: Float[np.ndarray, "rows"]
    biases: Float[np.ndarray, "rows"]


@compiled
def quantise(vector, into):  # type: ignore[no-untyped-def]
    """Quantise the vector to integers; return their scale."""
    largest = np.float32(0)
    for i in range(len(vector)):
        largest = max(largest, abs(vector[i]))
    if not (largest > _LEAST and largest < np.inf):
        for i in range(len(vector)):
            into[i] = 0
        return np.float32(0)
    stretch = np.float32(_LARGEST) / largest
    for i in range(len(vector)):
        into[i] = np.int16(np.rint(vector[i] * stretch))
    return largest / np.float32(_LARGEST)


@compiled
def score_run(grid, first, last, numbers, scale, into, place):  # type: ignore[no-untyped-def]
    """Write the scores of rows first to last, from `place` on."""
    dim = len(numbers)
    for row in range(first, last):
        values, total = grid.coarse[row], np.int32(0)
        for i in range(dim):
            total = np.int32(total + np.int32(np.int32(values[i]) * np.int32(numbers[i])))
        into[place] = total * (scale * grid.scales[row]) + grid.biases[row]
        place += 1
    return place


@compiled_in_any_order
def fine_dot(grid, fine, row, vector):  # type: ignore[no-untyped-def]
    """Return the product of a row and a vector, by both bytes of the row's numbers where there are two."""
    coarse, total = grid.coarse[row], np.float32(0)
    if len(fine) == 0:
        for i in range(len(vector)):
            total += np.float32(coarse[i]) * vector[i]
        return total * grid.scales[row]
    second, step = fine[row], np.float32(1 / FINENESS)
    for i in range(len(vector)):
        total += (np.float32(coarse[i]) + np.float32(second[i]) * step) * vector[i]
    return total * grid.scales[row]


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, place: Any) -> Any:
    """Prefetch the memory at a byte offset of an array; an offset outside it does no harm.

    Clusters lie far apart, and a processor prefetches by itself only within a run.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.gep(builder.bitcast(start, _BYTE.as_pointer()), [arguments[1]])
        kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _NUMBER, _NUMBER, _NUMBER])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, _NUMBER(0), _NUMBER(2), _NUMBER(1)])  # to read, into the second cache
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@compiled
def fetch_run(grid, first, last):  # type: ignore[no-untyped-def]
    """Prefetch the coarse rows first to last."""
    place, end = first * grid.coarse.shape[1], last * grid.coarse.shape[1]
    while place < end:
        prefetch(grid.coarse, place)
        place += _LINE


@compiled
def choose(scores, count, wanted, scratch, chosen):  # type: ignore[no-untyped-def]
    """Write the positions of the `wanted` largest of the first `count` scores, in order; return their number."""
    if count <= wanted:
        for i in range(count):
            chosen[i] = i
        return count
    least, equal = _threshold(scores, count, wanted, scratch)
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
def _threshold(scores, count, wanted, scratch):  # type: ignore[no-untyped-def]
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
def log_sigmoid(score):  # type: ignore[no-untyped-def]
    """Return the logarithm of the sigmoid; far below zero it is the number itself, to within 1e-6."""
    if score < -14:
        return score
    if score > 0:
        return -np.float32(np.log1p(np.exp(-score)))
    return score - np.float32(np.log1p(np.exp(score)))


@compiled
def probabilities(grid, fine, vectors, labels, into):  # type: ignore[no-untyped-def]
    """Write the probabilities of given labels by both bytes of their rows; NO_LABEL keeps its value."""
    for text in range(len(labels)):
        for i in range(labels.shape[1]):
            label = labels[text, i]
            if label >= 0:
                score = fine_dot(grid, fine, label, vectors[text]) + grid.biases[label]
                into[text, i] = np.float32(1) / (np.float32(1) + np.exp(-score))
