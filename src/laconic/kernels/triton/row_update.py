"""One step of an optimiser on label rows, whose gradient is multiplied out where the rows lie and never written.

A program has a tile of rows: it adds up the product that is their gradient, reads the rows and their state, and writes
both back. Rows and state may be in half precision; what is written is then rounded up or down by chance, so that steps
too small for it are taken as often as they should be. The clock is `adam`'s.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from laconic.kernels.triton.adam import adam_plainly, adam_rows_plainly
from laconic.kernels.triton.factors import Factors, PickedLabels

# What was quickest on an H200 at 670,091 rows of 480: the tile of a program, its warps, and registers of a thread.
_PICKED_ROWS, _PICKED_WIDTH, _PICKED_WARPS = 16, 128, 4
_WHOLE_ROWS, _WHOLE_TEXTS = 16, 32  # of a program that has rows in full
_ROWS, _TEXTS, _WIDTH, _STAGES = 64, 64, 64, 3
_WARPS, _REGISTERS = 8, 128
_HALF_WARPS, _HALF_REGISTERS = 4, 168  # of rows in half precision


def multiplied_out(factors: Factors, rows: int, *, precise: bool = False) -> Float[Tensor, "rows dim"]:
    """The gradient itself, for rows that somebody else made: what their maker has to know."""
    gradient = factors.vectors.new_empty(rows, factors.vectors.shape[1])
    _run(gradient, gradient, gradient, factors, factors.vectors, precise=precise, gradient=True)
    return gradient


def update_rows_plainly(
    weight: Float[Tensor, "rows dim"],
    mean: Float[Tensor, "rows dim"] | None,
    square: Float[Tensor, "rows ..."],
    factors: Factors,
    clock: Float[Tensor, "7"],
    *,
    lazy: bool = False,
) -> None:
    """The twin: the gradient is multiplied out first."""
    slope = factors.dense(len(weight)).to(weight.dtype)
    if mean is None:
        adagrad_plainly(weight, slope, square, clock)
    else:
        (adam_rows_plainly if lazy else adam_plainly)(weight, slope, mean, square, clock)


def adagrad_plainly(
    weight: Float[Tensor, "rows dim"],
    slope: Float[Tensor, "rows dim"],
    square: Float[Tensor, "rows"],
    clock: Float[Tensor, "7"],
) -> None:
    """One number is remembered of a row: the sum, over all steps, of the mean of its slopes' squares."""
    rate, eps, go = clock[0], clock[3], clock[6]
    square += go * slope.square().mean(1)
    weight -= go * rate * slope / (square.sqrt() + eps)[:, None]


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
    """In one pass over rows and state: Adam or, without a mean, Adagrad with one number a row. Products are of halves,
    or in full where `precise`. `chance` is another number at every step; rows that are in half precision need it.
    """
    assert chance is not None or weight.dtype == torch.float32
    assert all(part.is_contiguous() for part in (mean, square) if part is not None)
    _run(weight, mean, square, factors, clock, lazy=lazy, precise=precise, chance=chance)


def _run(
    weight: Tensor,
    mean: Tensor | None,
    square: Tensor,
    factors: Factors,
    clock: Tensor,
    *,
    gradient: bool = False,
    lazy: bool = False,
    precise: bool = False,
    chance: Tensor | None = None,
) -> None:
    (rows, dim), picked, by_row = weight.shape, isinstance(factors, PickedLabels), mean is None
    assert all(part.is_contiguous() for part in (weight, factors.slopes, factors.vectors))
    assert picked or factors.slopes.shape[1] >= -(-rows // _ROWS) * _ROWS
    width = _power(dim) if by_row else min(_PICKED_WIDTH if picked else _WIDTH, _power(dim))
    if isinstance(factors, PickedLabels):
        size = min(_PICKED_ROWS, factors.slopes.shape[1])
        tiles = factors.slopes.shape[1] // size
        programs = (len(factors.starts) - 1) * tiles
        lists = factors.texts, factors.bounds, factors.starts
    else:
        size = _WHOLE_ROWS if by_row else _ROWS
        tiles, programs = 1, -(-rows // size)
        lists = (clock, clock, clock)  # nobody reads them
    vectors = factors.vectors if picked or precise else factors.vectors.to(factors.slopes.dtype)
    halves = weight.dtype != torch.float32 and not by_row
    warps, registers = (_HALF_WARPS, _HALF_REGISTERS) if halves else (_WARPS, _REGISTERS)
    _kernel()[(programs * -(-dim // width),)](
        *(weight, square if mean is None else mean, square, factors.slopes, vectors, *lists, clock),
        clock if chance is None else chance,
        *(rows, len(factors.vectors), factors.slopes.shape[1], tiles),
        DIM=dim,
        ROWS=size,
        WIDTH=width,
        TEXTS=_WHOLE_TEXTS if by_row else _TEXTS,
        PICKED=picked,
        GRADIENT=gradient,
        BY_ROW=by_row,
        LAZY=lazy,
        BY_CHANCE=weight.dtype != torch.float32,
        HALF=not precise,
        num_warps=_PICKED_WARPS if picked else warps,
        num_stages=_STAGES,
        maxnreg=None if picked else registers,
    )


def _power(size: int) -> int:
    """The next power of two, and at least what products take."""
    return max(16, 1 << (size - 1).bit_length())


@cache
def _kernel() -> Any:
    import triton
    from triton import language as tl

    @triton.jit(do_not_specialize=("rows", "batch", "tiles"))  # type: ignore[untyped-decorator]
    def update(  # type: ignore[no-untyped-def]
        weight,
        mean,
        square,
        slopes,
        vectors,
        texts,
        bounds,
        starts,
        clock,
        chance,
        rows,
        batch,
        stride,
        tiles,
        DIM: tl.constexpr,
        ROWS: tl.constexpr,
        WIDTH: tl.constexpr,
        TEXTS: tl.constexpr,
        PICKED: tl.constexpr,
        GRADIENT: tl.constexpr,
        BY_ROW: tl.constexpr,
        LAZY: tl.constexpr,
        BY_CHANCE: tl.constexpr,
        HALF: tl.constexpr,
    ):
        # Programs that run together have the same rows, which lie in one piece.
        columns: tl.constexpr = (DIM + WIDTH - 1) // WIDTH
        start_column, program = (tl.program_id(0) % columns) * WIDTH, tl.program_id(0) // columns
        place = (program % tiles) * ROWS + tl.arange(0, ROWS)
        # Rows and state are read and written as one run of places, which keeps what a thread has together.
        each = tl.arange(0, ROWS * WIDTH)
        if PICKED:
            cluster = program // tiles
            begin, end = tl.load(starts + cluster) + (program % tiles) * ROWS, tl.load(starts + cluster + 1)
            first, last = tl.load(bounds + cluster), tl.load(bounds + cluster + 1)
        else:
            begin, end = program.to(tl.int64) * ROWS, rows
            first, last = 0, batch
        column = start_column + tl.arange(0, WIDTH)
        column_there = column < DIM
        there = (begin + each // WIDTH < end) & (start_column + each % WIDTH < DIM)
        if LAZY:
            there = there & (last > first)
        at = (begin + each // WIDTH) * DIM + start_column + each % WIDTH
        if not GRADIENT:  # asked for first: while they come, their gradient is added up
            w = tl.load(weight + at, mask=there, other=0.0).to(tl.float32)
            if not BY_ROW:
                m = tl.load(mean + at, mask=there, other=0.0).to(tl.float32)
                v = tl.load(square + at, mask=there, other=0.0).to(tl.float32)
        total = tl.zeros((ROWS, WIDTH), tl.float32)
        if PICKED:  # by few texts
            for pick in range(first, last):
                x_at = tl.load(texts + pick) * DIM + column
                slope = tl.load(slopes + pick * stride + place)
                total += slope[:, None] * tl.load(vectors + x_at, mask=column_there, other=0.0)[None, :]
        else:
            for start in range(first, last, TEXTS):
                text = start + tl.arange(0, TEXTS)
                text_there = (text < last)[:, None]
                slope = tl.load(
                    slopes + text.to(tl.int64)[:, None] * stride + (begin + place)[None, :], mask=text_there, other=0.0
                )
                x_there = text_there & column_there[None, :]
                x = tl.load(vectors + text[:, None] * DIM + column[None, :], mask=x_there, other=0.0)
                if HALF:
                    total = tl.dot(tl.trans(slope), x, total)
                else:
                    total = tl.dot(tl.trans(slope), x, total, input_precision="ieee")
        if BY_ROW:
            of_row, row_there = square + begin + tl.arange(0, ROWS), begin + tl.arange(0, ROWS) < end
            s = tl.load(of_row, mask=row_there, other=0.0)
            new_s = s + tl.sum(total * total, 1) / DIM
            tl.store(of_row, tl.where(tl.load(clock + 6) > 0, new_s, s), mask=row_there)
            total = total / (tl.sqrt(new_s) + tl.load(clock + 3))[:, None]
        total = tl.reshape(total, (ROWS * WIDTH,))
        if not PICKED:
            total = tl.gather(total, each, 0)
        if GRADIENT:
            tl.store(weight + at, total, mask=there)
        else:
            go = tl.load(clock + 6) > 0
            if BY_CHANCE:
                # Multiplied and shifted until neighbouring places have nothing in common.
                seed = tl.load(chance).to(tl.uint32) * 0x3C6EF372
                bits = at.to(tl.uint32) * 0x61C88647 + seed
                bits = (bits ^ (bits >> 16)) * 0x21F0AAAD
                bits = (bits ^ (bits >> 15)) * 0x735A2D97
                bits = (bits ^ (bits >> 15)).to(tl.int32, bitcast=True)
            if BY_ROW:
                new_w = w - tl.load(clock) * total
            else:
                beta1, beta2 = tl.load(clock + 1), tl.load(clock + 2)
                rate, widening = tl.load(clock) / tl.load(clock + 4), 1 / tl.load(clock + 5)
                new_m = m * beta1 + total * (1 - beta1)
                new_v = v * beta2 + total * total * (1 - beta2)
                new_w = w - rate * new_m / (tl.sqrt(new_v * widening) + tl.load(clock + 3))
                new_m, new_v = tl.where(go, new_m, m), tl.where(go, new_v, v)
                if BY_CHANCE:
                    new_m = ((new_m.to(tl.int32, bitcast=True) + (bits & 0xFFFF)) & -65536).to(tl.float32, bitcast=True)
                    lower = bits >> 8 & 0xFFFF
                    new_v = ((new_v.to(tl.int32, bitcast=True) + lower) & -65536).to(tl.float32, bitcast=True)
                tl.store(mean + at, new_m.to(mean.dtype.element_ty), mask=there)
                tl.store(square + at, new_v.to(square.dtype.element_ty), mask=there)
            new_w = tl.where(go, new_w, w)
            if BY_CHANCE:
                # The lower half of a float32 is what bfloat16 lacks: a number of that size, added by chance, carries as
                # often as what would be lost is large. What is in half precision already stays as it is.
                lower = bits >> 16 & 0xFFFF
                new_w = ((new_w.to(tl.int32, bitcast=True) + lower) & -65536).to(tl.float32, bitcast=True)
            tl.store(weight + at, new_w.to(weight.dtype.element_ty), mask=there)

    return update
