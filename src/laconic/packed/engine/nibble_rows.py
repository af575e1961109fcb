"""Rows of bytes in two planes of four bits: searches read the upper one, and score what they find by both.

Memory is what a search waits for, and so it waits for half as much. A row takes as many bytes as one of `Rows`, but for
what fills its last block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int8

from laconic.errors import ModelError
from laconic.kernels.checks import check_array, check_floats, check_whole, for_kernels
from laconic.kernels.csr import in_threads
from laconic.packed.engine.nibble_kernels import BLOCK, NibbleGrid
from laconic.packed.engine.parts import Part
from laconic.packed.engine.row_kernels import MOST_DIM
from laconic.packed.engine.rows import Rows

_HALF = BLOCK // 2
_ABOVE = 128  # what is added to a number of a row, so that it is a byte without a sign
NO_NIBBLES = NibbleGrid(
    *(for_kernels(np.zeros((0, width), kind)) for width, kind in ((_HALF, "u1"), (_HALF, "u1"), (1, "i1"))),
    *(for_kernels(np.zeros(0, "f4")) for _ in range(2)),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class NibbleRows(Part):
    """Rows with their biases, as a search reads them."""

    dim: int
    upper: np.ndarray  # uint8: the upper four bits of two numbers in each byte, in blocks (nibble_kernels.py)
    lower: np.ndarray  # likewise the lower four
    scales: np.ndarray  # float32: what a row's bytes are to be multiplied with
    biases: np.ndarray  # float32
    fine: np.ndarray | None = None  # int8, rows × dim: what bytes lack, in steps of 1/254

    def __post_init__(self) -> None:
        check_whole(self.dim, "width of rows", 1)
        if self.dim > MOST_DIM:
            raise ModelError(
                f"the packed model's rows must be of at most {MOST_DIM:,} numbers, but are of {self.dim:,}; pack it "
                "again"
            )
        check_array(self.upper, "rows' upper bits", np.uint8, (None, _blocks(self.dim) * _HALF))
        check_array(self.lower, "rows' lower bits", np.uint8, self.upper.shape)
        if not self.size:
            raise ModelError("the packed model's rows must be 1 or more; pack it again")
        for name in ("scales", "biases"):
            check_floats(getattr(self, name), f"rows' {name}", (self.size,))
        if self.fine is not None:
            check_array(self.fine, "rows' second bytes", np.int8, (self.size, self.dim))

    @staticmethod
    def of(
        rows: Float[np.ndarray, "rows dim"], biases: Float[np.ndarray, "rows"], *, with_exact: bool = True
    ) -> NibbleRows:
        """Quantise rows on all cores."""
        return NibbleRows.from_bytes(Rows.of(rows, biases, with_exact=with_exact))

    @staticmethod
    def from_bytes(rows: Rows) -> NibbleRows:
        """Split the bytes of rows; nothing is lost."""
        upper = np.empty((rows.size, _blocks(rows.dim) * _HALF), dtype=np.uint8)
        lower = np.empty_like(upper)

        def divide(first: int, last: int) -> None:
            padded = np.full((last - first, _blocks(rows.dim) * BLOCK), _ABOVE, dtype=np.uint8)
            padded[:, : rows.dim] = rows.coarse[first:last].view(np.uint8) + np.uint8(_ABOVE)
            pairs = padded.reshape(len(padded), -1, 2, _HALF)
            left, right = pairs[:, :, 0], pairs[:, :, 1]
            upper[first:last] = (left >> 4 | right & 0xF0).reshape(len(padded), -1)
            lower[first:last] = (left & 0x0F | right << 4).reshape(len(padded), -1)

        in_threads(rows.size, divide)
        return NibbleRows(
            dim=rows.dim, upper=upper, lower=lower, scales=rows.scales, biases=rows.biases, fine=rows.fine
        )

    @property
    def size(self) -> int:
        return len(self.upper)

    @property
    def coarse(self) -> Int8[np.ndarray, "rows dim"]:
        """Return the bytes that were split."""
        return self.coarse_of(slice(None))

    def coarse_of(self, part: slice) -> Int8[np.ndarray, "n dim"]:
        """Return the bytes of some rows."""
        upper, lower = (plane[part].reshape(-1, _blocks(self.dim), _HALF) for plane in (self.upper, self.lower))
        pairs = np.stack([upper << 4 | lower & 0x0F, upper & 0xF0 | lower >> 4], axis=2)
        return (pairs.reshape(len(upper), -1)[:, : self.dim] - np.uint8(_ABOVE)).view(np.int8)

    @property
    def grid(self) -> NibbleGrid:
        fine = np.zeros((0, 1), dtype=np.int8) if self.fine is None else self.fine
        return NibbleGrid(*map(for_kernels, (self.upper, self.lower, fine, self.scales, self.biases)))


def in_planes(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a part of version 0.2, whose rows had whole bytes, with these split."""
    return {name: NibbleRows.from_bytes(value) if isinstance(value, Rows) else value for name, value in values.items()}


def _blocks(dim: int) -> int:
    return -(-dim // BLOCK)
