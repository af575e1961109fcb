"""Binary cross-entropy of every text with every label, without ever storing the scores.

Logit gradients are stored, in bfloat16, because the gradients of vectors and of rows both need them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from laconic.kernels.triton.pads import as_wide, with_padding

_LABELS, _FACTORS = 128, 64  # labels of a program, and numbers that are multiplied before their logarithm is taken
_WIDTH, _STEP = 128, 64
_PARTS, _MANY_PARTS = 66, 264  # of the labels, each with programs of its own: many where there are few for each part
_INPUT_TEXTS, _INPUT_WARPS, _INPUT_STAGES = 128, 8, 3


class _Tile(NamedTuple):
    """The texts of a program that scores labels, its warps, steps that are loaded ahead, and registers of a thread."""

    texts: int
    warps: int
    stages: int
    registers: int | None


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
    weight = with_padding(weight)
    batch, (labels, dim) = len(vectors), weight.shape
    vectors = as_wide(vectors.to(weight.dtype), weight)
    assert all(part.is_contiguous() for part in (vectors, weight, bias, text_weights))
    kind, width = torch.float32 if precise else torch.bfloat16, padded_width(labels)
    tile = _tile(batch, weight, precise=precise)
    text_tiles, label_tiles = -(-batch // tile.texts), width // _LABELS
    logit_gradients = torch.empty((batch, width), dtype=kind, device=vectors.device)
    losses = torch.empty((text_tiles * label_tiles,), device=vectors.device)
    by_bias = torch.zeros_like(bias, dtype=torch.float32)
    _kernels().all_negative[(text_tiles * label_tiles,)](
        *(vectors, weight, bias, text_weights, logit_gradients, losses, by_bias),
        *(batch, labels, text_tiles, width),
        DIM=dim,
        TEXTS=tile.texts,
        LABELS=_LABELS,
        FACTORS=_FACTORS,
        DEPTH=128 // weight.element_size(),
        HALF=not precise and weight.dtype == torch.bfloat16,
        PRECISION="ieee" if precise else "tf32",
        num_warps=tile.warps,
        num_stages=tile.stages,
        maxnreg=tile.registers,
    )
    return AllNegativeLoss(losses.sum(), logit_gradients, by_bias)


def input_gradients(
    logit_gradients: Float[Tensor, "batch width"], weight: Float[Tensor, "labels dim"], *, precise: bool = False
) -> Float[Tensor, "batch dim"]:
    """Backpropagate logit gradients to the vectors."""
    numbers, weight = weight.shape[1], with_padding(weight)
    (batch, width), (labels, dim) = logit_gradients.shape, weight.shape
    assert all(part.is_contiguous() for part in (logit_gradients, weight))
    out = torch.zeros((batch, dim), device=logit_gradients.device)
    text_tiles, dim_tiles = -(-batch // _INPUT_TEXTS), -(-dim // _WIDTH)
    parts = _MANY_PARTS if text_tiles * dim_tiles < 4 and width > 8 * _STEP * _MANY_PARTS else _PARTS
    _kernels().backpropagate[(text_tiles, dim_tiles, parts)](
        *(logit_gradients, weight, out, batch, labels, width, -(-width // (parts * _STEP))),
        DIM=dim,
        TEXTS=_INPUT_TEXTS,
        WIDTH=_WIDTH,
        STEP=_STEP,
        HALF=not precise,
        num_warps=_INPUT_WARPS,
        num_stages=_INPUT_STAGES,
    )
    return out[:, :numbers]


def _tile(batch: int, weight: Float[Tensor, "labels dim"], *, precise: bool) -> _Tile:
    """Choose what was fastest on an H200 at 670,091 rows of 480 and 2,812,281 of 300."""
    if precise:
        return _Tile(64, 4, 4, None)
    if weight.shape[1] * weight.element_size() % 16:  # rows that cannot be loaded 16 bytes at a time
        return _Tile(64, 4, 2, 128)
    return _Tile(128, 8, 3, 128) if batch > 64 else _Tile(64, 4, 3, None)


def _kernels() -> Any:
    from laconic.kernels.triton import all_labels_kernels

    return all_labels_kernels
