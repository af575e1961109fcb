"""Groups of labels for a surrogate task: clusters, frequent labels or random buckets, as a sparse matrix."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from scipy.sparse import csr_array

from laconic.data.dataset import Dataset
from laconic.models.clustering.tree import LabelTree


def of_tree(tree: LabelTree) -> csr_array:
    """Make each cluster a group."""
    return partition(tree.cluster_of().numpy(), tree.num_clusters)


def frequent_labels(data: Dataset, count: int) -> csr_array:
    """Make each of the most frequent labels a group; the others are in none."""
    kept = np.argsort(-data.label_counts, kind="stable")[:count]
    return csr_array((np.ones(len(kept), dtype=np.float32), (kept, np.arange(len(kept)))), (data.num_labels, count))


def random_buckets(num_labels: int, count: int, seed: int) -> csr_array:
    return partition(np.random.default_rng(seed).integers(count, size=num_labels), count)


def partition(group_of: Int[np.ndarray, "labels"], count: int) -> csr_array:
    """Put every label in one group."""
    ones, starts = np.ones(len(group_of), dtype=np.float32), np.arange(len(group_of) + 1)
    return csr_array((ones, group_of, starts), shape=(len(group_of), count))
