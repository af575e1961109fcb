"""Sparse rows in CSR form, an inverted index for exact cosine search, and the compiled loops over them.

Every loop works on one query at a time with two scratch arrays that it restores: `totals`, a zero for each row, and
`touched`, for the numbers of rows with a nonzero total and one more. So a query costs what its words' lists cost.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.kernels.jit import compiled
from laconic.kernels.selection import threshold_of
from laconic.system.machine import usable_cores
from laconic.system.sparse import csr_array

TRACE = np.float32(1e-30)
_MANY_TIMES = 8  # as many rows as are wanted, from which on finding the smallest of the best first is faster


class Lists(NamedTuple):
    """Rows of (number, value) pairs: an inverted index by word, or a matrix of queries or labels by text."""

    starts: Int[np.ndarray, "rows+1"]
    numbers: Int[np.ndarray, "pairs"]
    values: Float[np.ndarray, "pairs"]

    @staticmethod
    def of(matrix: csr_array) -> Lists:
        return Lists(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float32))

    @staticmethod
    def dense(rows: Float[np.ndarray, "rows dim"]) -> Lists:
        """Convert dense rows."""
        count, dim = rows.shape
        numbers = np.tile(np.arange(dim, dtype=np.int32), count)
        return Lists(np.arange(count + 1) * dim, numbers, rows.astype(np.float32).reshape(-1))

    @staticmethod
    def inverted(matrix: csr_array) -> Lists:
        """Return for each column the rows that have it."""
        return Lists.of(csr_array(matrix.T))

    def checked(self, name: str, below: int) -> Lists:
        """Return the lists if all numbers are below that, and refuse them otherwise: compiled loops check no bounds."""
        starts, numbers, values = self
        sound = (
            starts.ndim == numbers.ndim == values.ndim == 1
            and len(starts) > 0
            and starts[0] == 0
            and (starts[:-1] <= starts[1:]).all()
            and starts[-1] == len(numbers) == len(values)
            and numbers.min(initial=0) >= 0
            and numbers.max(initial=-1) < below
            and np.isfinite(values).all()
        )
        if not sound:
            raise ModelError(f"the model's tensors {name}.* do not fit together; the file is damaged: fetch it again")
        return self


def search(index: Lists, queries: Lists, num_rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k rows of largest inner product with each query, best first; -1 where fewer share a word."""
    num_queries = len(queries.starts) - 1
    rows = np.full((num_queries, k), -1, dtype=np.int64)
    scores = np.zeros((num_queries, k), dtype=np.float32)
    in_threads(num_queries, lambda first, last: _search(index, queries, num_rows, first, last, rows, scores))
    return rows, scores


def in_threads(count: int, work: Callable[[int, int], None]) -> None:
    """Call work(first, last) on parts of 0..count, as many at a time as there are usable cores."""
    cores = usable_cores()
    size = max(1, min(512, -(-count // cores)))
    parts = [(first, min(first + size, count)) for first in range(0, count, size)]
    if len(parts) == 1:
        work(*parts[0])
        return
    with ThreadPoolExecutor(cores) as pool:
        for done in [pool.submit(work, *part) for part in parts]:
            done.result()


@compiled
def make_unit(rows):  # type: ignore[no-untyped-def]
    """Divide every row by its length, in place; return which rows have any."""
    has_length = np.zeros(len(rows.starts) - 1, dtype=np.bool_)
    for row in range(len(rows.starts) - 1):
        first, last = rows.starts[row], rows.starts[row + 1]
        squares = 0.0
        for i in range(first, last):
            squares += float(rows.values[i]) ** 2
        if squares > 0:
            has_length[row] = True
            for i in range(first, last):
                rows.values[i] = rows.values[i] / np.sqrt(squares)
    return has_length


@compiled
def dot(rows, row, vector):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(rows.starts[row], rows.starts[row + 1]):
        total += rows.values[i] * vector[rows.numbers[i]]
    return total


@compiled
def add_row(rows, row, weight, vector):  # type: ignore[no-untyped-def]
    """Add weight × row to the vector."""
    for i in range(rows.starts[row], rows.starts[row + 1]):
        vector[rows.numbers[i]] += weight * rows.values[i]


@compiled
def _search(index, queries, num_rows, first, last, rows, scores):  # type: ignore[no-untyped-def]
    totals = np.zeros(num_rows, dtype=np.float32)
    touched = np.empty(num_rows + 1, dtype=np.int32)
    for query in range(first, last):
        count = add_products(index, queries, query, np.float32(1), totals, touched, 0)
        take_best(totals, touched, count, rows[query], scores[query])
        clear(totals, touched, count)


@compiled
def add_products(index, queries, query, scale, totals, touched, count):  # type: ignore[no-untyped-def]
    """Add scale × (query · row) to every row's total; return the number of touched rows."""
    for i in range(queries.starts[query], queries.starts[query + 1]):
        word = queries.numbers[i]
        if word < len(index.starts) - 1:
            first, last = index.starts[word], index.starts[word + 1]
            count = add(
                index.numbers[first:last], index.values[first:last], queries.values[i] * scale, totals, touched, count
            )
    return count


@compiled
def add(rows, values, weight, totals, touched, count):  # type: ignore[no-untyped-def]
    """Add weight × value to the total of every row of one list; return the number of touched rows."""
    for j in range(len(rows)):
        row = rows[j]
        before = totals[row]
        touched[count] = row  # without a branch: what is written in vain is written over next
        count += before == 0
        after = before + weight * values[j]
        # Where weights cancel or vanish a trace stays, so that no row is touched twice.
        totals[row] = after if after != 0 else TRACE
    return count


@compiled
def take_best(totals, touched, count, rows, scores):  # type: ignore[no-untyped-def]
    """Write the largest totals, best first, ties by row number; return how many there are."""
    kept, wanted = 0, len(rows)
    if count > _MANY_TIMES * wanted and wanted > 0:
        # What cannot be among the best is passed over: a heap would take in several times as many rows as it keeps.
        all_totals, scratch = np.empty(count, np.float32), np.empty(count, np.float32)
        for i in range(count):
            all_totals[i] = totals[touched[i]]
        least, _ = threshold_of(all_totals, count, wanted, scratch)
        for i in range(count):
            if not all_totals[i] < least:
                kept = keep(touched[i], all_totals[i], rows, scores, kept)
    else:
        for i in range(count):
            kept = keep(touched[i], totals[touched[i]], rows, scores, kept)
    order_kept(rows, scores, kept)
    return kept


@compiled
def keep(row, total, rows, scores, kept):  # type: ignore[no-untyped-def]
    """Add a row to the heap of the best `len(rows)` so far, with the worst on top; return how many it then holds."""
    if kept < len(rows):
        _rise(rows, scores, kept, row, total)
        return kept + 1
    if kept and _before(total, row, scores[0], rows[0]):
        _sink(rows, scores, kept, row, total)
    return kept


@compiled
def order_kept(rows, scores, kept):  # type: ignore[no-untyped-def]
    """Sort the heap's content, best first, by removing its worst entry repeatedly."""
    for size in range(kept - 1, 0, -1):
        worst, total = rows[0], scores[0]
        _sink(rows, scores, size, rows[size], scores[size])
        rows[size], scores[size] = worst, total


@compiled
def clear(totals, touched, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        totals[touched[i]] = 0


@compiled
def _before(total, row, other_total, other_row):  # type: ignore[no-untyped-def]
    return total > other_total or (total == other_total and row < other_row)


@compiled
def _rise(rows, scores, place, row, total):  # type: ignore[no-untyped-def]
    while place > 0:
        above = (place - 1) // 2
        if not _before(scores[above], rows[above], total, row):
            break
        rows[place], scores[place] = rows[above], scores[above]
        place = above
    rows[place], scores[place] = row, total


@compiled
def _sink(rows, scores, size, row, total):  # type: ignore[no-untyped-def]
    place = 0
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and _before(scores[below], rows[below], scores[below + 1], rows[below + 1]):
            below += 1
        if not _before(total, row, scores[below], rows[below]):
            break
        rows[place], scores[place] = rows[below], scores[below]
        place = below
    rows[place], scores[place] = row, total


@compiled
def find(numbers, low, high, number):  # type: ignore[no-untyped-def]
    """Return the position of a number among the sorted ones of low..high; -1 if it is not there."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < end and numbers[low] == number else -1
