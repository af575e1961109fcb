"""Whether arrays that came from a file are a forest: compiled loops look at no bounds."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from laconic.kernels.jit import compiled
from laconic.models.label_trees.forest import Forest, ways_of
from laconic.models.label_trees.search import DEEPEST


def is_sound(forest: Forest) -> bool:
    """Whether every tree has every label once, and every number leads to where there is something."""
    return _fits(forest) and _leads(forest) and bool(_weighs(forest))


def _fits(forest: Forest) -> bool:
    """Whether the arrays are as long as one another says."""
    flat = all(array.ndim == 1 for array in (*forest[:-1], *forest.weights))
    return bool(
        flat
        and len(forest.roots)
        and len(forest.child_starts) > 1
        and len(forest.feature_starts) > 0
        and _bounds(forest.child_starts, len(forest.targets))
        and _bounds(forest.feature_starts, len(forest.nodes))
        and len(forest.weights.starts) == len(forest.nodes) + 1
        and _bounds(forest.weights.starts, len(forest.weights.numbers))
        and len(forest.weights.values) == len(forest.weights.numbers)
        and len(forest.biases) == len(forest.targets)
        and np.isfinite(forest.biases).all()
    )


def _leads(forest: Forest) -> bool:
    """Whether each tree is one: its nodes lie together, each but the root is led to once, by one before it."""
    num_nodes, roots = len(forest.child_starts) - 1, forest.roots.astype(np.int64)
    if roots[0] != 0 or (roots[1:] <= roots[:-1]).any() or roots[-1] >= num_nodes:
        return False
    node_of = np.repeat(np.arange(num_nodes), np.diff(forest.child_starts))
    tree_of = np.searchsorted(roots, np.arange(num_nodes), side="right") - 1
    is_node = forest.targets >= 0
    nodes, parents = forest.targets[is_node], node_of[is_node]
    others = np.setdiff1d(np.arange(num_nodes), roots, assume_unique=True)
    if not np.array_equal(np.sort(nodes), others):
        return False
    if (nodes <= parents).any() or (tree_of[nodes] != tree_of[parents]).any():
        return False
    labels, trees = -1 - forest.targets[~is_node].astype(np.int64), tree_of[node_of[~is_node]]
    count, left = divmod(len(labels), len(roots))
    return not left and count > 0 and _each_once(trees * np.int64(count) + labels, labels, count) and _shallow(forest)


def _each_once(keys: Int[np.ndarray, "n"], labels: Int[np.ndarray, "n"], count: int) -> bool:
    return bool(labels.max() < count and np.array_equal(np.sort(keys), np.arange(len(keys))))


def _shallow(forest: Forest) -> bool:
    ways = ways_of(forest)
    above = np.where(ways.child_to < 0, np.arange(len(ways.child_to)), ways.node_of[ways.child_to])
    at = np.arange(len(above))
    for _ in range(DEEPEST - 1):
        at = above[at]
    return bool(np.isin(at, forest.roots).all())


def _bounds(starts: Int[np.ndarray, "n"], last: int) -> bool:
    return bool(starts[0] == 0 and starts[-1] == last and (starts[:-1] <= starts[1:]).all())


@compiled
def _weighs(forest):  # type: ignore[no-untyped-def]
    """Whether nodes and children are in order, and each weight has its child and is a number."""
    numbers, values = forest.weights.numbers, forest.weights.values
    for feature in range(len(forest.feature_starts) - 1):
        before = -1
        for row in range(forest.feature_starts[feature], forest.feature_starts[feature + 1]):
            node, last = forest.nodes[row], -1
            if not before < node < len(forest.child_starts) - 1:
                return False
            before, children = node, forest.child_starts[node + 1] - forest.child_starts[node]
            for i in range(forest.weights.starts[row], forest.weights.starts[row + 1]):
                if not last < numbers[i] < children or not np.isfinite(values[i]):
                    return False
                last = numbers[i]
    return True
