"""The losses, with their gradients. NO_LABEL among the positives counts for nothing.

On a GPU the gradient of rows that are learnt themselves is left to the optimiser as factors (`kernels.factors`), as
soon as the loss is known. It is that of the loss itself: whoever scales a loss afterwards does not scale it there.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from laconic.kernels.shortlist_cpu import shortlist_gradients_cpu
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
) -> Float[Tensor, ""]:
    """Binary cross-entropy of every text with every label, as a mean.

    The gradient is σ(z) − y. On a GPU the scores are never held, and how they should move is, in half precision; on a
    CPU labels are taken a chunk at a time, forward and again backward. `precision` is that of the products there; sums
    and the loss are in float32.
    """
    share, wanted = _share(batch, vectors, weight.shape[0]), _targets(batch, vectors)
    loss: Tensor
    if _by_kernels(vectors):
        loss = _EveryLabelCrossEntropy.apply(vectors, weight, bias, batch.positives, wanted, share)  # type: ignore[no-untyped-call]
    else:
        loss = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            vectors, weight, bias, batch.positives, wanted, share, chunk, precision
        )
    return loss


def shortlist_loss(
    vectors: Float[Tensor, "batch dim"],
    weight: Float[Tensor, "labels dim"],
    bias: Float[Tensor, "labels"] | None,
    batch: Batch,
    shortlist: Shortlist,
    *,
    over: int,
) -> Float[Tensor, ""]:
    """Binary cross-entropy of every text with the labels of its picked clusters: its sum over batch × `over`.

    The clusters of a text's positives must be among its picks.
    """
    share = _share(batch, vectors, over)
    wanted = ShortlistTargets(batch.positives, _targets(batch, vectors), share)
    loss: Tensor = _ShortlistCrossEntropy.apply(vectors, weight, bias, shortlist, wanted)  # type: ignore[no-untyped-call]
    return loss


def _by_kernels(vectors: Float[Tensor, "batch dim"]) -> bool:
    return vectors.is_cuda and find_spec("triton") is not None


def _targets(batch: Batch, vectors: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch p"]:
    """How true each positive is; NO_LABEL is not at all."""
    return ((batch.positives != NO_LABEL) * (1.0 if batch.targets is None else batch.targets)).to(vectors.dtype)


def _share(batch: Batch, vectors: Float[Tensor, "batch dim"], scores: int) -> Float[Tensor, "batch"]:
    """What each of a text's scores counts in a mean over all of them."""
    share = torch.full_like(vectors[:, 0], 1 / (vectors.shape[0] * scores))
    return share if batch.weights is None else share * batch.weights


class _ShortlistCrossEntropy(torch.autograd.Function):
    """The slopes come with the loss, so that the rows are read once."""

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Float[Tensor, "batch dim"],
        weight: Float[Tensor, "labels dim"],
        bias: Float[Tensor, "labels"] | None,
        shortlist: Shortlist,
        wanted: ShortlistTargets,
    ) -> Float[Tensor, ""]:
        plainly = shortlist_gradients_reference if vectors.is_cuda else shortlist_gradients_cpu
        found = (shortlist_gradients if _by_kernels(vectors) else plainly)(vectors, weight, bias, shortlist, wanted)
        ctx.rows, ctx.found = len(weight), (found.vectors, _left(found.weight, weight), found.bias)
        return found.loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:
        by_vectors, by_weight, by_bias = ctx.found
        del ctx.found  # they are used up: a second backward pass would find them scaled
        by_bias = None if by_bias is None else by_bias.mul_(slope)
        return by_vectors.mul_(slope), _of_rows(by_weight, ctx.rows, slope), by_bias, None, None


class _EveryLabelCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        vectors: Float[Tensor, "batch dim"],
        weight: Float[Tensor, "labels dim"],
        bias: Float[Tensor, "labels"],
        positives: Int[Tensor, "batch p"],
        wanted: Float[Tensor, "batch p"],
        share: Float[Tensor, "batch"],
    ) -> Float[Tensor, ""]:
        loss, slopes, by_bias = all_negative_loss(vectors, weight, bias, share)
        # What is true is little: it is scored once more, and in full, because a large slope is what rounding spoils.
        true = positives.clamp(min=0)
        scores = (weight[true].float() @ vectors[:, :, None])[:, :, 0] + bias[true]
        nowhere = torch.full_like(positives, len(weight))
        place = torch.where(positives == NO_LABEL, nowhere, positives)
        slopes.scatter_(1, place, (scores.sigmoid() - wanted).to(slopes.dtype))
        by_bias.index_add_(0, true.flatten(), (-wanted * share[:, None]).flatten())
        by_vectors = input_gradients(slopes, weight) * share[:, None]
        factors = AllLabelFactors(slopes, vectors * share[:, None])
        ctx.rows, ctx.found = len(weight), (by_vectors, _left(factors, weight), by_bias)
        return loss - share @ (wanted * scores).sum(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:
        by_vectors, factors, by_bias = ctx.found
        del ctx.found
        return by_vectors.mul_(slope), _of_rows(factors, ctx.rows, slope), by_bias.mul_(slope), None, None, None


def _left(found: Tensor | Factors, rows: Float[Tensor, "labels dim"]) -> Tensor | Factors | None:
    """What is not left to the optimiser: it takes factors of rows that are a parameter."""
    if isinstance(found, Tensor) or not rows.is_leaf:
        return found
    leave(rows, found)
    return None


def _of_rows(found: Tensor | Factors | None, rows: int, slope: Float[Tensor, ""]) -> Tensor | None:
    """The rows' gradient. Whoever made the rows needs it multiplied out."""
    if found is None or isinstance(found, Tensor):
        return None if found is None else found.mul_(slope)
    return multiply_out(found._replace(vectors=found.vectors * slope), rows)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        vectors: Float[Tensor, "batch dim"],
        weight: Float[Tensor, "labels dim"],
        bias: Float[Tensor, "labels"],
        positives: Int[Tensor, "batch p"],
        wanted: Float[Tensor, "batch p"],
        share: Float[Tensor, "batch"],
        chunk: int,
        precision: torch.dtype,
    ) -> Float[Tensor, ""]:
        ctx.save_for_backward(vectors, weight, bias, positives, wanted, share)
        ctx.chunk, ctx.precision = chunk, precision
        by_text = torch.zeros_like(share)
        inputs = vectors.to(precision)
        for labels in _chunks(len(weight), chunk):
            scores = _scores(inputs, weight[labels], bias[labels])
            place, there = _within(labels, positives, wanted)
            by_text += functional.softplus(scores).sum(1) - (scores.gather(1, place) * there).sum(1)
        return by_text @ share

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:
        vectors, weight, bias, positives, wanted, share = ctx.saved_tensors
        # Each text's share scales its row of the gradient; it is cheaper to scale what that row is multiplied with.
        share = share * slope
        inputs, scaled = vectors.to(ctx.precision), (vectors * share[:, None]).to(ctx.precision)
        by_vectors, by_weight, by_bias = torch.zeros_like(vectors), torch.empty_like(weight), torch.empty_like(bias)
        for labels in _chunks(len(weight), ctx.chunk):
            place, there = _within(labels, positives, wanted)
            slopes = _scores(inputs, weight[labels], bias[labels]).sigmoid_().scatter_add_(1, place, -there)
            by_bias[labels] = share @ slopes
            slopes = slopes.to(ctx.precision)
            by_vectors += slopes @ weight[labels].to(ctx.precision)
            if ctx.precision == weight.dtype:
                torch.mm(slopes.T, scaled, out=by_weight[labels])
            else:
                by_weight[labels] = slopes.T @ scaled
        return by_vectors * share[:, None], by_weight, by_bias, None, None, None, None, None


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
    """Where the positives stand among a chunk's labels; one that is not there wants 0 at some place of the chunk."""
    place = positives - labels.start
    inside = (place >= 0) & (place < labels.stop - labels.start)
    return place.clamp(0, labels.stop - labels.start - 1), wanted * inside
