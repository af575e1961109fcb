"""Kernels from a vector to the rows in cells that are nearest to it: groups of cells, cells, rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from laconic.kernels.jit import compiled
from laconic.kernels.selection import ascending, choose
from laconic.packed.engine.row_kernels import Grid, fetch_run, quantise, score_run

_AHEAD = 2  # cells


class CellTree(NamedTuple):
    """Rows in the order of their cells."""

    groups: Grid  # of cells; no row: all cells are looked at
    group_starts: Int[np.ndarray, "groups+1"]
    middles: Grid
    starts: Int[np.ndarray, "cells+1"]
    rows: Grid
    order: Int[np.ndarray, "rows"]  # the row of each place


class CellLimits(NamedTuple):
    """The search width."""

    groups: int  # to probe
    cells: int
    capacity: int  # rows that the probed cells have at most


@compiled
def nearest_rows(tree, limits, vector, found, places, wanted, best, cosines):  # type: ignore[no-untyped-def]
    """Write the `wanted` rows of largest product, best first; return their number. `found` and `places` are scratch."""
    cells = len(tree.starts) - 1
    width = max(cells, len(found))
    scores, cell_of = np.empty(cells, np.float32), np.empty(cells, np.int32)
    scratch, chosen = np.empty(width, np.float32), np.empty(width, np.int32)
    numbers = np.empty(len(vector), np.int16)
    scale = quantise(vector, numbers)
    count = _near_cells(tree, limits, numbers, scale, scores, cell_of, scratch, chosen)
    probed = choose(scores, count, limits.cells, scratch, chosen)
    count = 0
    for i in range(probed):
        first, last = tree.starts[cell_of[chosen[i]]], tree.starts[cell_of[chosen[i]] + 1]
        if i + _AHEAD < probed:
            ahead = cell_of[chosen[i + _AHEAD]]
            fetch_run(tree.rows, tree.starts[ahead], tree.starts[ahead + 1])
        end = score_run(tree.rows, first, last, numbers, scale, found, count)
        for j in range(count, end):
            places[j] = first + j - count
        count = end
    kept = choose(found, count, wanted, scratch, chosen)
    for i in range(kept):
        scratch[i] = -found[chosen[i]]
    order = ascending(scratch[:kept])
    for i in range(kept):
        best[i] = tree.order[places[chosen[order[i]]]]
        cosines[i] = -scratch[order[i]]
    return kept


@compiled
def _near_cells(tree, limits, numbers, scale, scores, cell_of, scratch, chosen):  # type: ignore[no-untyped-def]
    """Score the cells of the best groups, or all if there are no groups; return their number."""
    num_groups = len(tree.groups.scales)
    if num_groups == 0:
        count = score_run(tree.middles, 0, len(scores), numbers, scale, scores, 0)
        for i in range(count):
            cell_of[i] = i
        return count
    of_groups = np.empty(num_groups, np.float32)
    score_run(tree.groups, 0, num_groups, numbers, scale, of_groups, 0)
    probed, count = choose(of_groups, num_groups, limits.groups, scratch, chosen), 0
    for i in range(probed):
        first, last = tree.group_starts[chosen[i]], tree.group_starts[chosen[i] + 1]
        end = score_run(tree.middles, first, last, numbers, scale, scores, count)
        for j in range(count, end):
            cell_of[j] = first + j - count
        count = end
    return count
