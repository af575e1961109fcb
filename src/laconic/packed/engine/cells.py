"""Approximate search for the rows of largest inner product: cells of similar rows.

What Astec's vectors of labels and of texts have become.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from laconic.errors import ModelError
from laconic.kernels.checks import check_array, check_kind, check_order, check_starts, check_whole, for_kernels
from laconic.packed.engine.cell_kernels import CellLimits, CellTree
from laconic.packed.engine.nibble_rows import NO_NIBBLES, NibbleRows, in_planes
from laconic.packed.engine.parts import Part
from laconic.packed.engine.rows import Sizes, check_groups


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells(Part):
    """Rows in cells, of which only the best are searched."""

    rows: NibbleRows  # in the order of places
    order: np.ndarray  # int32: the number of each place's row
    starts: np.ndarray  # int32: where cells begin
    middles: NibbleRows  # of cells
    group_starts: np.ndarray  # int32: where groups of cells begin
    groups: NibbleRows | None  # None: every cell's middle is looked at
    open_groups: int
    beam: int  # cells that are probed
    spare: int = 64  # rows that are scored by all bits though fewer are wanted, at least

    def __post_init__(self) -> None:
        check_kind(self.rows, "rows of cells", NibbleRows)
        check_kind(self.middles, "middles of cells", NibbleRows)
        count, cells = self.rows.size, self.middles.size
        check_array(self.order, "order of rows", np.int32, (count,))
        check_array(self.starts, "bounds of cells", np.int32, (cells + 1,))
        check_starts(self.starts, "bounds of cells", count)
        check_order(self.order, "order of rows")
        if self.rows.dim != self.middles.dim:
            raise ModelError("the packed model's cells are not as wide as their middles; pack it again")
        check_groups(self.groups, self.group_starts, self.middles)
        check_whole(self.beam, "beam", 1)
        check_whole(self.open_groups, "open groups", 1)
        check_whole(self.spare, "rows scored again", 0)

    @classmethod
    def upgraded(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Split the rows of version 0.2, which had whole bytes."""
        return in_planes(values)

    def with_beam(self, beam: int) -> Cells:
        """Return the cells with this many probed, and enough groups for them."""
        beam = max(1, min(beam, self.middles.size))
        groups = int(Sizes.of(self.group_starts).of_smallest.searchsorted(beam)) + 1
        return replace(self, beam=beam, open_groups=max(self.open_groups, groups))

    def exact(self) -> Cells:
        """Return the cells with all of them probed, and every row scored by all bits."""
        whole = np.array([0, self.middles.size], dtype=np.int32)
        return replace(self, groups=None, group_starts=whole, beam=self.middles.size, spare=self.rows.size)

    def enough_for(self, count: int) -> Cells:
        """Return the cells with enough of them probed to hold this many rows."""
        cells = int(Sizes.of(self.starts).of_smallest.searchsorted(count)) + 1
        return self if cells <= self.beam else self.with_beam(cells)

    @cached_property
    def limits(self) -> CellLimits:
        beam = min(self.beam, self.middles.size)
        capacity = int(Sizes.of(self.starts).of_largest[beam - 1])
        return CellLimits(groups=self.open_groups, cells=beam, capacity=capacity, spare=self.spare)

    @cached_property
    def tree(self) -> CellTree:
        groups = NO_NIBBLES if self.groups is None else self.groups.grid
        group_starts, starts, order = map(for_kernels, (self.group_starts, self.starts, self.order))
        return CellTree(groups, group_starts, self.middles.grid, starts, self.rows.grid, order)
