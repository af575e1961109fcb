"""Scores, loss and gradients of shortlists on a CPU: each thread has some clusters and reads every row once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import exp, log1p

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from laconic.kernels.jit import compiled, compiled_in_any_order
from laconic.kernels.triton.shortlist import Gradients, Shortlist, ShortlistTargets, by_cluster


def shortlist_gradients_cpu(
    vectors: Float[Tensor, "batch dim"],
    weight: Float[Tensor, "labels dim"],
    bias: Float[Tensor, "labels"] | None,
    shortlist: Shortlist,
    wanted: ShortlistTargets,
) -> Gradients:
    """Compute loss and gradients on torch's number of threads; vector gradients are summed in thread order."""
    threads, clusters = torch.get_num_threads(), len(shortlist.starts) - 1
    picked = tuple(part.numpy() for part in by_cluster(shortlist, wanted))
    by_weight, by_bias = torch.empty_like(weight), weight.new_zeros(len(weight))
    by_vectors, losses = vectors.new_zeros(threads, *vectors.shape), np.zeros(threads)
    biases = by_bias if bias is None else bias
    fixed = tuple(part.detach().numpy() for part in (vectors, weight, biases, shortlist.starts, wanted.text_weights))
    parts = [(clusters * i // threads, clusters * (i + 1) // threads) for i in range(threads)]

    def work(i: int) -> None:
        gradients = by_vectors[i].numpy(), by_weight.numpy(), by_bias.numpy() if bias is not None else np.zeros(0, "f4")
        losses[i] = _visit(*parts[i], *fixed, *picked, *gradients)  # type: ignore[call-arg]  # it cannot count them

    if threads == 1:
        work(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
    loss = torch.tensor(losses.sum(), dtype=vectors.dtype)
    return Gradients(loss, by_vectors.sum(0), by_weight, None if bias is None else by_bias)


@compiled
def _visit(  # type: ignore[no-untyped-def]
    first,
    last,
    vectors,
    weight,
    bias,
    starts,
    text_weights,
    texts,
    bounds,
    positives,
    positive_texts,
    targets,
    positive_bounds,
    by_vectors,
    by_weight,
    by_bias,
):
    total = 0.0
    for cluster in range(first, last):
        for row in range(starts[cluster], starts[cluster + 1]):
            by_weight[row] = 0
            for pick in range(bounds[cluster], bounds[cluster + 1]):
                text, target = texts[pick], np.float32(0)
                for positive in range(positive_bounds[cluster], positive_bounds[cluster + 1]):
                    if positives[positive] == row and positive_texts[positive] == text:
                        target += targets[positive]
                score = _dot(vectors[text], weight[row]) + bias[row]
                small = exp(-abs(score))
                total += text_weights[text] * (max(score, 0.0) + log1p(small) - target * score)
                sigmoid = (1.0 if score >= 0 else small) / (1.0 + small)
                gradient = np.float32(text_weights[text] * (sigmoid - target))
                _add(gradient, vectors[text], by_weight[row])
                _add(gradient, weight[row], by_vectors[text])
                if len(by_bias):
                    by_bias[row] += gradient
    return total


@compiled_in_any_order
def _dot(one, other):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for i in range(one.shape[0]):
        total += one[i] * other[i]
    return total


@compiled
def _add(factor, one, total):  # type: ignore[no-untyped-def]
    for i in range(one.shape[0]):
        total[i] += factor * one[i]
