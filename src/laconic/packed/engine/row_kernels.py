"""Kernels over label rows: scores of runs of rows, selection of the best, and re-scoring in 16 bits.

Rows are int8 with a scale each. A text's vector is rounded to integers of 12 bits, so that what is lost is lost by
the rows alone, and no sum of up to 8,000 products overflows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.kernels.jit import compiled, compiled_in_any_order
from laconic.kernels.prefetch import prefetch
from laconic.packed.engine.dot_products import (
    BYTES,
    HAS_DOT_PRODUCTS,
    HAS_PAIRED_PRODUCTS,
    ROWS,
    WORDS,
    dot_bytes,
    dot_words,
)

MOST_DIM = 8000
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
    """Quantise the vector to integers of 16 bits, as `score_run` reads them; return their scale."""
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
    if HAS_DOT_PRODUCTS:
        split(into)
    return largest / np.float32(_LARGEST)


@compiled
def split(numbers):  # type: ignore[no-untyped-def]
    """Replace integers 32 h + l of 12 bits by bytes in the same memory: first all h, then all l.

    Where they do not fill whole vectors of bytes, they stay as they are.
    """
    if len(numbers) % BYTES:
        return
    dim, halves = len(numbers), numbers.view(np.int8)
    high, low = np.empty(dim, np.int8), np.empty(dim, np.int8)
    for i in range(dim):
        high[i] = (numbers[i] + 16) >> 5
        low[i] = ((numbers[i] + 16) & 31) - 16
    halves[:dim], halves[dim:] = high, low


@compiled
def plain_product(rows, row, numbers):  # type: ignore[no-untyped-def]
    """Return the product of a row and a vector of integers."""
    values, total = rows[row], np.int32(0)
    for i in range(len(numbers)):
        total = np.int32(total + np.int32(np.int32(values[i]) * np.int32(numbers[i])))
    return total


@compiled
def split_product(rows, row, numbers):  # type: ignore[no-untyped-def]
    """Return the product of a row and a vector of integers after `split`."""
    dim = len(numbers)
    return plain_product(rows, row, numbers) if dim % BYTES else dot_bytes(rows, row * dim, numbers, dim, dim)


_product = split_product if HAS_DOT_PRODUCTS else plain_product


@compiled
def _score_fours(grid, first, last, numbers, scale, into, place):  # type: ignore[no-untyped-def]
    """Write the scores of rows first to last, four at a time; where fewer are left, the last is multiplied again."""
    dim, final, rows, scales, biases = len(numbers), last - 1, grid.coarse, grid.scales, grid.biases
    most = dim - dim % WORDS
    for row in range(first, last, ROWS):
        second, third, fourth = min(row + 1, final), min(row + 2, final), min(row + 3, final)
        a, b, c, d = dot_words(rows, (row * dim, second * dim, third * dim, fourth * dim), numbers, most)
        for i in range(most, dim):
            number = np.int32(numbers[i])
            a, b = a + number * np.int32(rows[row, i]), b + number * np.int32(rows[second, i])
            c, d = c + number * np.int32(rows[third, i]), d + number * np.int32(rows[fourth, i])
        at = place + row - first
        # The last first: where rows repeat, the first of them is written last.
        into[at + fourth - row] = d * (scale * scales[fourth]) + biases[fourth]
        into[at + third - row] = c * (scale * scales[third]) + biases[third]
        into[at + second - row] = b * (scale * scales[second]) + biases[second]
        into[at] = a * (scale * scales[row]) + biases[row]


@compiled
def score_run(grid, first, last, numbers, scale, into, place):  # type: ignore[no-untyped-def]
    """Write the scores of rows first to last, from `place` on; return the place after them."""
    if HAS_PAIRED_PRODUCTS and last - first > 1:
        _score_fours(grid, first, last, numbers, scale, into, place)
        return place + last - first
    for row in range(first, last):
        total = _product(grid.coarse, row, numbers)
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


@compiled
def fetch_run(grid, first, last):  # type: ignore[no-untyped-def]
    """Prefetch the coarse rows first to last: clusters lie far apart, and a processor prefetches only within a run."""
    place, end = first * grid.coarse.shape[1], last * grid.coarse.shape[1]
    while place < end:
        prefetch(grid.coarse, place)
        place += _LINE


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
