"""Quantised label rows: a byte and a scale for search, and mostly a second byte for the final scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.kernels.checks import check_array, check_floats, check_kind, check_starts, for_kernels
from laconic.kernels.csr import in_threads
from laconic.packed.engine.parts import Part
from laconic.packed.engine.row_kernels import FINENESS, MOST_DIM, Grid

_LARGEST = 127.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows(Part):
    """Label rows with their biases."""

    coarse: np.ndarray  # int8, rows × dim
    scales: np.ndarray  # float32: what a row of `coarse` is to be multiplied with
    biases: np.ndarray  # float32
    fine: np.ndarray | None = None  # int8, rows × dim: what `coarse` lacks, in steps of 1/254
    exact: np.ndarray | None = None  # float16, rows × dim: what version 0.2 had instead of `fine`

    def __post_init__(self) -> None:
        check_array(self.coarse, "rows", np.int8, (None, None))
        count, dim = self.coarse.shape
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

    @staticmethod
    def of(rows: Float[np.ndarray, "rows dim"], biases: Float[np.ndarray, "rows"], *, with_exact: bool = True) -> Rows:
        """Quantise rows on all cores."""
        coarse, scales = np.empty(rows.shape, dtype=np.int8), np.empty(len(rows), dtype=np.float32)

        def quantise(first: int, last: int) -> None:
            part = slice(first, last)
            largest = np.abs(rows[part]).max(1, initial=0)
            scales[part] = np.where(largest > 0, largest, 1) / _LARGEST
            coarse[part] = np.rint(rows[part] / scales[part, None])

        in_threads(len(rows), quantise)
        fine = _second_bytes(rows, coarse, scales) if with_exact else None
        return Rows(coarse=coarse, scales=scales, biases=np.array(biases, dtype=np.float32), fine=fine)

    @property
    def size(self) -> int:
        return len(self.coarse)

    @property
    def dim(self) -> int:
        return int(self.coarse.shape[1])

    @property
    def grid(self) -> Grid:
        return Grid(for_kernels(self.coarse), for_kernels(self.scales), for_kernels(self.biases))

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

    def quantise(first: int, last: int) -> None:
        part = slice(first, last)
        steps = rows[part].astype(np.float32) / np.where(scales[part, None] == 0, 1, scales[part, None]) - coarse[part]
        fine[part] = np.rint(np.nan_to_num(FINENESS * steps).clip(-_LARGEST, _LARGEST))

    in_threads(len(rows), quantise)
    return fine


def check_groups(groups: Any, starts: Any, clusters: Any) -> None:
    """Refuse groups that are not runs of all clusters, in rows of the same kind; None means a single group."""
    check_array(starts, "bounds of groups", np.int32, (None,))
    check_starts(starts, "bounds of groups", clusters.size)
    if groups is not None:
        check_kind(groups, "groups", type(clusters))
    size, dim = (1, clusters.dim) if groups is None else (groups.size, groups.dim)
    if len(starts) != size + 1 or size > clusters.size or dim != clusters.dim:
        raise ModelError("the packed model's groups do not fit its clusters; pack it again")
