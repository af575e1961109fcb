"""One optimiser step on label rows, whose gradient is multiplied out tile by tile and never written.

A program has a tile of rows: it sums the product that is their gradient, reads the rows and their state, and writes
both back. Rows and state may be bfloat16; they are then rounded stochastically, so that steps too small for bfloat16
are taken as often as they should be. The clock is `adam`'s.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from laconic.kernels.triton.factors import Factors, ShortlistFactors

# What was fastest on an H200 at 670,091 rows of 480: the tile of a program, its warps, and registers of a thread.
_PICKED_ROWS, _PICKED_WIDTH, _PICKED_WARPS = 16, 128, 4
_PICKS = 4  # that are loaded together
_WHOLE_ROWS, _WHOLE_TEXTS = 16, 32  # of a program that has whole rows
_ROWS, _TEXTS, _WIDTH, _STAGES = 64, 64, 64, 3
_WARPS, _REGISTERS = 8, 128
_BFLOAT16_WARPS, _BFLOAT16_REGISTERS = 4, 168


def multiply_out(factors: Factors, rows: int, *, precise: bool = False) -> Float[Tensor, "rows dim"]:
    """Return the gradient itself, for rows that another module computes and backpropagates through."""
    gradient = factors.vectors.new_empty(rows, factors.vectors.shape[1])
    launch = _launch(factors, gradient, precise=precise)
    _kernels().multiply_out[launch.grid](gradient, *launch.arguments, **launch.options)
    return gradient


def update_rows(
    weight: Float[Tensor, "rows dim"],
    mean: Float[Tensor, "rows dim"] | None,
    square: Float[Tensor, "rows ..."],
    factors: Factors,
    clock: Float[Tensor, "7"],
    *,
    lazy: bool = False,
    precise: bool = False,
    chance: Int[Tensor, ""] | None = None,
) -> None:
    """Update in one pass over rows and state, by Adam or, without a mean, by Adagrad with one number per row.

    Products are of bfloat16, or of float32 where `precise`. `chance` is a seed that differs at every step; bfloat16
    rows need it for rounding.
    """
    assert chance is not None or weight.dtype == torch.float32
    assert all(part.is_contiguous() for part in (mean, square) if part is not None)
    launch, seed = _launch(factors, weight, precise=precise, whole=mean is None), clock if chance is None else chance
    if mean is None:
        _kernels().adagrad[launch.grid](weight, square, clock, seed, *launch.arguments, **launch.options)
    else:
        _kernels().adam[launch.grid](weight, mean, square, clock, seed, *launch.arguments, LAZY=lazy, **launch.options)


class _Launch(NamedTuple):
    """The grid of a kernel, and the arguments that describe the gradient's factors and tiles."""

    grid: tuple[int]
    arguments: tuple[Any, ...]
    options: dict[str, Any]


def _launch(factors: Factors, weight: Tensor, *, precise: bool, whole: bool = False) -> _Launch:
    """Choose tiles for the rows; `whole`: a program has rows in full."""
    (rows, dim), (batch, stride) = weight.shape, (len(factors.vectors), factors.logit_gradients.shape[1])
    assert all(part.is_contiguous() for part in (weight, factors.logit_gradients, factors.vectors))
    vectors = factors.vectors
    if isinstance(factors, ShortlistFactors):
        width, size, texts = _PICKED_WIDTH, min(_PICKED_ROWS, stride), _TEXTS
        tiles, warps, registers = stride // size, _PICKED_WARPS, None
        programs, lists = (len(factors.starts) - 1) * tiles, (factors.texts, factors.bounds, factors.starts)
    else:
        assert stride >= -(-rows // _ROWS) * _ROWS
        width, size, texts = (_WIDTH, _WHOLE_ROWS, _WHOLE_TEXTS) if whole else (_WIDTH, _ROWS, _TEXTS)
        programs, tiles, lists = -(-rows // size), 1, (vectors, vectors, vectors)  # the lists are not read
        is_bfloat16 = weight.dtype != torch.float32 and not whole
        warps, registers = (_BFLOAT16_WARPS, _BFLOAT16_REGISTERS) if is_bfloat16 else (_WARPS, _REGISTERS)
        vectors = vectors if precise else vectors.to(factors.logit_gradients.dtype)
    texts, width = _WHOLE_TEXTS if whole else texts, _power(dim) if whole else min(width, _power(dim))
    return _Launch(
        (programs * -(-dim // width),),
        (factors.logit_gradients, vectors, *lists, rows, batch, stride, tiles),
        {
            "DIM": dim,
            "ROWS": size,
            "WIDTH": width,
            "TEXTS": texts,
            "PICKS": _PICKS if weight.dtype == torch.float32 and not whole else 1,
            "PICKED": isinstance(factors, ShortlistFactors),
            "PRECISION": "ieee" if precise else "tf32",
            "num_warps": warps,
            "num_stages": _STAGES,
            "maxnreg": registers,
        },
    )


def _power(size: int) -> int:
    """Return the next power of two, at least the 16 that products need."""
    return max(16, 1 << (size - 1).bit_length())


def _kernels() -> Any:
    from laconic.kernels.triton import row_update_kernels

    return row_update_kernels
