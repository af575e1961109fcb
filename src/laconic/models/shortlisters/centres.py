"""Centroids of labels, and further k-means centres for frequent labels."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional

_COSINES = 1 << 26  # that are held at a time


def label_centres(
    units: Float[Tensor, "texts dim"], labels: csr_array, *, more: int, frequent: float, seed: int
) -> tuple[Float[Tensor, "centres dim"], Int[Tensor, "centres"]]:
    """Return a centroid for every label, in order, followed by `more` centres of each frequent one."""
    texts, numbers = labels.nonzero()
    texts, numbers = (torch.from_numpy(part.astype(np.int64)).to(units.device) for part in (texts, numbers))
    sums = units.new_zeros(labels.shape[1], units.shape[1])
    for first in range(0, len(texts), 1 << 20):
        part = slice(first, first + (1 << 20))
        sums.index_add_(0, numbers[part], units[texts[part]])
    centres, owners = [functional.normalize(sums, dim=1)], [torch.arange(labels.shape[1], device=units.device)]
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    for label in np.flatnonzero(counts >= max(frequent * labels.shape[0], 2)) if more else ():
        own = units[texts[numbers == int(label)]]
        found = k_means(own, min(more, len(own)), seed)
        centres.append(found)
        owners.append(torch.full((len(found),), int(label), device=units.device))
    return torch.cat(centres), torch.cat(owners)


def k_means(units: Float[Tensor, "n dim"], centres: int, seed: int, rounds: int = 50) -> Float[Tensor, "centres dim"]:
    """Find centres of length 1 by cosine; one that loses all its vectors stays where it was."""
    chance = torch.Generator().manual_seed(seed)
    means = units[torch.randperm(len(units), generator=chance)[:centres].to(units.device)]
    for _ in range(rounds):
        sums = torch.zeros_like(means).index_add_(0, nearest_means(units, means), units)
        moved = torch.where(sums.any(1, keepdim=True), functional.normalize(sums, dim=1), means)
        if torch.equal(moved, means):
            break
        means = moved
    return means


def nearest_means(units: Float[Tensor, "n dim"], means: Float[Tensor, "centres dim"]) -> Int[Tensor, "n"]:
    """Return the nearest centre of each vector."""
    rows = max(1, _COSINES // max(1, len(means)))
    return torch.cat([(part @ means.T).argmax(1) for part in torch.split(units, rows)])
