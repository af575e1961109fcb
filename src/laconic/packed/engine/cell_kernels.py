"""Kernels from a vector to the rows in cells that are nearest to it: groups of cells, cells, rows.

All are scored by four bits a number (nibble_kernels.py); the rows that are best by these are scored again by all bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from laconic.kernels.jit import compiled
from laconic.kernels.selection import choose
from laconic.packed.engine.nibble_kernels import (
    NibbleGrid,
    both_dot,
    fetch_row,
    fetch_upper,
    in_bytes,
    padded,
    score_nibbles,
)

_AHEAD = 2  # cells
_ROWS_AHEAD = 8  # that are scored again
_SPARE = 4  # one row for so many that are wanted is scored again besides, unless the limits say more


class CellTree(NamedTuple):
    """Rows in the order of their cells."""

    groups: NibbleGrid  # of cells; no row: all cells are looked at
    group_starts: Int[np.ndarray, "groups+1"]
    middles: NibbleGrid
    starts: Int[np.ndarray, "cells+1"]
    rows: NibbleGrid
    order: Int[np.ndarray, "rows"]  # the row of each place


class CellLimits(NamedTuple):
    """The search width."""

    groups: int  # to probe
    cells: int
    capacity: int  # rows that the probed cells have at most
    spare: int  # rows that are scored again beside those that are wanted, at least


@compiled
def nearest_places(tree, limits, vector, found, places, wanted, best, cosines):  # type: ignore[no-untyped-def]
    """Write the places of the `wanted` rows of largest product, in no order, and these; return their number.

    `found` and `places` are scratch.
    """
    cells = len(tree.starts) - 1
    width = max(cells, len(found))
    scores, cell_of = np.empty(cells, np.float32), np.empty(cells, np.int32)
    scratch, chosen = np.empty(width, np.float32), np.empty(width, np.int32)
    near = padded(vector, tree.rows.upper.shape[1])
    numbers = np.empty(len(near), np.int8)
    scale, lacking = in_bytes(near, numbers)
    if scale == 0:  # of numbers that are none, or all zero
        near[:] = 0
    count = _near_cells(tree, limits, numbers, lacking, scale, scores, cell_of, scratch, chosen)
    probed = choose(scores, count, limits.cells, scratch, chosen)
    count = 0
    for i in range(probed):
        first, last = tree.starts[cell_of[chosen[i]]], tree.starts[cell_of[chosen[i]] + 1]
        if i + _AHEAD < probed:
            ahead = cell_of[chosen[i + _AHEAD]]
            fetch_upper(tree.rows, tree.starts[ahead], tree.starts[ahead + 1])
        end = score_nibbles(tree.rows, first, last, numbers, lacking, scale, found, count)
        for j in range(count, end):
            places[j] = first + j - count
        count = end
    count = _score_again(tree, near, places, found, count, wanted + max(limits.spare, wanted // _SPARE), chosen)
    kept = choose(found, count, wanted, scratch, chosen)
    for i in range(kept):
        best[i], cosines[i] = places[chosen[i]], found[chosen[i]]
    return kept


@compiled
def _score_again(tree, near, places, found, count, wanted, chosen):  # type: ignore[no-untyped-def]
    """Keep the `wanted` best rows, scored by all bits; return their number."""
    kept = choose(found, count, wanted, np.empty(count, np.float32), chosen)
    for i in range(kept):  # they are chosen in order, so that none is overwritten before it is read
        places[i] = places[chosen[i]]
    for i in range(kept):
        if i + _ROWS_AHEAD < kept:
            fetch_row(tree.rows, places[i + _ROWS_AHEAD])
        cosine = both_dot(tree.rows, places[i], near)
        found[i] = cosine if cosine > -np.inf else -np.float32(np.inf)  # as where it is no number
    return kept


@compiled
def _near_cells(tree, limits, numbers, lacking, scale, scores, cell_of, scratch, chosen):  # type: ignore[no-untyped-def]
    """Score the cells of the best groups, or all if there are no groups; return their number."""
    num_groups = len(tree.groups.scales)
    if num_groups == 0:
        count = score_nibbles(tree.middles, 0, len(scores), numbers, lacking, scale, scores, 0)
        for i in range(count):
            cell_of[i] = i
        return count
    of_groups = np.empty(num_groups, np.float32)
    score_nibbles(tree.groups, 0, num_groups, numbers, lacking, scale, of_groups, 0)
    probed, count = choose(of_groups, num_groups, limits.groups, scratch, chosen), 0
    for i in range(probed):
        first, last = tree.group_starts[chosen[i]], tree.group_starts[chosen[i] + 1]
        end = score_nibbles(tree.middles, first, last, numbers, lacking, scale, scores, count)
        for j in range(count, end):
            cell_of[j] = first + j - count
        count = end
    return count
