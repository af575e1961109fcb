"""A convolution and its GELU in one kernel, for prediction: windows are read where they lie, not copied first.

Products are of float32 split into three of TF32 each, which a GPU's matrix units compute: as precise as float32 to a
few of its last bits, and several times as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

_FEW = 64  # texts


@dataclass(frozen=True, kw_only=True)
class Tile:
    """The tile of a program."""

    windows: int = 64
    out: int = 32
    depth: int = 32  # numbers of a window that are multiplied at a time
    warps: int = 4
    stages: int = 4  # steps that are loaded ahead


@dataclass(frozen=True)
class Windows:
    """The places that windows read: `size` neighbours each, `stride` apart, from `first` on, around the ring."""

    count: int
    size: int
    stride: int
    first: int = 0

    def places(self, before: int) -> Int[Tensor, "windows size"]:
        """Return the places among so many."""
        return (self.first + self.stride * torch.arange(self.count)[:, None] + torch.arange(self.size)) % before


def convolved(
    h: Float[Tensor, "batch before channels"],
    windows: Windows,
    weight: Float[Tensor, "out numbers"],
    bias: Float[Tensor, "out"],
    *,
    tile: Tile | None = None,
) -> Float[Tensor, "batch windows out"]:
    """Return gelu(seen weightᵀ + bias), where a window sees all channels of its first place, then of the next."""
    tile = tile or _usual_tile(len(h), weight.shape[1])
    (batch, before, channels), out = h.shape, len(weight)
    assert weight.shape[1] == windows.size * channels
    assert weight.shape[1] % tile.depth == out % tile.out == 0
    assert all(part.is_contiguous() for part in (h, weight, bias))
    rows = batch * windows.count
    result = torch.empty((batch, windows.count, out), dtype=torch.float32, device=h.device)
    _kernel()[(out // tile.out, -(-rows // tile.windows))](
        *(h, weight, bias, result, rows),
        BEFORE=before,
        CHANNELS=channels,
        WINDOWS=windows.count,
        STRIDE=windows.stride,
        FIRST=windows.first % before,
        NUMBERS=weight.shape[1],
        OUT=out,
        ROWS=tile.windows,
        COLUMNS=tile.out,
        DEPTH=tile.depth,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    return result


def _usual_tile(texts: int, numbers: int) -> Tile:
    """Choose a tile: with few texts, many small ones keep the GPU busy."""
    return Tile() if texts > _FEW or numbers % 128 else Tile(windows=16, depth=128, stages=3)


@cache
def _kernel() -> Any:
    import triton
    from triton import language as tl

    @triton.jit(do_not_specialize=("rows",))  # type: ignore[untyped-decorator]
    def convolve(  # type: ignore[no-untyped-def]
        h,
        weight,
        bias,
        result,
        rows,
        BEFORE: tl.constexpr,
        CHANNELS: tl.constexpr,
        WINDOWS: tl.constexpr,
        STRIDE: tl.constexpr,
        FIRST: tl.constexpr,
        NUMBERS: tl.constexpr,
        OUT: tl.constexpr,
        ROWS: tl.constexpr,
        COLUMNS: tl.constexpr,
        DEPTH: tl.constexpr,
    ):
        row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
        there = row < rows
        text = (row // WINDOWS).to(tl.int64) * (BEFORE * CHANNELS)
        place = FIRST + (row % WINDOWS) * STRIDE
        out = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for first in range(0, NUMBERS, DEPTH):
            number = first + tl.arange(0, DEPTH)
            at = ((place[:, None] + (number // CHANNELS)[None, :]) % BEFORE) * CHANNELS + (number % CHANNELS)[None, :]
            x = tl.load(h + text[:, None] + at, mask=there[:, None], other=0.0)
            w = tl.load(weight + out[None, :] * NUMBERS + number[:, None])
            total = tl.dot(x, w, total, input_precision="tf32x3")
        total += tl.load(bias + out)[None, :]
        total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
        tl.store(result + row.to(tl.int64)[:, None] * OUT + out[None, :], total, mask=there[:, None])

    return convolve
