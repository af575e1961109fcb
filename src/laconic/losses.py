"""The losses, with their gradients. NO_LABEL among the positives counts for nothing."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from laconic.types import NO_LABEL, Batch


def all_labels_loss(
    vectors: Float[Tensor, "batch dim"],
    weight: Float[Tensor, "labels dim"],
    bias: Float[Tensor, "labels"],
    batch: Batch,
    *,
    chunk: int,
    precision: torch.dtype = torch.float32,
) -> Float[Tensor, ""]:
    """Binary cross-entropy of every text with every label, as a mean.

    Labels are taken a chunk at a time and the gradient σ(z) − y is formed beside each chunk's scores, so that
    batch × labels is never held. `precision` is that of the products; sums and the loss are in float32.
    """
    wanted = (batch.positives != NO_LABEL) * (1.0 if batch.targets is None else batch.targets)
    share = torch.full_like(vectors[:, :1], 1 / (vectors.shape[0] * weight.shape[0]))
    if batch.weights is not None:
        share = share * batch.weights[:, None]
    loss: Tensor = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        vectors, weight, bias, batch.positives, wanted.to(vectors.dtype), share, chunk, precision
    )
    return loss


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        vectors: Float[Tensor, "batch dim"],
        weight: Float[Tensor, "labels dim"],
        bias: Float[Tensor, "labels"],
        positives: Int[Tensor, "batch p"],
        wanted: Float[Tensor, "batch p"],
        share: Float[Tensor, "batch 1"],
        chunk: int,
        precision: torch.dtype,
    ) -> Float[Tensor, ""]:
        loss = vectors.new_zeros(())
        by_vectors, by_weight, by_bias = torch.zeros_like(vectors), torch.empty_like(weight), torch.empty_like(bias)
        inputs = vectors.to(precision)
        for first in range(0, weight.shape[0], chunk):
            labels = slice(first, min(first + chunk, weight.shape[0]))
            rows = weight[labels].to(precision)
            scores = functional.linear(inputs, rows, bias[labels].to(precision)).to(vectors.dtype)
            # A positive of another chunk adds 0 at some place of this one.
            place = positives - first
            there = wanted * ((place >= 0) & (place < scores.shape[1]))
            place = place.clamp(0, scores.shape[1] - 1)
            loss += (functional.softplus(scores) * share).sum() - (scores.gather(1, place) * there * share).sum()
            slope = scores.sigmoid_().scatter_add_(1, place, -there).mul_(share)
            torch.sum(slope, 0, out=by_bias[labels])
            slope = slope.to(precision)
            by_vectors += slope @ rows
            by_weight[labels] = slope.T @ inputs
        ctx.save_for_backward(by_vectors, by_weight, by_bias)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:
        by_vectors, by_weight, by_bias = ctx.saved_tensors
        return by_vectors * slope, by_weight.mul_(slope), by_bias * slope, None, None, None, None, None
