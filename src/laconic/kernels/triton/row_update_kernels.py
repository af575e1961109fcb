"""Triton kernels of `row_update`, one per optimiser, over shared helpers. Imported when the first of them runs.

Helpers are module-level functions because Triton's interpreter finds no others; `no_type_check` keeps the run-time
checks of the tests away from functions that Triton compiles.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

from typing import no_type_check

import triton
from triton import language as tl
from triton.language import constexpr


@triton.jit
@no_type_check
def tile_of(bounds, starts, rows, batch, tiles, DIM: constexpr, ROWS: constexpr, WIDTH: constexpr, PICKED: constexpr):
    # Returns the tile's first column, its place in its cluster, its rows' bounds, and those of its picks or texts.
    # Programs that run together have the same rows, which are contiguous.
    columns: constexpr = (DIM + WIDTH - 1) // WIDTH
    program = tl.program_id(0) // columns
    if PICKED:
        cluster = program // tiles
        begin, end = tl.load(starts + cluster) + (program % tiles) * ROWS, tl.load(starts + cluster + 1)
        first, last = tl.load(bounds + cluster), tl.load(bounds + cluster + 1)
        last = tl.where(begin < end, last, first)  # a tile without rows has nothing to do
    else:
        begin, end = program.to(tl.int64) * ROWS, rows
        first, last = 0, batch
    return (tl.program_id(0) % columns) * WIDTH, (program % tiles) * ROWS, begin, end, first, last


@triton.jit
@no_type_check
def elements(column, begin, end, DIM: constexpr, ROWS: constexpr, WIDTH: constexpr):
    # Returns the tile's positions in memory as one run, which keeps a thread's elements together, and a mask.
    each = tl.arange(0, ROWS * WIDTH)
    there = (begin + each // WIDTH < end) & (column + each % WIDTH < DIM)
    return (begin + each // WIDTH) * DIM + column + each % WIDTH, there


@triton.jit
@no_type_check
def gradient_of(
    gradients,
    vectors,
    texts,
    start_column,
    start_place,
    begin,
    first,
    last,
    stride,
    DIM: constexpr,
    ROWS: constexpr,
    WIDTH: constexpr,
    TEXTS: constexpr,
    PICKS: constexpr,
    PICKED: constexpr,
    PRECISION: constexpr,
):
    # Returns the tile's gradient, summed over picks one by one, since they are few, or over tiles of texts.
    place = start_place + tl.arange(0, ROWS)
    column = start_column + tl.arange(0, WIDTH)
    column_there = column < DIM
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    if PICKED:
        for start in range(first, last, PICKS):  # some at a time, so that they arrive together
            for each in tl.static_range(PICKS):
                pick, there = start + each, start + each < last
                x_at = tl.load(texts + pick, mask=there, other=0) * DIM + column
                g = tl.load(gradients + pick * stride + place, mask=there, other=0.0)
                total += g[:, None] * tl.load(vectors + x_at, mask=column_there & there, other=0.0)[None, :]
    else:
        for start in range(first, last, TEXTS):
            text = start + tl.arange(0, TEXTS)
            text_there = (text < last)[:, None]
            g_at = text.to(tl.int64)[:, None] * stride + (begin + place)[None, :]
            g = tl.load(gradients + g_at, mask=text_there, other=0.0)
            x_there = text_there & column_there[None, :]
            x = tl.load(vectors + text[:, None] * DIM + column[None, :], mask=x_there, other=0.0)
            total = tl.dot(tl.trans(g), x, total, input_precision=PRECISION)
    return total


@triton.jit
@no_type_check
def flatten(total, ROWS: constexpr, WIDTH: constexpr, PICKED: constexpr):
    # Returns a tile in the order of `elements`.
    total = tl.reshape(total, (ROWS * WIDTH,))
    if not PICKED:
        total = tl.gather(total, tl.arange(0, ROWS * WIDTH), 0)
    return total


@triton.jit
@no_type_check
def random_bits(at, chance):
    # Hashes positions and seed until neighbouring positions have nothing in common.
    bits = at.to(tl.uint32) + tl.load(chance).to(tl.uint32) * 0x61C88647
    bits = (bits ^ (bits >> 16)) * 0x21F0AAAD
    bits = (bits ^ (bits >> 15)) * 0x735A2D97
    return (bits ^ (bits >> 15)).to(tl.int32, bitcast=True)


@triton.jit
@no_type_check
def round_by(x, bits):
    # Rounds to bfloat16: random bits, added to the half of a float32 that bfloat16 lacks, carry as often as what
    # would be lost is large. What is bfloat16 already stays.
    return ((x.to(tl.int32, bitcast=True) + (bits & 0xFFFF)) & -65536).to(tl.float32, bitcast=True)


@triton.jit(do_not_specialize=("rows", "batch", "tiles"))
@no_type_check
def multiply_out(
    product,
    gradients,
    vectors,
    texts,
    bounds,
    starts,
    rows,
    batch,
    stride,
    tiles,
    DIM: constexpr,
    ROWS: constexpr,
    WIDTH: constexpr,
    TEXTS: constexpr,
    PICKS: constexpr,
    PICKED: constexpr,
    PRECISION: constexpr,
):
    column, place, begin, end, first, last = tile_of(bounds, starts, rows, batch, tiles, DIM, ROWS, WIDTH, PICKED)
    at, there = elements(column, begin, end, DIM, ROWS, WIDTH)
    total = gradient_of(
        *(gradients, vectors, texts, column, place, begin, first, last, stride),
        *(DIM, ROWS, WIDTH, TEXTS, PICKS, PICKED, PRECISION),
    )
    tl.store(product + at, flatten(total, ROWS, WIDTH, PICKED), mask=there)


@triton.jit(do_not_specialize=("rows", "batch", "tiles"))
@no_type_check
def adam(
    weight,
    mean,
    square,
    clock,
    chance,
    gradients,
    vectors,
    texts,
    bounds,
    starts,
    rows,
    batch,
    stride,
    tiles,
    LAZY: constexpr,
    DIM: constexpr,
    ROWS: constexpr,
    WIDTH: constexpr,
    TEXTS: constexpr,
    PICKS: constexpr,
    PICKED: constexpr,
    PRECISION: constexpr,
):
    column, place, begin, end, first, last = tile_of(bounds, starts, rows, batch, tiles, DIM, ROWS, WIDTH, PICKED)
    at, there = elements(column, begin, end, DIM, ROWS, WIDTH)
    there = there & (tl.load(clock + 6).to(tl.int32) > 0)
    if LAZY:
        there = there & (last > first)
    # Requested first: while they arrive, their gradient is summed.
    w = tl.load(weight + at, mask=there, other=0.0).to(tl.float32)
    m = tl.load(mean + at, mask=there, other=0.0).to(tl.float32)
    v = tl.load(square + at, mask=there, other=0.0).to(tl.float32)
    total = gradient_of(
        *(gradients, vectors, texts, column, place, begin, first, last, stride),
        *(DIM, ROWS, WIDTH, TEXTS, PICKS, PICKED, PRECISION),
    )
    total = flatten(total, ROWS, WIDTH, PICKED)
    beta1, beta2 = tl.load(clock + 1), tl.load(clock + 2)
    rate, widening = tl.load(clock) / tl.load(clock + 4), 1 / tl.load(clock + 5)
    new_m = m * beta1 + total * (1 - beta1)
    new_v = v * beta2 + total * total * (1 - beta2)
    new_w = w - rate * new_m / (tl.sqrt(new_v * widening) + tl.load(clock + 3))
    if weight.dtype.element_ty != tl.float32:
        bits = random_bits(at, chance)
        new_w, new_m, new_v = round_by(new_w, bits >> 16), round_by(new_m, bits), round_by(new_v, bits >> 8)
    tl.store(mean + at, new_m.to(mean.dtype.element_ty), mask=there)
    tl.store(square + at, new_v.to(square.dtype.element_ty), mask=there)
    tl.store(weight + at, new_w.to(weight.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=("rows", "batch", "tiles"))
@no_type_check
def adagrad(
    weight,
    square,
    clock,
    chance,
    gradients,
    vectors,
    texts,
    bounds,
    starts,
    rows,
    batch,
    stride,
    tiles,
    DIM: constexpr,
    NUMBERS: constexpr,
    ROWS: constexpr,
    WIDTH: constexpr,
    TEXTS: constexpr,
    PICKS: constexpr,
    PICKED: constexpr,
    PRECISION: constexpr,
):
    # A program has whole rows of a picked cluster; those of others stay as they are.
    column, place, begin, end, first, last = tile_of(bounds, starts, rows, batch, tiles, DIM, ROWS, WIDTH, PICKED)
    go = (tl.load(clock + 6).to(tl.int32) > 0) & (last > first)
    at, there = elements(column, begin, end, DIM, ROWS, WIDTH)
    there = there & go
    w = tl.load(weight + at, mask=there, other=0.0).to(tl.float32)
    total = gradient_of(
        *(gradients, vectors, texts, column, place, begin, first, last, stride),
        *(DIM, ROWS, WIDTH, TEXTS, PICKS, PICKED, PRECISION),
    )
    of_row, row_there = square + begin + tl.arange(0, ROWS), (begin + tl.arange(0, ROWS) < end) & go
    s = tl.load(of_row, mask=row_there, other=0.0)
    new_s = s + tl.sum(total * total, 1) / NUMBERS
    tl.store(of_row, new_s, mask=row_there)
    total = total / (tl.sqrt(new_s) + tl.load(clock + 3))[:, None]
    new_w = w - tl.load(clock) * flatten(total, ROWS, WIDTH, PICKED)
    if weight.dtype.element_ty != tl.float32:
        new_w = round_by(new_w, random_bits(at, chance) >> 16)
    tl.store(weight + at, new_w.to(weight.dtype.element_ty), mask=there)


@triton.jit
@no_type_check
def strip_of(
    gradients,
    g,
    vectors,
    start_column,
    begin,
    batch,
    stride,
    DIM: constexpr,
    ROWS: constexpr,
    WIDTH: constexpr,
    TEXTS: constexpr,
    MORE: constexpr,
    PRECISION: constexpr,
):
    # Returns the gradient of some columns; that of the scores of the first texts, g, has been loaded already.
    column, text = start_column + tl.arange(0, WIDTH), tl.arange(0, TEXTS)
    here, x_at = (column < DIM)[None, :], text[:, None] * DIM + column[None, :]
    x = tl.load(vectors + x_at, mask=(text < batch)[:, None] & here, other=0.0)
    total = tl.dot(tl.trans(g), x, input_precision=PRECISION)
    if MORE:
        for start in range(TEXTS, batch, TEXTS):
            text_there = (start + text < batch)[:, None]
            more_at = (start + text).to(tl.int64)[:, None] * stride + (begin + tl.arange(0, ROWS))[None, :]
            more = tl.load(gradients + more_at, mask=text_there, other=0.0)
            x = tl.load(vectors + start * DIM + x_at, mask=text_there & here, other=0.0)
            total = tl.dot(tl.trans(more), x, total, input_precision=PRECISION)
    return total


@triton.jit(do_not_specialize=("rows", "batch"))
@no_type_check
def adagrad_in_strips(
    weight,
    square,
    clock,
    chance,
    gradients,
    vectors,
    rows,
    batch,
    stride,
    DIM: constexpr,
    NUMBERS: constexpr,
    ROWS: constexpr,
    WIDTH: constexpr,
    TEXTS: constexpr,
    MORE: constexpr,
    PRECISION: constexpr,
):
    # A program has whole rows. Their gradient is multiplied out twice, strip by strip: for its length and the step.
    begin = tl.program_id(0).to(tl.int64) * ROWS
    text = tl.arange(0, TEXTS)
    g_at = text.to(tl.int64)[:, None] * stride + (begin + tl.arange(0, ROWS))[None, :]
    g = tl.load(gradients + g_at, mask=(text < batch)[:, None], other=0.0)
    go = tl.load(clock + 6).to(tl.int32) > 0
    at, there = elements(0, begin, rows, DIM, ROWS, WIDTH)
    w = tl.load(weight + at, mask=there, other=0.0)
    of_row, row_there = square + begin + tl.arange(0, ROWS), (begin + tl.arange(0, ROWS) < rows) & go
    s = tl.load(of_row, mask=row_there, other=0.0)
    squares = tl.zeros((ROWS,), tl.float32)
    for column in range(0, DIM, WIDTH):
        total = strip_of(
            *(gradients, g, vectors, column, begin, batch, stride), *(DIM, ROWS, WIDTH, TEXTS, MORE, PRECISION)
        )
        squares += tl.sum(total * total, 1)
    new_s = s + squares / NUMBERS
    tl.store(of_row, new_s, mask=row_there)
    rates = tl.load(clock) / (tl.sqrt(new_s) + tl.load(clock + 3))
    for column in range(0, DIM, WIDTH):
        next_at, next_there = elements(column + WIDTH, begin, rows, DIM, ROWS, WIDTH)
        next_w = tl.load(weight + next_at, mask=next_there, other=0.0)  # on its way meanwhile
        total = strip_of(
            *(gradients, g, vectors, column, begin, batch, stride), *(DIM, ROWS, WIDTH, TEXTS, MORE, PRECISION)
        )
        new_w = w.to(tl.float32) - flatten(total * rates[:, None], ROWS, WIDTH, False)
        if weight.dtype.element_ty != tl.float32:
            new_w = round_by(new_w, random_bits(at, chance) >> 16)
        tl.store(weight + at, new_w.to(weight.dtype.element_ty), mask=there & go)
        at, there, w = next_at, next_there, next_w
