"""Trees of labels with many children a node, out of balanced binary ones of which only some levels are taken."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from laconic.data.dataset import Dataset
from laconic.models.clustering import Clustering, cluster_labels


class Level(NamedTuple):
    """The nodes of one depth: each child belongs to one of them. A child is a node of the next level, or a label."""

    child_of: Int[np.ndarray, "labels"]  # under which child each label is
    node_of: Int[np.ndarray, "children"]  # whose child each is, in order


def grown(data: Dataset, *, fan_out: int, leaf: int, seed: int) -> list[Level]:
    """The levels of a tree, from the root on; the children of the last level are labels."""
    bits = max(0, -(-data.num_labels // leaf) - 1).bit_length()
    bits = min(bits, data.num_labels.bit_length() - 1)
    tree = cluster_labels(data, 1 << bits, Clustering(), seed)
    depths = _depths(bits, fan_out.bit_length() - 1)
    cluster, places = tree.cluster_of().numpy(), tree.places().numpy()
    levels = [
        Level(cluster >> (bits - depth), np.arange(1 << depth) >> (depth - above)) for above, depth in pairwise(depths)
    ]
    return [*levels, Level(places, np.repeat(np.arange(1 << bits), np.diff(tree.starts.numpy())))]


def _depths(bits: int, most: int) -> list[int]:
    """At which depths of a binary tree there are nodes, so that none is more than `most` below the last."""
    steps = -(-bits // most)
    return [0, *(bits * step // steps for step in range(1, steps + 1))]
