"""The Triton kernel of `shortlist`. Imported when it first runs; `no_type_check` is for the tests' run-time checks."""
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

from typing import no_type_check

import triton
from triton import language as tl
from triton.language import constexpr

from laconic.kernels.triton.all_labels_kernels import times


@triton.jit
@no_type_check
def score_picks(
    vectors,
    weight,
    bias,
    starts,
    texts,
    bounds,
    positives,
    positive_texts,
    targets,
    positive_bounds,
    text_weights,
    losses,
    by_vectors,
    logit_gradients,
    by_bias,
    stride,
    DIM: constexpr,
    WIDTH: constexpr,
    ROWS: constexpr,
    BIAS: constexpr,
):
    cluster, tile = tl.program_id(0), tl.program_id(1)
    place = tile * ROWS + tl.arange(0, ROWS)
    row = tl.load(starts + cluster) + place
    column = tl.arange(0, WIDTH)
    row_there = row < tl.load(starts + cluster + 1)
    column_there = column < DIM
    first_pick, last_pick = tl.load(bounds + cluster), tl.load(bounds + cluster + 1)
    at = row[:, None] * DIM + column[None, :]
    there = row_there[:, None] & column_there[None, :] & (last_pick > first_pick)
    w = tl.load(weight + at, mask=there, other=0.0).to(tl.float32)
    b = tl.zeros((ROWS,), tl.float32)
    if BIAS:
        b = tl.load(bias + row, mask=row_there, other=0.0)
    gradient_b = tl.zeros((ROWS,), tl.float32)
    loss = 0.0
    first_positive, last_positive = tl.load(positive_bounds + cluster), tl.load(positive_bounds + cluster + 1)
    # A text at a time: a cluster is picked by few, and tiles of many would be mostly air. The vector of the next is
    # on its way meanwhile, and the number of the one after it.
    text = tl.load(texts + first_pick, mask=first_pick < last_pick, other=0)
    next_text = tl.load(texts + first_pick + 1, mask=first_pick + 1 < last_pick, other=0)
    x = tl.load(vectors + text * DIM + column, mask=column_there, other=0.0)
    for pick in range(first_pick, last_pick):
        next_x = tl.load(vectors + next_text * DIM + column, mask=column_there, other=0.0)
        later_text = tl.load(texts + pick + 2, mask=pick + 2 < last_pick, other=0)
        counted = tl.load(text_weights + text)
        z = tl.sum(w * x[None, :], 1)
        # What is no row has a score so low that its loss and gradient are 0.
        z = tl.where(row_there, z + b, -1e30)
        y = tl.zeros((ROWS,), tl.float32)
        for positive in range(first_positive, last_positive):
            same = (row == tl.load(positives + positive)) & (text == tl.load(positive_texts + positive))
            y += tl.where(same, tl.load(targets + positive), 0.0)
        e = tl.exp(-tl.abs(z))
        loss += counted * (tl.sum(tl.maximum(z, 0.0) - y * z, 0) + tl.log(tl.reduce(1.0 + e, 0, times)))
        gradient = counted * (tl.where(z >= 0, 1.0, e) / (1.0 + e) - y)
        tl.store(logit_gradients + pick * stride + place, gradient)
        gradient_b += gradient
        gradient_x = tl.sum(gradient[:, None] * w, 0)
        tl.atomic_add(by_vectors + text * DIM + column, gradient_x, mask=column_there, sem="relaxed")
        text, x, next_text = next_text, next_x, later_text
    if BIAS:
        tl.store(by_bias + row, gradient_b, mask=row_there)
    tl.store(losses + cluster * tl.num_programs(1) + tile, loss)
