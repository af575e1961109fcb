"""Reference implementations, in torch's own operations, of kernels that have none in the package."""

import torch
from torch.nn import functional

from laconic.kernels.triton.adam import adam_reference, adam_rows_reference
from laconic.kernels.triton.all_labels import AllNegativeLoss, padded_width
from laconic.kernels.triton.factors import AllLabelFactors
from laconic.kernels.triton.shortlist import members
from laconic.types import NO_LABEL


def all_negative_loss_reference(vectors, weight, bias, text_weights):
    scores = functional.linear(vectors, weight.float(), bias)
    logit_gradients = functional.pad(scores.sigmoid(), (0, padded_width(len(weight)) - len(weight)))
    return AllNegativeLoss(
        text_weights @ functional.softplus(scores).sum(1), logit_gradients, text_weights @ scores.sigmoid()
    )


def input_gradients_reference(logit_gradients, weight):
    """Backpropagate logit gradients to the vectors."""
    return logit_gradients[:, : len(weight)].float() @ weight.float()


def dense(factors, rows):
    """Multiply the factors of a gradient out; those of a shortlist pick by pick."""
    if isinstance(factors, AllLabelFactors):
        return factors.logit_gradients[:, :rows].to(factors.vectors.dtype).T @ factors.vectors
    clusters = torch.repeat_interleave(factors.bounds.diff())  # picks of no cluster at all come last
    first = factors.starts[clusters][:, None]
    labels = first + torch.arange(factors.logit_gradients.shape[1], device=first.device)
    there = labels < factors.starts[clusters + 1][:, None]
    logit_gradients = torch.where(there, factors.logit_gradients[: len(clusters)], 0)
    products = logit_gradients[:, :, None] * factors.vectors[factors.texts[: len(clusters)]][:, None]
    found = factors.vectors.new_zeros(rows, factors.vectors.shape[1])
    return found.index_add_(0, torch.where(there, labels, 0).flatten(), products.flatten(0, 1))


def update_rows_reference(weight, mean, square, factors, clock, *, lazy=False):
    """Multiply the gradient out, then update in torch."""
    gradient = dense(factors, len(weight)).to(weight.dtype)
    if mean is None:
        _adagrad_reference(weight, gradient, square, clock)
    else:
        (adam_rows_reference if lazy else adam_reference)(weight, gradient, mean, square, clock)


def _adagrad_reference(weight, gradient, square, clock):
    """Update by Adagrad with one number per row: the sum over steps of its mean squared gradient."""
    rate, eps, go = clock[0], clock[3], clock[6]
    square += go * gradient.square().mean(1)
    weight -= go * rate * gradient / (square.sqrt() + eps)[:, None]


def convolved_reference(h, windows, weight, bias):
    """Copy every window, multiply in double precision."""
    seen = h[:, windows.places(h.shape[1]).to(h.device)].flatten(2).double()
    return functional.gelu(seen @ weight.double().T + bias.double()).float()


def group_maxima_reference(vectors, rows, group):
    """Score all labels in full, with float32 sums: rounded to bfloat16, many labels' scores would be equal."""
    if vectors.is_cuda and vectors.dtype != torch.float32:
        scores = torch.mm(vectors, rows.T, out_dtype=torch.float32)
    else:
        scores = vectors.float() @ rows.float().T
    return torch.unflatten(scores, 1, (-1, group)).amax(2)


def shortlist_scores_reference(vectors, weight, bias, shortlist):
    """Copy the rows of every text's picked clusters, and score them."""
    labels = members(*shortlist)
    chosen = labels.clamp(min=0)
    scores = (weight[chosen] @ vectors[:, :, None])[:, :, 0]
    if bias is not None:
        scores = scores + bias[chosen]
    return scores.masked_fill(labels == NO_LABEL, -torch.inf)
