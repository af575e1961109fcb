"""Parts of Astec that its paper's ablations vary: surrogate groups, the transfer layer and the kind of negatives."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from scipy.sparse import csr_array
from torch import Tensor, nn

from laconic.data.dataset import Dataset
from laconic.models.clustering import LabelTree
from laconic.models.clustering.groups import frequent_labels, of_tree, random_buckets
from laconic.models.layers import Transfer

# The first of each is Astec's own.
GROUPS = ("clusters", "frequent", "random", "none")
TRANSFERS = ("residual", "unbounded", "full", "none")
NEGATIVES = ("shortlist", "uniform", "unigram")


def surrogate_groups(
    kind: str, count: int, seed: int, make_tree: Callable[[Dataset, int], LabelTree]
) -> Callable[[Dataset], csr_array] | None:
    """Return what makes the surrogate task's groups of labels; None: there is no such task."""
    kinds: dict[str, Callable[[Dataset], csr_array] | None] = {
        "clusters": lambda data: of_tree(make_tree(data, count)),
        "frequent": lambda data: frequent_labels(data, count),
        "random": lambda data: random_buckets(data.num_labels, count, seed),
        "none": None,
    }
    return kinds[kind]


def transfer_layer(kind: str, dim: int, dropout: float) -> nn.Module:
    """Return the layer between encoder and classifier: residual (bounded or not), without a skip, or none."""
    if kind == "none":
        return nn.Identity()
    return Transfer(dim, dropout=dropout, bounded=kind == "residual", skip=kind != "full")


def negative_frequencies(kind: str, data: Dataset) -> Float[Tensor, "labels"] | None:
    """Return how often each label is drawn as a random negative; None: all are equally likely."""
    return torch.from_numpy(data.label_counts**0.75) if kind == "unigram" else None
