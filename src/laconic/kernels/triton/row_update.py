"""One optimiser step on label rows, whose gradient is multiplied out tile by tile and never written.

A program has a tile of rows: it sums the product that is their gradient, reads the rows and their state, and writes
both back. Rows and state may be bfloat16; they are then rounded stochastically, so that steps too small for bfloat16
are taken as often as they should be. The clock is `adam`'s.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from laconic.kernels.triton.factors import AllLabelFactors, Factors, ShortlistFactors
from laconic.kernels.triton.pads import as_wide, with_padding

# What was fastest on an H200 at 670,091 rows of 480 and 2,812,281 of 300: the tile of a program, its warps, and
# registers of a thread. Of picks some are loaded together.
_PICKED_ROWS, _PICKED_WIDTH, _PICKED_WARPS, _PICKS = 4, 512, 4, 2
_BFLOAT16_PICKED_WARPS, _BFLOAT16_PICKS = 2, 4
_WHOLE_ROWS, _WHOLE_WARPS, _WHOLE_PICKS = 4, 2, 1  # of a program that has picked rows in full
_ROWS, _TEXTS, _WIDTH, _STAGES = 64, 64, 64, 3
_WARPS, _REGISTERS = 8, 128
_BFLOAT16_WARPS, _BFLOAT16_REGISTERS = 4, 168
_STRIP_WIDTH = 64
_H200 = 227 << 10  # bytes of shared memory that a program can have


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
    numbers, weight = weight.shape[1], with_padding(weight)
    if mean is not None:
        mean, square = with_padding(mean), with_padding(square)
        assert mean.shape == square.shape == weight.shape
    factors = factors._replace(vectors=as_wide(factors.vectors, weight))
    assert all(part.is_contiguous() for part in (mean, square) if part is not None)
    seed = clock if chance is None else chance
    if mean is None and isinstance(factors, AllLabelFactors):
        _adagrad_in_strips(weight, square, factors, clock, seed, numbers, precise=precise)
        return
    launch = _launch(factors, weight, precise=precise, whole=mean is None)
    if mean is None:
        _kernels().adagrad[launch.grid](
            *(weight, square, clock, seed, *launch.arguments), NUMBERS=numbers, **launch.options
        )
    else:
        _kernels().adam[launch.grid](weight, mean, square, clock, seed, *launch.arguments, LAZY=lazy, **launch.options)


def _adagrad_in_strips(
    weight: Float[Tensor, "rows dim"],
    square: Float[Tensor, "rows"],
    factors: AllLabelFactors,
    clock: Float[Tensor, "7"],
    seed: Tensor,
    numbers: int,
    *,
    precise: bool,
) -> None:
    (rows, dim), (batch, stride) = weight.shape, factors.logit_gradients.shape
    vectors = factors.vectors if precise else factors.vectors.to(factors.logit_gradients.dtype)
    width = min(_STRIP_WIDTH, _power(dim))
    strips = strips_for(batch, width, vectors.element_size(), _shared_memory(weight.device))
    programs, texts = -(-rows // strips.rows), min(strips.texts, _power(batch))
    assert stride >= programs * strips.rows
    assert all(part.is_contiguous() for part in (weight, factors.logit_gradients, vectors))
    _kernels().adagrad_in_strips[(programs,)](
        *(weight, square, clock, seed, factors.logit_gradients, vectors, rows, batch, stride),
        DIM=dim,
        NUMBERS=numbers,
        ROWS=strips.rows,
        WIDTH=width,
        TEXTS=texts,
        MORE=batch > texts,
        PRECISION="ieee" if precise else "tf32",
        num_warps=strips.warps,
        num_stages=strips.stages,
        maxnreg=strips.registers,
    )


class Strips(NamedTuple):
    """The rows of a program that goes through them strip by strip, texts, warps, steps ahead, a thread's registers."""

    rows: int
    texts: int
    warps: int
    stages: int
    registers: int | None

    def shared_memory(self, batch: int, width: int, item: int) -> int:
        """Return the bytes of shared memory that suffice, for factors of `item` bytes a number and strips of a width.

        Triton takes as many on Hopper, and up to a half less on Ampere and Ada: gradients of scores, which stay or, for
        more texts than a program has at a time, are loaded ahead too; vectors that are loaded ahead; a strip's product.
        """
        texts = min(self.texts, _power(batch))
        copies = 1 + self.stages * (batch > texts)
        return item * (copies * self.rows * texts + self.stages * texts * width) + 4 * self.rows * width


_STRIPS = (
    Strips(128, 128, 8, 3, 128),
    Strips(128, 128, 8, 2, 128),
    Strips(64, 128, 4, 2, None),
    Strips(64, 64, 4, 2, None),
    Strips(32, 32, 4, 2, None),
    Strips(16, 16, 4, 2, None),
)


def strips_for(batch: int, width: int, item: int, room: int) -> Strips:
    """Choose what was fastest on an H200 at 128 texts or, where a program has less room, the next that fits into it.

    More texts, or factors in float32, begin with fewer rows; that was not chosen by time.
    """
    first = 3 if item == 4 else 2 if batch > 128 else 0
    fitting = (strips for strips in _STRIPS[first:] if strips.shared_memory(batch, width, item) <= room)
    return next(fitting, _STRIPS[-1])


@cache
def _shared_memory(device: torch.device) -> int:
    """Return the bytes of shared memory that a program can have; Triton's interpreter takes what an H200 has."""
    if device.type != "cuda":
        return _H200
    properties = torch.cuda.get_device_properties(device)
    return int(properties.shared_memory_per_block_optin)  # type: ignore[attr-defined] # torch's stubs lack it


class _Launch(NamedTuple):
    """The grid of a kernel, and the arguments that describe the gradient's factors and tiles."""

    grid: tuple[int]
    arguments: tuple[Any, ...]
    options: dict[str, Any]


def _launch(factors: Factors, weight: Tensor, *, precise: bool, whole: bool = False) -> _Launch:
    """Choose tiles for the rows; `whole`: a program has rows, which are picked, in full."""
    (rows, dim), (batch, stride) = weight.shape, (len(factors.vectors), factors.logit_gradients.shape[1])
    assert all(part.is_contiguous() for part in (weight, factors.logit_gradients, factors.vectors))
    vectors, is_float32, registers, picks = factors.vectors, weight.dtype == torch.float32, None, 1
    if isinstance(factors, ShortlistFactors):
        size, width = min(_WHOLE_ROWS if whole else _PICKED_ROWS, stride), _power(dim)
        assert stride % size == 0
        programs, tiles = (len(factors.starts) - 1) * (stride // size), stride // size
        lists = factors.texts, factors.bounds, factors.starts
        if whole:
            warps, picks = _WHOLE_WARPS, _WHOLE_PICKS
        else:
            width = min(_PICKED_WIDTH, width)
            warps, picks = (_PICKED_WARPS, _PICKS) if is_float32 else (_BFLOAT16_PICKED_WARPS, _BFLOAT16_PICKS)
    else:
        size, width = _ROWS, min(_WIDTH, _power(dim))
        programs, tiles, lists = -(-rows // size), 1, (vectors, vectors, vectors)  # the lists are not read
        assert stride >= programs * size
        warps, registers = (_WARPS, _REGISTERS) if is_float32 else (_BFLOAT16_WARPS, _BFLOAT16_REGISTERS)
        vectors = vectors if precise else vectors.to(factors.logit_gradients.dtype)
    return _Launch(
        (programs * -(-dim // width),),
        (factors.logit_gradients, vectors, *lists, rows, batch, stride, tiles),
        {
            "DIM": dim,
            "ROWS": size,
            "WIDTH": width,
            "TEXTS": _TEXTS,
            "PICKS": picks,
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
