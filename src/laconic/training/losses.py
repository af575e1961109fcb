"""The losses, with their gradients. NO_LABEL among the positives is ignored.

On a GPU the gradient of rows that are parameters is stored as factors for the optimiser (`kernels.factors`) in the
forward pass. It is the gradient of the loss itself: scaling the loss afterwards does not scale it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from laconic.kernels.shortlist_cpu import shortlist_gradients_cpu
from laconic.kernels.triton import HAS_KERNELS
from laconic.kernels.triton.all_labels import all_negative_loss, input_gradients
from laconic.kernels.triton.factors import AllLabelFactors, Factors, leave
from laconic.kernels.triton.row_update import multiply_out
from laconic.kernels.triton.shortlist import (
    Shortlist,
    ShortlistTargets,
    shortlist_gradients,
    shortlist_gradients_reference,
)
from laconic.types import NO_LABEL, Batch


def all_labels_loss(
    vectors: Float[Tensor, "batch dim"],
    weight: Float[Tensor, "labels dim"],
    bias: Float[Tensor, "labels"],
    batch: Batch,
    *,
    chunk: int,
    precision: torch.dtype = torch.float32,
    over: int = 0,
) -> Float[Tensor, ""]:
    """Return the mean binary cross-entropy of every text with every label: its sum / (batch × labels).

    `over` is the number of labels to divide by, where these are a part of them; 0: of these labels.

    The gradient is σ(z) − y. On a GPU scores are never stored, and their gradients are, in half precision; on a CPU
    labels are processed in chunks, forward and again backward. `precision` is that of the products there; sums and the
    loss are in float32.
    """
    text_weights, wanted = _text_weights(batch, vectors, over or len(weight)), _targets(batch, vectors)
    loss: Tensor
    if _by_kernels(vectors):
        loss = _EveryLabelCrossEntropy.apply(vectors, weight, bias, batch.positives, wanted, text_weights)  # type: ignore[no-untyped-call]
    else:
        loss = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            vectors, weight, bias, batch.positives, wanted, text_weights, chunk, precision
        )
    return loss


@torch.no_grad()
def weigh_positives(
    batch: Batch,
    scores: Float[Tensor, "batch p"],
    pair_weights: Float[Tensor, "batch p"],
    *,
    over: int,
) -> tuple[Batch, Float[Tensor, ""]]:
    """Return a batch whose loss has the gradient of one with weighted positives, and what its value lacks.

    The gradient of a positive with target y and weight w is w (σ(z) − y). It is that of a pair with the weight 1 whose
    target is σ(z) + w (y − σ(z)), so that no loss has to know of weights. `scores` are the positives' own.
    """
    targets, predicted = _targets(batch, scores), scores.sigmoid()
    moved = torch.where(batch.positives == NO_LABEL, 0.0, predicted + pair_weights * (targets - predicted))
    plain = functional.softplus(scores)
    lacking = pair_weights * (plain - targets * scores) - (plain - moved * scores)
    lacking = lacking.masked_fill(batch.positives == NO_LABEL, 0.0).sum(1)
    return batch._replace(targets=moved), _text_weights(batch, scores, over) @ lacking


def shortlist_loss(
    vectors: Float[Tensor, "batch dim"],
    weight: Float[Tensor, "labels dim"],
    bias: Float[Tensor, "labels"] | None,
    batch: Batch,
    shortlist: Shortlist,
    *,
    over: int,
) -> Float[Tensor, ""]:
    """Return the binary cross-entropy of every text with the labels of its picked clusters: its sum / (batch × `over`).

    The clusters of a text's positives must be among its picks.
    """
    text_weights = _text_weights(batch, vectors, over)
    wanted = ShortlistTargets(batch.positives, _targets(batch, vectors), text_weights)
    loss: Tensor = _ShortlistCrossEntropy.apply(vectors, weight, bias, shortlist, wanted)  # type: ignore[no-untyped-call]
    return loss


def _by_kernels(vectors: Float[Tensor, "batch dim"]) -> bool:
    return vectors.is_cuda and HAS_KERNELS


def _targets(batch: Batch, vectors: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch p"]:
    """Return the target of each positive; that of NO_LABEL is 0."""
    return ((batch.positives != NO_LABEL) * (1.0 if batch.targets is None else batch.targets)).to(vectors.dtype)


def _text_weights(batch: Batch, vectors: Float[Tensor, "batch dim"], scores: int) -> Float[Tensor, "batch"]:
    """Return the weight of a text's scores in a mean over `scores` per text."""
    text_weights = torch.full_like(vectors[:, 0], 1 / (vectors.shape[0] * scores))
    return text_weights if batch.weights is None else text_weights * batch.weights


class _KeptGradients(torch.autograd.Function):
    """A loss whose forward pass has found the gradients of vectors, rows and biases too, so that rows are read once."""

    @staticmethod
    def keep(ctx: Any, weight: Tensor, by_vectors: Tensor, by_weight: Tensor | Factors, by_bias: Tensor | None) -> None:
        ctx.rows, ctx.found = len(weight), (by_vectors, _leave_factors(by_weight, weight), by_bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradient: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:
        by_vectors, by_weight, by_bias = ctx.found
        del ctx.found  # scaled in place: a second backward pass must not find them
        by_bias = None if by_bias is None else by_bias.mul_(loss_gradient)
        own = by_vectors.mul_(loss_gradient), _row_gradients(by_weight, ctx.rows, loss_gradient), by_bias
        return own + (None,) * (len(ctx.needs_input_grad) - len(own))


class _ShortlistCrossEntropy(_KeptGradients):
    @staticmethod
    def forward(
        ctx: Any,
        vectors: Float[Tensor, "batch dim"],
        weight: Float[Tensor, "labels dim"],
        bias: Float[Tensor, "labels"] | None,
        shortlist: Shortlist,
        wanted: ShortlistTargets,
    ) -> Float[Tensor, ""]:
        reference = shortlist_gradients_reference if vectors.is_cuda else shortlist_gradients_cpu
        found = (shortlist_gradients if _by_kernels(vectors) else reference)(vectors, weight, bias, shortlist, wanted)
        _KeptGradients.keep(ctx, weight, found.vectors, found.weight, found.bias)
        return found.loss


class _EveryLabelCrossEntropy(_KeptGradients):
    @staticmethod
    def forward(
        ctx: Any,
        vectors: Float[Tensor, "batch dim"],
        weight: Float[Tensor, "labels dim"],
        bias: Float[Tensor, "labels"],
        positives: Int[Tensor, "batch p"],
        wanted: Float[Tensor, "batch p"],
        text_weights: Float[Tensor, "batch"],
    ) -> Float[Tensor, ""]:
        loss, logit_gradients, by_bias = all_negative_loss(vectors, weight, bias, text_weights)
        # The few positives are scored again in float32: rounding harms large gradients most.
        true = positives.clamp(min=0)
        scores = (weight[true].float() @ vectors[:, :, None])[:, :, 0] + bias[true]
        nowhere = torch.full_like(positives, len(weight))
        place = torch.where(positives == NO_LABEL, nowhere, positives)
        logit_gradients.scatter_(1, place, (scores.sigmoid() - wanted).to(logit_gradients.dtype))
        by_bias.index_add_(0, true.flatten(), (-wanted * text_weights[:, None]).flatten())
        by_vectors = input_gradients(logit_gradients, weight) * text_weights[:, None]
        factors = AllLabelFactors(logit_gradients, vectors * text_weights[:, None])
        _KeptGradients.keep(ctx, weight, by_vectors, factors, by_bias)
        return loss - text_weights @ (wanted * scores).sum(1)


def _leave_factors(found: Tensor | Factors, rows: Float[Tensor, "labels dim"]) -> Tensor | Factors | None:
    """Store factors of a parameter's gradient for the optimiser and return None; return other gradients."""
    if isinstance(found, Tensor) or not rows.is_leaf:
        return found
    leave(rows, found)
    return None


def _row_gradients(found: Tensor | Factors | None, rows: int, loss_gradient: Float[Tensor, ""]) -> Tensor | None:
    """Return the rows' gradient, with factors multiplied out for rows that are no parameter."""
    if found is None or isinstance(found, Tensor):
        return None if found is None else found.mul_(loss_gradient)
    return multiply_out(found._replace(vectors=found.vectors * loss_gradient), rows)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        vectors: Float[Tensor, "batch dim"],
        weight: Float[Tensor, "labels dim"],
        bias: Float[Tensor, "labels"],
        positives: Int[Tensor, "batch p"],
        wanted: Float[Tensor, "batch p"],
        text_weights: Float[Tensor, "batch"],
        chunk: int,
        precision: torch.dtype,
    ) -> Float[Tensor, ""]:
        ctx.save_for_backward(vectors, weight, bias, positives, wanted, text_weights)
        ctx.chunk, ctx.precision = chunk, precision
        by_text = torch.zeros_like(text_weights)
        inputs = vectors.to(precision)
        for labels in _chunks(len(weight), chunk):
            scores = _scores(inputs, weight[labels], bias[labels])
            place, there = _within(labels, positives, wanted)
            by_text += functional.softplus(scores).sum(1) - (scores.gather(1, place) * there).sum(1)
        return by_text @ text_weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradient: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:
        vectors, weight, bias, positives, wanted, text_weights = ctx.saved_tensors
        # Each text's weight scales its row of the gradient; it is cheaper to scale what that row is multiplied with.
        text_weights = text_weights * loss_gradient
        inputs, scaled = vectors.to(ctx.precision), (vectors * text_weights[:, None]).to(ctx.precision)
        by_vectors, by_weight, by_bias = torch.zeros_like(vectors), torch.empty_like(weight), torch.empty_like(bias)
        for labels in _chunks(len(weight), ctx.chunk):
            place, there = _within(labels, positives, wanted)
            logit_gradients = _scores(inputs, weight[labels], bias[labels]).sigmoid_().scatter_add_(1, place, -there)
            by_bias[labels] = text_weights @ logit_gradients
            logit_gradients = logit_gradients.to(ctx.precision)
            by_vectors += logit_gradients @ weight[labels].to(ctx.precision)
            if ctx.precision == weight.dtype:
                torch.mm(logit_gradients.T, scaled, out=by_weight[labels])
            else:
                by_weight[labels] = logit_gradients.T @ scaled
        return by_vectors * text_weights[:, None], by_weight, by_bias, None, None, None, None, None


def _chunks(num_labels: int, chunk: int) -> Iterator[slice]:
    for first in range(0, num_labels, chunk):
        yield slice(first, min(first + chunk, num_labels))


def _scores(
    inputs: Float[Tensor, "batch dim"], rows: Float[Tensor, "n dim"], biases: Float[Tensor, "n"]
) -> Float[Tensor, "batch n"]:
    return functional.linear(inputs, rows.to(inputs.dtype), biases.to(inputs.dtype)).float()


def _within(
    labels: slice, positives: Int[Tensor, "batch p"], wanted: Float[Tensor, "batch p"]
) -> tuple[Int[Tensor, "batch p"], Float[Tensor, "batch p"]]:
    """Return the positions of positives in a chunk of labels, and their targets: 0 for those outside the chunk."""
    place = positives - labels.start
    inside = (place >= 0) & (place < labels.stop - labels.start)
    return place.clamp(0, labels.stop - labels.start - 1), wanted * inside
