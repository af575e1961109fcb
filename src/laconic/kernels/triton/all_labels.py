"""Binary cross-entropy of every text with every label, without ever storing the scores.

Logit gradients are stored, in bfloat16, because the gradients of vectors and of rows both need them.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

_TEXTS, _LABELS = 64, 128
_WIDTH, _STEP = 128, 64
_PARTS = 66  # of the labels, each with programs of its own
_WARPS, _STAGES, _REGISTERS = 4, 4, None
_INPUT_TEXTS, _INPUT_WARPS, _INPUT_STAGES = 128, 8, 3


class AllNegativeLoss(NamedTuple):
    """Loss, logit gradients and bias gradients of BCE with all targets 0; the caller corrects the positives."""

    loss: Float[Tensor, ""]
    logit_gradients: Float[Tensor, "batch width"]  # of a text with weight 1; 0 after the last label
    bias: Float[Tensor, "labels"]


def padded_width(labels: int) -> int:
    """Return the width of logit gradients: whole tiles, and at least one position after the last label."""
    return (labels // _LABELS + 1) * _LABELS


def all_negative_loss(
    vectors: Float[Tensor, "batch dim"],
    weight: Float[Tensor, "labels dim"],
    bias: Float[Tensor, "labels"],
    text_weights: Float[Tensor, "batch"],
    *,
    precise: bool = False,
) -> AllNegativeLoss:
    """Compute in one pass over the rows; products in TF32 or bfloat16 like the rows, in float32 if `precise`."""
    (batch, dim), labels = vectors.shape, len(weight)
    assert all(part.is_contiguous() for part in (vectors, weight, bias, text_weights))
    kind, width = torch.float32 if precise else torch.bfloat16, padded_width(labels)
    text_tiles, label_tiles = -(-batch // _TEXTS), width // _LABELS
    logit_gradients = torch.empty((batch, width), dtype=kind, device=vectors.device)
    losses = torch.empty((text_tiles * label_tiles,), device=vectors.device)
    by_bias = torch.zeros_like(bias, dtype=torch.float32)
    _all_negative_kernel()[(text_tiles * label_tiles,)](
        *(vectors.to(weight.dtype), weight, bias, text_weights, logit_gradients, losses, by_bias),
        *(batch, labels, text_tiles, width),
        DIM=dim,
        TEXTS=_TEXTS,
        LABELS=_LABELS,
        DEPTH=128 // weight.element_size(),
        HALF=not precise and weight.dtype == torch.bfloat16,
        PRECISION="ieee" if precise else "tf32",
        num_warps=_WARPS,
        num_stages=_STAGES,
        maxnreg=_REGISTERS,
    )
    return AllNegativeLoss(losses.sum(), logit_gradients, by_bias)


def input_gradients(
    logit_gradients: Float[Tensor, "batch width"], weight: Float[Tensor, "labels dim"], *, precise: bool = False
) -> Float[Tensor, "batch dim"]:
    """Backpropagate logit gradients to the vectors."""
    (batch, width), (labels, dim) = logit_gradients.shape, weight.shape
    assert all(part.is_contiguous() for part in (logit_gradients, weight))
    out = torch.zeros((batch, dim), device=logit_gradients.device)
    text_tiles, dim_tiles = -(-batch // _INPUT_TEXTS), -(-dim // _WIDTH)
    _input_gradients_kernel()[(text_tiles, dim_tiles, _PARTS)](
        *(logit_gradients, weight, out, batch, labels, width, -(-width // (_PARTS * _STEP))),
        DIM=dim,
        TEXTS=_INPUT_TEXTS,
        WIDTH=_WIDTH,
        STEP=_STEP,
        HALF=not precise,
        num_warps=_INPUT_WARPS,
        num_stages=_INPUT_STAGES,
    )
    return out


@cache
def _all_negative_kernel() -> Any:
    import triton
    from triton import language as tl

    @triton.jit(do_not_specialize=("batch", "text_tiles"))  # type: ignore[untyped-decorator]
    def all_negative(  # type: ignore[no-untyped-def]
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
        DIM: tl.constexpr,
        TEXTS: tl.constexpr,
        LABELS: tl.constexpr,
        DEPTH: tl.constexpr,
        HALF: tl.constexpr,
        PRECISION: tl.constexpr,
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
        z += tl.load(bias + label, mask=label_there, other=0.0)[None, :]
        counted = tl.where(
            label_there[None, :], tl.load(text_weights + text, mask=text_there, other=0.0)[:, None], tl.zeros_like(z)
        )
        e = tl.exp(-tl.abs(z))
        loss = counted * (tl.maximum(z, 0.0) + tl.log(1.0 + e))
        sigmoid = tl.where(label_there[None, :], tl.where(z >= 0, 1.0, e) / (1.0 + e), 0.0)
        at = text.to(tl.int64)[:, None] * width + label[None, :]
        tl.store(logit_gradients + at, sigmoid.to(logit_gradients.dtype.element_ty), mask=text_there[:, None])
        tl.store(losses + tl.program_id(0), tl.sum(loss))
        tl.atomic_add(by_bias + label, tl.sum(counted * sigmoid, 0), mask=label_there, sem="relaxed")

    return all_negative


@cache
def _input_gradients_kernel() -> Any:
    import triton
    from triton import language as tl

    @triton.jit(do_not_specialize=("batch", "part"))  # type: ignore[untyped-decorator]
    def backpropagate(  # type: ignore[no-untyped-def]
        logit_gradients,
        weight,
        out,
        batch,
        labels,
        width,
        part,
        DIM: tl.constexpr,
        TEXTS: tl.constexpr,
        WIDTH: tl.constexpr,
        STEP: tl.constexpr,
        HALF: tl.constexpr,
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

    return backpropagate
