"""Trees of labels with their classifiers, as flat arrays that compiled loops walk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.kernels.csr import Lists


class Forest(NamedTuple):
    """Nodes of all trees, numbered so that a child comes after its parent, and their children in the same order."""

    roots: Int[np.ndarray, "trees"]
    child_starts: Int[np.ndarray, "nodes+1"]
    targets: Int[np.ndarray, "children"]  # a node, or -1 - label
    biases: Float[np.ndarray, "children"]
    feature_starts: Int[np.ndarray, "features+1"]  # where the nodes of each feature begin
    nodes: Int[np.ndarray, "rows"]  # in order within a feature: a text's few features are looked for in many nodes
    weights: Lists  # for each node of a feature its children, by their place in the node, and their weights


class Entries(NamedTuple):
    """Weights, each with its node, its feature and the place of its child in the node."""

    nodes: Int[np.ndarray, "pairs"]
    features: Int[np.ndarray, "pairs"]
    places: Int[np.ndarray, "pairs"]
    values: Float[np.ndarray, "pairs"]


class Rows(NamedTuple):
    """A row for every node and feature that have weights."""

    nodes: Int[np.ndarray, "rows"]
    features: Int[np.ndarray, "rows"]
    weights: Lists  # children, by their place in the node


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
        *by_feature([_rows_of(tree)._replace(nodes=tree.nodes + first) for tree, first in moved]),
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


def by_feature(parts: Sequence[Rows]) -> tuple[Int[np.ndarray, "starts"], Int[np.ndarray, "rows"], Lists]:
    """Rows in the order of features and nodes: where each feature's nodes begin, these, and their weights."""
    nodes, features = (np.concatenate(both) for both in list(zip(*parts, strict=True))[:2])
    weights = joined_lists([part.weights for part in parts])
    num_features, num_nodes = (int(numbers.max(initial=-1)) + 1 for numbers in (features, nodes))
    order = np.argsort(features.astype(np.int64) * num_nodes + nodes, kind="stable")
    starts = np.searchsorted(features[order], np.arange(num_features + 1))
    return starts.astype(np.int64), nodes[order].astype(np.int32), _in_order(weights, order)


def rows_of(entries: Entries) -> Rows:
    """Weights by node and feature."""
    width = int(entries.features.max(initial=0)) + 1
    keys = entries.nodes.astype(np.int64) * width + entries.features
    order = np.lexsort((entries.places, keys))
    keys = keys[order]
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    starts = np.append(begins, len(keys)).astype(np.int64)
    weights = Lists(starts, entries.places[order].astype(np.int32), entries.values[order])
    nodes, features = (part.astype(np.int32) for part in np.divmod(keys[begins], width))
    return Rows(nodes, features, weights)


def entries_of(forest: Forest) -> Entries:
    """All weights, one by one."""
    rows, in_row = _rows_of(forest), np.diff(forest.weights.starts)
    weights = forest.weights
    return Entries(np.repeat(rows.nodes, in_row), np.repeat(rows.features, in_row), weights.numbers, weights.values)


def _rows_of(forest: Forest) -> Rows:
    sizes = np.diff(forest.feature_starts)
    return Rows(forest.nodes, np.repeat(np.arange(len(sizes), dtype=np.int32), sizes), forest.weights)


def _in_order(lists: Lists, order: Int[np.ndarray, "rows"]) -> Lists:
    """The same rows in another order."""
    sizes = np.diff(lists.starts)[order]
    starts = np.concatenate([[0], sizes.cumsum()])
    places = np.arange(starts[-1]) + np.repeat(lists.starts[order] - starts[:-1], sizes)
    return Lists(starts, lists.numbers[places], lists.values[places])


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
