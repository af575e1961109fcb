"""Labels in the order of a balanced binary tree, whose leaves are the clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from laconic.errors import ConfigError, ModelError
from laconic.units import counted


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelTree:
    """Labels in the order of a balanced binary tree, whose leaves are the clusters.

    Node i of level l holds clusters i·2^(b−l) up to (i+1)·2^(b−l), where there are 2^b clusters.
    """

    order: Int[Tensor, "labels"]  # label numbers, cluster by cluster
    starts: Int[Tensor, "bounds"]  # where each cluster begins in `order`, and where the last one ends

    @property
    def num_clusters(self) -> int:
        return len(self.starts) - 1

    @property
    def size(self) -> int:
        """Return the size of the largest cluster; in a new tree none has fewer than one less."""
        return int(self.starts.diff().max())

    def places(self) -> Int[Tensor, "labels"]:
        """Return for every label its position in `order`: its number when labels are renumbered by the tree."""
        return self.order.argsort()

    def cluster_of(self) -> Int[Tensor, "labels"]:
        return torch.repeat_interleave(self.starts.diff())[self.places()]

    def check(self) -> None:
        """Refuse anything but a tree of all labels: loops follow the numbers of a model's file.

        Clusters need not be equal, since labels are added and removed later, nor a power of two, since clusters may be
        labels.
        """
        for name, tensor in {"order": self.order, "starts": self.starts}.items():
            if tensor.dtype != torch.int64 or tensor.ndim != 1:
                raise _damaged(f"{name} must be a list of int64, but is {tensor.ndim}-dimensional {tensor.dtype}")
        if not torch.equal(self.order.sort().values, torch.arange(len(self.order), device=self.order.device)):
            raise _damaged("order must name every label once")
        if self.num_clusters < 1:
            raise _damaged("starts must bound a cluster or more")
        inside = self.starts[0] == 0 and self.starts[-1] == len(self.order) and self.starts.min() == 0
        sizes = self.starts.clamp(max=len(self.order)).diff()  # whose difference cannot overflow
        if not (inside and sizes.min() >= 0 and len(self.order)):
            raise _damaged(f"starts must rise from 0 to {len(self.order):,}, the number of labels")


def random_tree(num_labels: int, clusters: int, seed: int) -> LabelTree:
    """Return a balanced tree of labels in random order."""
    check_clusters(clusters, num_labels)
    order = np.random.default_rng(seed).permutation(num_labels)
    return LabelTree(order=torch.from_numpy(order), starts=torch.from_numpy(even_bounds(num_labels, clusters)))


def even_bounds(count: int, parts: int) -> Int[np.ndarray, "bounds"]:
    """Return the bounds of equal parts of 0..count. Every second bound of 2n parts is a bound of n parts."""
    return np.arange(parts + 1, dtype=np.int64) * count // parts


def check_clusters(clusters: int, num_labels: int) -> None:
    if not _is_power_of_two(clusters):
        raise ConfigError(f"clusters must be a power of two, but is {clusters}")
    if clusters > num_labels:
        raise ConfigError(f"clusters must be at most the {counted(num_labels, 'label')}, but is {clusters:,}")


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _damaged(problem: str) -> ModelError:
    return ModelError(f"the model's tree of labels is damaged: {problem}; fetch it again")
