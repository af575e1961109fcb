"""Triton kernels of `all_labels`. Imported when the first of them runs.

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
def times(one, other):
    return one * other


@triton.jit(do_not_specialize=("batch", "text_tiles"))
@no_type_check
def all_negative(
    vectors,
    weight,
    bias,
    text_weights,
    logit_gradients,
    losses,
    by_bias,
    batch,
    labels,
    text_tiles,
    width,
    DIM: constexpr,
    TEXTS: constexpr,
    LABELS: constexpr,
    DEPTH: constexpr,
    FACTORS: constexpr,
    HALF: constexpr,
    PRECISION: constexpr,
):
    # Programs that run together have the same labels, so that rows come from memory once.
    label = (tl.program_id(0) // text_tiles) * LABELS + tl.arange(0, LABELS)
    text = (tl.program_id(0) % text_tiles) * TEXTS + tl.arange(0, TEXTS)
    label_there, text_there = label < labels, text < batch
    column = tl.arange(0, DEPTH)
    x_at = vectors + text[:, None] * DIM + column[None, :]
    w_at = weight + label.to(tl.int64)[:, None] * DIM + column[None, :]
    z = tl.zeros((TEXTS, LABELS), tl.float32)
    for first in range(0, DIM, DEPTH):
        here = (column < DIM - first)[None, :]
        x = tl.load(x_at + first, mask=text_there[:, None] & here, other=0.0)
        w = tl.load(w_at + first, mask=label_there[:, None] & here, other=0.0)
        if HALF:
            z = tl.dot(x, tl.trans(w), z)
        else:
            z = tl.dot(x.to(tl.float32), tl.trans(w.to(tl.float32)), z, input_precision=PRECISION)
    # What is no label has a score so low that its loss and gradient are 0.
    z += tl.load(bias + label, mask=label_there, other=-1e30)[None, :]
    counted = tl.load(text_weights + text, mask=text_there, other=0.0)
    e = tl.exp(-tl.abs(z))
    sigmoid = tl.where(z >= 0, 1.0, e) / (1.0 + e)
    # A logarithm takes longer than everything else here, so that factors are multiplied first: 64 are 2 ** 64 at most.
    product = tl.reduce(tl.reshape(1.0 + e, (TEXTS, LABELS // FACTORS, FACTORS)), 2, times)
    loss = counted * (tl.sum(tl.maximum(z, 0.0), 1) + tl.sum(tl.log(product), 1))
    at = text.to(tl.int64)[:, None] * width + label[None, :]
    tl.store(logit_gradients + at, sigmoid.to(logit_gradients.dtype.element_ty), mask=text_there[:, None])
    tl.store(losses + tl.program_id(0), tl.sum(loss))
    tl.atomic_add(by_bias + label, tl.sum(counted[:, None] * sigmoid, 0), mask=label_there, sem="relaxed")


@triton.jit(do_not_specialize=("batch", "part"))
@no_type_check
def backpropagate(
    logit_gradients,
    weight,
    out,
    batch,
    labels,
    width,
    part,
    DIM: constexpr,
    TEXTS: constexpr,
    WIDTH: constexpr,
    STEP: constexpr,
    HALF: constexpr,
):
    text = tl.program_id(0) * TEXTS + tl.arange(0, TEXTS)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    text_there, column_there = text < batch, column < DIM
    begin = tl.program_id(2) * part * STEP
    total = tl.zeros((TEXTS, WIDTH), tl.float32)
    for step in range(part):
        label = begin + step * STEP + tl.arange(0, STEP)
        gradient_at = text.to(tl.int64)[:, None] * width + label[None, :]
        gradient = tl.load(
            logit_gradients + gradient_at, mask=text_there[:, None] & (label < width)[None, :], other=0.0
        )
        w_at = label.to(tl.int64)[:, None] * DIM + column[None, :]
        w = tl.load(weight + w_at, mask=(label < labels)[:, None] & column_there[None, :], other=0.0)
        if HALF:
            total = tl.dot(gradient, w.to(tl.bfloat16), total)
        else:
            total = tl.dot(gradient, w.to(tl.float32), total, input_precision="ieee")
    at = text[:, None] * DIM + column[None, :]
    tl.atomic_add(out + at, total, mask=text_there[:, None] & column_there[None, :], sem="relaxed")
