"""Rows that are searched for those with the largest product with a vector: cells of rows that lie near each other.

What Astec's vectors of labels and of texts have become. Products are of coarse rows; nothing is scored again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from laconic.engine.parts import Part, check_array, check_starts, for_kernels
from laconic.engine.rows import NO_ROWS, Rows
from laconic.engine.search_kernels import Dial, Tree
from laconic.errors import ModelError


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells(Part):
    rows: Rows  # in the order of places
    order: np.ndarray  # int32: the number of each place's row
    starts: np.ndarray  # int32: where cells begin
    middles: Rows  # of cells
    group_starts: np.ndarray  # int32: where groups of cells begin
    groups: Rows | None  # None: every cell's middle is looked at
    open_groups: int
    beam: int  # cells that are opened

    def __post_init__(self) -> None:
        count, cells = self.rows.size, self.middles.size
        check_array(self.order, "order of rows", np.int32, (count,))
        check_array(self.starts, "bounds of cells", np.int32, (cells + 1,))
        check_array(self.group_starts, "bounds of groups", np.int32, (None,))
        check_starts(self.starts, "bounds of cells", count)
        check_starts(self.group_starts, "bounds of groups", cells)
        if not np.array_equal(np.sort(self.order), np.arange(count)):
            raise ModelError("the packed model's order must name every row once; pack it again")
        rooms = {self.rows.dim, self.middles.dim} | (set() if self.groups is None else {self.groups.dim})
        groups = 1 if self.groups is None else self.groups.size
        if len(rooms) > 1 or len(self.group_starts) != groups + 1 or min(self.beam, self.open_groups) < 1:
            raise ModelError("the packed model's cells do not fit together; pack it again")

    def opening(self, beam: int) -> Cells:
        """The same with so many cells opened, and groups enough for them."""
        beam = max(1, min(beam, self.middles.size))
        sizes = np.sort(np.diff(self.group_starts)).cumsum()
        return replace(self, beam=beam, open_groups=max(self.open_groups, int(sizes.searchsorted(beam)) + 1))

    def exact(self) -> Cells:
        whole = np.array([0, self.middles.size], dtype=np.int32)
        return replace(self, groups=None, group_starts=whole, beam=self.middles.size)

    def enough_for(self, count: int) -> Cells:
        """The same with cells enough for so many rows, whichever they are."""
        cells = int(np.sort(np.diff(self.starts)).cumsum().searchsorted(count)) + 1
        return self if cells <= self.beam else self.opening(cells)

    @cached_property
    def dial(self) -> Dial:
        beam = min(self.beam, self.middles.size)
        room = int(np.sort(np.diff(self.starts))[::-1][:beam].sum())
        return Dial(groups=self.open_groups, clusters=beam, rescored=1, room=room, product=False)

    @cached_property
    def tree(self) -> Tree:
        groups = NO_ROWS if self.groups is None else self.groups.grid
        group_starts, starts, order = map(for_kernels, (self.group_starts, self.starts, self.order))
        nothing = for_kernels(np.zeros((0, self.rows.dim), np.uint16))
        return Tree(groups, group_starts, self.middles.grid, starts, self.rows.grid, nothing, order)
