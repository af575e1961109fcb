"""Multiply sparse rows, keeping only the largest numbers of each row, so that memory is bounded.

A loop sums into a `Space` of its own, as wide as the columns, and leaves it empty: a row costs what it touches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from laconic.kernels.csr import Lists, in_threads
from laconic.kernels.jit import compiled


class Space(NamedTuple):
    """Scratch arrays: a total for every column, which columns have one, and those in order of first touch."""

    totals: Float[np.ndarray, "columns"]
    seen: Bool[np.ndarray, "columns"]
    touched: Int[np.ndarray, "columns"]


def product(left: Lists, right: Lists, num_columns: int, keep: int) -> Lists:
    """Return left · right, with the `keep` numbers of largest magnitude of each row."""
    num_rows = len(left.starts) - 1
    counts = np.zeros(num_rows, dtype=np.int64)
    in_threads(num_rows, lambda first, last: _count(left, right, num_columns, first, last, counts))
    starts = np.concatenate([[0], np.minimum(counts, keep).cumsum()])
    result = Lists(starts, np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1], dtype=np.float32))
    in_threads(num_rows, lambda first, last: _multiply(left, right, num_columns, first, last, result))
    return result


@compiled
def largest(values, count):  # type: ignore[no-untyped-def]
    """Mark the `count` largest values; ties go to the first."""
    chosen = np.zeros(len(values), dtype=np.bool_)
    if count == 0:
        return chosen
    least = np.partition(values, len(values) - count)[len(values) - count]
    equal = count
    for i in range(len(values)):
        chosen[i] = values[i] > least
        equal -= chosen[i]
    for i in range(len(values)):
        if equal > 0 and values[i] == least:
            chosen[i] = True
            equal -= 1
    return chosen


@compiled
def make_space(num_columns):  # type: ignore[no-untyped-def]
    return Space(
        np.zeros(num_columns, dtype=np.float64),
        np.zeros(num_columns, dtype=np.bool_),
        np.empty(num_columns, dtype=np.int32),
    )


@compiled
def add_to(space, column, value, count):  # type: ignore[no-untyped-def]
    """Add to a column's total; return the number of touched columns."""
    if not space.seen[column]:
        space.seen[column] = True
        space.touched[count] = column
        count += 1
    space.totals[column] += value
    return count


@compiled
def take_out(space, first, count, numbers, values):  # type: ignore[no-untyped-def]
    """Move the largest of the columns touched first..count to numbers and values, as many as these hold."""
    magnitudes = np.empty(count - first, dtype=np.float64)
    for i in range(first, count):
        magnitudes[i - first] = abs(space.totals[space.touched[i]])
    chosen = largest(magnitudes, min(len(numbers), count - first))
    place = 0
    for i in range(first, count):
        if chosen[i - first]:
            numbers[place], values[place] = space.touched[i], space.totals[space.touched[i]]
            place += 1


@compiled
def empty_out(space, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        space.totals[space.touched[i]] = 0
        space.seen[space.touched[i]] = False


@compiled
def _count(left, right, num_columns, first, last, counts):  # type: ignore[no-untyped-def]
    space = make_space(num_columns)
    for row in range(first, last):
        counts[row] = _sum_row(left, right, row, space)
        empty_out(space, counts[row])


@compiled
def _multiply(left, right, num_columns, first, last, result):  # type: ignore[no-untyped-def]
    space = make_space(num_columns)
    for row in range(first, last):
        count = _sum_row(left, right, row, space)
        begin, end = result.starts[row], result.starts[row + 1]
        take_out(space, 0, count, result.numbers[begin:end], result.values[begin:end])
        empty_out(space, count)


@compiled
def _sum_row(left, right, row, space):  # type: ignore[no-untyped-def]
    """Sum one row of the product; return the number of touched columns."""
    count = 0
    for i in range(left.starts[row], left.starts[row + 1]):
        other, weight = left.numbers[i], float(left.values[i])
        for j in range(right.starts[other], right.starts[other + 1]):
            count = add_to(space, right.numbers[j], weight * right.values[j], count)
    return count
