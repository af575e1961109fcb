"""Quantised label rows: a byte and a scale for search, and mostly a second byte for the final scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.kernels.checks import check_array, check_floats, check_kind, check_starts, check_whole, for_kernels
from laconic.packed.engine.parts import Part
from laconic.packed.engine.row_kernels import FINENESS, MOST_DIM, ROW_BLOCK, Grid

_LARGEST = 127.0
_AT_ONCE = 1 << 16  # rows that are looked at together


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows(Part):
    """Label rows with their biases."""

    coarse: np.ndarray  # int8, rows × dim; with blocks, uint8: two numbers in a byte (row_kernels.py)
    scales: np.ndarray  # float32: what a row of `coarse` is to be multiplied with
    biases: np.ndarray  # float32
    fine: np.ndarray | None = None  # int8, rows × dim: what `coarse` lacks, in steps of 1/254
    exact: np.ndarray | None = None  # float16, rows × dim: what version 0.2 had instead of `fine`
    blocks: np.ndarray | None = None  # uint8, rows × blocks: scales of numbers of half a byte, beside that of the row
    width: int | None = None  # numbers of a row, where there are blocks

    def __post_init__(self) -> None:
        if self.blocks is None:
            check_array(self.coarse, "rows", np.int8, (None, None))
        else:
            self._check_half_bytes(self.blocks)
        count, dim = len(self.coarse), self.dim
        for name in ("scales", "biases"):
            check_floats(getattr(self, name), f"rows' {name}", (count,))
        if self.fine is not None:
            check_array(self.fine, "rows' second bytes", np.int8, (count, dim))
        if self.exact is not None:
            check_array(self.exact, "rows in float16", np.float16, (count, dim))
        if not 0 < dim <= MOST_DIM or not count:
            raise ModelError(
                f"the packed model's rows must be 1 or more of 1 to {MOST_DIM:,} numbers, but are {count:,} of {dim:,};"
                " pack it again"
            )
        if self.exact is not None:
            object.__setattr__(self, "fine", _second_bytes(self.exact, self.coarse, self.scales))
            object.__setattr__(self, "exact", None)

    def _check_half_bytes(self, blocks: np.ndarray) -> None:
        check_whole(self.width, "width of rows", 1)
        several = -(-self.dim // ROW_BLOCK)
        check_array(self.coarse, "rows", np.uint8, (None, several * ROW_BLOCK // 2))
        check_array(blocks, "scales of rows' blocks", np.uint8, (len(self.coarse), several))
        if self.fine is not None or self.exact is not None:
            raise ModelError("the packed model's rows of half a byte have a second one; pack it again")

    @staticmethod
    def of(rows: Float[np.ndarray, "rows dim"], biases: Float[np.ndarray, "rows"], *, with_exact: bool = True) -> Rows:
        coarse, scales = np.empty(rows.shape, dtype=np.int8), np.empty(len(rows), dtype=np.float32)
        for first in range(0, len(rows), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            largest = np.abs(rows[part]).max(1, initial=0)
            scales[part] = np.where(largest > 0, largest, 1) / _LARGEST
            coarse[part] = np.rint(rows[part] / scales[part, None])
        fine = _second_bytes(rows, coarse, scales) if with_exact else None
        return Rows(coarse=coarse, scales=scales, biases=np.array(biases, dtype=np.float32), fine=fine)

    @property
    def size(self) -> int:
        return len(self.coarse)

    @property
    def dim(self) -> int:
        return int(self.coarse.shape[1]) if self.width is None else self.width

    @property
    def grid(self) -> Grid:
        blocks = np.zeros((0, 0), dtype=np.uint8) if self.blocks is None else self.blocks
        return Grid(*map(for_kernels, (self.coarse, self.scales, self.biases, blocks)))

    def numbers(self, some: slice = slice(None)) -> Float[np.ndarray, "rows dim"]:
        """Return some rows as they were before, as far as their bytes tell."""
        assert self.blocks is None
        second = 0 if self.fine is None else self.fine[some] / np.float32(FINENESS)
        numbers: np.ndarray = (self.coarse[some] + second) * self.scales[some, None]
        return numbers.astype(np.float32)

    @property
    def second(self) -> np.ndarray:
        """Return the second bytes, as kernels read them; no rows where there are none."""
        return for_kernels(np.zeros((0, self.dim), dtype=np.int8) if self.fine is None else self.fine)


class Sizes(NamedTuple):
    """The cumulated sizes of ranges, the smallest first and the largest first."""

    of_smallest: Int[np.ndarray, "ranges"]
    of_largest: Int[np.ndarray, "ranges"]

    @staticmethod
    def of(starts: Int[np.ndarray, "bounds"]) -> Sizes:
        sizes = np.sort(np.diff(starts))
        return Sizes(sizes.cumsum(), sizes[::-1].cumsum())


def _second_bytes(
    rows: Float[np.ndarray, "rows dim"], coarse: Int[np.ndarray, "rows dim"], scales: Float[np.ndarray, "rows"]
) -> Int[np.ndarray, "rows dim"]:
    """Return what the first bytes lack of the rows."""
    fine = np.empty(rows.shape, dtype=np.int8)
    for first in range(0, len(rows), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        steps = rows[part].astype(np.float32) / np.where(scales[part, None] == 0, 1, scales[part, None]) - coarse[part]
        fine[part] = np.rint(np.nan_to_num(FINENESS * steps).clip(-_LARGEST, _LARGEST))
    return fine


def check_groups(groups: Any, starts: Any, clusters: Rows) -> None:
    """Refuse groups that are not runs of all clusters; None means a single group."""
    check_array(starts, "bounds of groups", np.int32, (None,))
    check_starts(starts, "bounds of groups", clusters.size)
    if groups is not None:
        check_kind(groups, "groups", Rows)
    size, dim = (1, clusters.dim) if groups is None else (groups.size, groups.dim)
    if len(starts) != size + 1 or size > clusters.size or dim != clusters.dim:
        raise ModelError("the packed model's groups do not fit its clusters; pack it again")


_NONE: tuple[tuple[Any, str], ...] = (((0, 1), "i1"), (0, "f4"), (0, "f4"), ((0, 0), "u1"))
NO_ROWS = Grid(*(for_kernels(np.zeros(shape, kind)) for shape, kind in _NONE))
