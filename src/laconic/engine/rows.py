"""Label rows, small: int8 with a scale each, by which the best are found, and a half-precision copy that has the last
word about them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from laconic.engine.parts import Part, check_array, check_finite, for_kernels
from laconic.engine.row_kernels import MOST_DIM, Grid
from laconic.errors import ModelError

_LARGEST = 127.0
_AT_ONCE = 1 << 16  # rows that are looked at together


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows(Part):
    coarse: np.ndarray  # int8, rows × dim
    scales: np.ndarray  # float32: what a row of `coarse` is to be multiplied with
    biases: np.ndarray  # float32
    exact: np.ndarray | None = None  # float16, rows × dim

    def __post_init__(self) -> None:
        check_array(self.coarse, "rows", np.int8, (None, None))
        count, dim = self.coarse.shape
        for name in ("scales", "biases"):
            check_array(getattr(self, name), f"rows' {name}", np.float32, (count,))
            check_finite(getattr(self, name), f"rows' {name}")
        if self.exact is not None:
            check_array(self.exact, "rows in half precision", np.float16, (count, dim))
        if not 0 < dim <= MOST_DIM:
            raise ModelError(f"the packed model's rows must be 1 to {MOST_DIM:,} numbers wide, but are {dim:,}")

    @staticmethod
    def of(rows: Float[np.ndarray, "rows dim"], biases: Float[np.ndarray, "rows"], *, with_exact: bool = True) -> Rows:
        coarse, scales = np.empty(rows.shape, dtype=np.int8), np.empty(len(rows), dtype=np.float32)
        for first in range(0, len(rows), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            largest = np.abs(rows[part]).max(1, initial=0)
            scales[part] = np.where(largest > 0, largest, 1) / _LARGEST
            coarse[part] = np.rint(rows[part] / scales[part, None])
        return Rows(
            coarse=coarse,
            scales=scales,
            biases=np.ascontiguousarray(biases, dtype=np.float32),
            exact=rows.astype(np.float16) if with_exact else None,
        )

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
    def bits(self) -> np.ndarray:
        """The half-precision copy as whole numbers, which compiled loops can read."""
        assert self.exact is not None
        return for_kernels(self.exact.view(np.uint16))


NO_ROWS = Grid(*(for_kernels(np.zeros(shape, kind)) for shape, kind in (((0, 1), "i1"), (0, "f4"), (0, "f4"))))
