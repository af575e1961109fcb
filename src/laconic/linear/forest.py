"""Trees of labels with their classifiers, as flat arrays that compiled loops walk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.shortlisters.inverted import Lists


class Forest(NamedTuple):
    """Nodes of all trees, numbered so that a child comes after its parent, and their children in the same order."""

    roots: Int[np.ndarray, "trees"]
    child_starts: Int[np.ndarray, "nodes+1"]
    targets: Int[np.ndarray, "children"]  # a node, or -1 - label
    biases: Float[np.ndarray, "children"]
    feature_starts: Int[np.ndarray, "nodes+1"]  # where the features of each node begin
    features: Int[np.ndarray, "rows"]  # in order within a node
    weights: Lists  # for each feature of a node its children, by their place in the node, and their weights


class Entries(NamedTuple):
    """Weights, each with its node, its feature and the place of its child in the node."""

    nodes: Int[np.ndarray, "pairs"]
    features: Int[np.ndarray, "pairs"]
    places: Int[np.ndarray, "pairs"]
    values: Float[np.ndarray, "pairs"]


class Ways(NamedTuple):
    """The way back, from labels to roots."""

    child_of: Int[np.ndarray, "trees labels"]  # that leads to each label
    child_to: Int[np.ndarray, "nodes"]  # that leads to each node; -1: it is a root
    node_of: Int[np.ndarray, "children"]


def joined(trees: Sequence[Forest]) -> Forest:
    """Several trees as one forest."""
    first_nodes = np.cumsum([0, *(len(tree.child_starts) - 1 for tree in trees)])
    moved = list(zip(trees, first_nodes, strict=False))
    return Forest(
        np.concatenate([tree.roots + first for tree, first in moved]).astype(np.int32),
        joined_starts([tree.child_starts for tree in trees]),
        np.concatenate([np.where(tree.targets < 0, 0, first) + tree.targets for tree, first in moved]).astype(np.int32),
        np.concatenate([tree.biases for tree in trees]),
        joined_starts([tree.feature_starts for tree in trees]),
        np.concatenate([tree.features for tree in trees]),
        joined_lists([tree.weights for tree in trees]),
    )


def ways_of(forest: Forest) -> Ways:
    sizes = np.diff(forest.child_starts)
    node_of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    is_node = forest.targets >= 0
    child_to = np.full(len(sizes), -1, dtype=np.int32)
    child_to[forest.targets[is_node]] = np.flatnonzero(is_node)
    leads = np.flatnonzero(~is_node).astype(np.int32)
    labels = -1 - forest.targets[leads]
    num_trees = len(forest.roots)
    child_of = leads[np.argsort(labels, kind="stable")].reshape(-1, num_trees).T  # trees come one after another
    return Ways(np.ascontiguousarray(child_of), child_to, node_of)


def arranged(entries: Entries, num_nodes: int) -> tuple[Int[np.ndarray, "bounds"], Int[np.ndarray, "rows"], Lists]:
    """Weights by node and feature: where each node's features begin, these, and for each its children and weights."""
    width = int(entries.features.max(initial=0)) + 1
    keys = entries.nodes.astype(np.int64) * width + entries.features
    order = np.lexsort((entries.places, keys))
    keys = keys[order]
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    return (
        np.searchsorted(keys[begins], np.arange(num_nodes + 1) * width),
        (keys[begins] % width).astype(np.int32),
        Lists(
            np.append(begins, len(keys)).astype(np.int64),
            entries.places[order].astype(np.int32),
            entries.values[order],
        ),
    )


def entries_of(forest: Forest) -> Entries:
    """All weights, one by one."""
    in_row, in_node = np.diff(forest.weights.starts), np.diff(forest.feature_starts)
    nodes = np.repeat(np.arange(len(in_node)), in_node)
    return Entries(
        np.repeat(nodes, in_row), np.repeat(forest.features, in_row), forest.weights.numbers, forest.weights.values
    )


def joined_starts(parts: Sequence[Int[np.ndarray, "..."]]) -> Int[np.ndarray, "starts"]:
    """Bounds of ranges that come one after another."""
    lasts = np.cumsum([0, *(part[-1] for part in parts)])
    moved = [part[:-1] + last for part, last in zip(parts, lasts, strict=False)]
    return np.concatenate([*moved, lasts[-1:]]).astype(np.int64)


def joined_lists(parts: Sequence[Lists]) -> Lists:
    return Lists(
        joined_starts([part.starts for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.values for part in parts]),
    )
