"""Every text with every label: how each score should move, and what that makes of the vectors.

The scores themselves are never written. How they should move is, in half precision, because both gradients need it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

_TEXTS, _LABELS = 64, 128
_WIDTH, _STEP = 128, 64
_PARTS = 66  # of the labels, each pulled on by programs of its own
_WARPS, _STAGES, _REGISTERS = 4, 4, None
_PULLED, _PULL_WARPS, _PULL_STAGES = 128, 8, 3


class Moves(NamedTuple):
    """As if no label were true of any text."""

    loss: Float[Tensor, ""]
    slopes: Float[Tensor, "batch width"]  # of a text that counts 1; 0 after the last label
    bias: Float[Tensor, "labels"]


def room_for(labels: int) -> int:
    """How wide slopes are: whole tiles, and at least one place after the last label."""
    return (labels // _LABELS + 1) * _LABELS


def moves_plainly(
    vectors: Float[Tensor, "batch dim"],
    weight: Float[Tensor, "labels dim"],
    bias: Float[Tensor, "labels"],
    share: Float[Tensor, "batch"],
) -> Moves:
    """The twin."""
    scores = functional.linear(vectors, weight.float(), bias)
    slopes = functional.pad(scores.sigmoid(), (0, room_for(len(weight)) - len(weight)))
    return Moves(share @ functional.softplus(scores).sum(1), slopes, share @ scores.sigmoid())


def moves(
    vectors: Float[Tensor, "batch dim"],
    weight: Float[Tensor, "labels dim"],
    bias: Float[Tensor, "labels"],
    share: Float[Tensor, "batch"],
    *,
    precise: bool = False,
) -> Moves:
    """The same in one pass over the rows; products in TF32 or halves, as the rows are, or in full where `precise`."""
    (batch, dim), labels = vectors.shape, len(weight)
    assert all(part.is_contiguous() for part in (vectors, weight, bias, share))
    kind, width = torch.float32 if precise else torch.bfloat16, room_for(labels)
    text_tiles, label_tiles = -(-batch // _TEXTS), width // _LABELS
    slopes = torch.empty((batch, width), dtype=kind, device=vectors.device)
    losses = torch.empty((text_tiles * label_tiles,), device=vectors.device)
    by_bias = torch.zeros_like(bias, dtype=torch.float32)
    _moves_kernel()[(text_tiles * label_tiles,)](
        *(vectors.to(weight.dtype), weight, bias, share, slopes, losses, by_bias, batch, labels, text_tiles, width),
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
    return Moves(losses.sum(), slopes, by_bias)


def pull_plainly(
    slopes: Float[Tensor, "batch width"], weight: Float[Tensor, "labels dim"]
) -> Float[Tensor, "batch dim"]:
    """The twin: what the rows make of how scores should move."""
    return slopes[:, : len(weight)].float() @ weight.float()


def pull(
    slopes: Float[Tensor, "batch width"], weight: Float[Tensor, "labels dim"], *, precise: bool = False
) -> Float[Tensor, "batch dim"]:
    (batch, width), (labels, dim) = slopes.shape, weight.shape
    assert all(part.is_contiguous() for part in (slopes, weight))
    out = torch.zeros((batch, dim), device=slopes.device)
    text_tiles, dim_tiles = -(-batch // _PULLED), -(-dim // _WIDTH)
    _pull_kernel()[(text_tiles, dim_tiles, _PARTS)](
        *(slopes, weight, out, batch, labels, width, -(-width // (_PARTS * _STEP))),
        DIM=dim,
        TEXTS=_PULLED,
        WIDTH=_WIDTH,
        STEP=_STEP,
        HALF=not precise,
        num_warps=_PULL_WARPS,
        num_stages=_PULL_STAGES,
    )
    return out


@cache
def _moves_kernel() -> Any:
    import triton
    from triton import language as tl

    @triton.jit(do_not_specialize=("batch", "text_tiles"))  # type: ignore[untyped-decorator]
    def move(  # type: ignore[no-untyped-def]
        vectors,
        weight,
        bias,
        share,
        slopes,
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
            label_there[None, :], tl.load(share + text, mask=text_there, other=0.0)[:, None], tl.zeros_like(z)
        )
        e = tl.exp(-tl.abs(z))
        loss = counted * (tl.maximum(z, 0.0) + tl.log(1.0 + e))
        sigmoid = tl.where(label_there[None, :], tl.where(z >= 0, 1.0, e) / (1.0 + e), 0.0)
        at = text.to(tl.int64)[:, None] * width + label[None, :]
        tl.store(slopes + at, sigmoid.to(slopes.dtype.element_ty), mask=text_there[:, None])
        tl.store(losses + tl.program_id(0), tl.sum(loss))
        tl.atomic_add(by_bias + label, tl.sum(counted * sigmoid, 0), mask=label_there, sem="relaxed")

    return move


@cache
def _pull_kernel() -> Any:
    import triton
    from triton import language as tl

    @triton.jit(do_not_specialize=("batch", "part"))  # type: ignore[untyped-decorator]
    def pull(  # type: ignore[no-untyped-def]
        slopes,
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
            slope_at = text.to(tl.int64)[:, None] * width + label[None, :]
            slope = tl.load(slopes + slope_at, mask=text_there[:, None] & (label < width)[None, :], other=0.0)
            w_at = label.to(tl.int64)[:, None] * DIM + column[None, :]
            w = tl.load(weight + w_at, mask=(label < labels)[:, None] & column_there[None, :], other=0.0)
            if HALF:
                total = tl.dot(slope, w.to(tl.bfloat16), total)
            else:
                total = tl.dot(slope, w.to(tl.float32), total, input_precision="ieee")
        at = text[:, None] * DIM + column[None, :]
        tl.atomic_add(out + at, total, mask=text_there[:, None] & column_there[None, :], sem="relaxed")

    return pull
