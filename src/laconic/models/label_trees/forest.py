"""Label trees with sparse classifiers as flat arrays: joining, checking and editing them; rows.py has the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Integer

from laconic.kernels.checks import for_kernels
from laconic.kernels.csr import Lists, in_threads
from laconic.kernels.jit import compiled
from laconic.models.label_trees.rows import (
    Entries,
    Rows,
    by_feature,
    join_starts,
    no_blocks,
    no_scales,
    quantise,
    rows_of,
)
from laconic.models.label_trees.search import (
    BANK_BITS,
    BLOCK_BITS,
    DEEPEST,
    num_banks,
    row_start,
    score_children,
)
from laconic.system.sparse import csr_array
from laconic.types import NO_LABEL


class Forest(NamedTuple):
    """All trees: nodes are numbered so that a child comes after its parent, children in the order of their nodes."""

    roots: Int[np.ndarray, "trees"]
    child_starts: Int[np.ndarray, "nodes+1"]
    targets: Int[np.ndarray, "children"]  # a node, or -1 - label
    biases: Float[np.ndarray, "children"]
    scales: Float[np.ndarray, "children"]  # that a child's weights are multiplied with
    feature_starts: Int[np.ndarray, "groups+1"]  # where the nodes of each feature begin, bank by bank
    # Ascending within a feature and bank: a text's few features are looked up in many nodes. In two bytes, counted from
    # the first node of the bank; in four, where there is one bank alone, from the first of all.
    nodes: Integer[np.ndarray, "rows"]
    blocks: Int[np.ndarray, "blocks"]  # where the weights of every 16th row begin
    # For each node of a feature, steps from child to child in the node, and their weights; it starts after its block.
    weights: Lists


class Paths(NamedTuple):
    """Links from labels back to the roots."""

    child_of: Int[np.ndarray, "trees labels"]  # the child that is each label
    child_to: Int[np.ndarray, "nodes"]  # the child that is each node; -1: it is a root
    node_of: Int[np.ndarray, "children"]  # the node that each child belongs to


def forest_of(arrays: Sequence[np.ndarray]) -> Forest:
    """Return the forest of its arrays, read-only like mapped files, so that loops are compiled once for both."""
    *others, starts, steps, values = map(for_kernels, arrays)
    roots, child_starts, targets, biases, scales, feature_starts, nodes, blocks = others
    weights = Lists(starts, steps, values)
    return Forest(roots, child_starts, targets, biases, scales, feature_starts, nodes, blocks, weights)


def empty_tree(num_labels: int, num_features: int) -> Forest:
    """Return a tree of a root above all labels, whose classifiers have no weights."""
    weights = np.zeros(1, np.uint16), np.zeros(0, np.uint8), np.zeros(0, np.int8)
    labels = np.arange(num_labels, dtype=np.int32)
    biases, starts = np.zeros(num_labels, np.float32), np.zeros(num_features + 1, np.int32)
    nodes, bounds = np.zeros(0, np.uint16), np.array([0, num_labels])
    root = np.zeros(1, np.int32)
    return forest_of([root, bounds, -1 - labels, biases, no_scales(num_labels), starts, nodes, no_blocks(0), *weights])


def arrays_of(forest: Forest) -> tuple[np.ndarray, ...]:
    """Return the arrays of a forest, as `forest_of` takes them."""
    return (*forest[:-1], *forest.weights)


def banks_of(forest: Forest) -> int:
    """Return how many banks the nodes of a feature are split into; files do not say it."""
    return int(num_banks(forest.nodes.itemsize, len(forest.child_starts) - 1))


def join_trees(trees: Sequence[Forest]) -> Forest:
    """Join several forests into one."""
    first_nodes = np.cumsum([0, *(len(tree.child_starts) - 1 for tree in trees)], dtype=np.int32)
    moved = list(zip(trees, first_nodes, strict=False))
    return Forest(
        np.concatenate([tree.roots + first for tree, first in moved]).astype(np.int32),
        join_starts([tree.child_starts for tree in trees]),
        np.concatenate([np.where(tree.targets < 0, 0, first) + tree.targets for tree, first in moved]).astype(np.int32),
        np.concatenate([tree.biases for tree in trees]),
        np.concatenate([tree.scales for tree in trees]),
        *by_feature([_moved(_rows_of(tree), first) for tree, first in moved], int(first_nodes[-1])),
    )


def _moved(rows: Rows, first: np.int32) -> Rows:
    return rows._replace(nodes=rows.nodes.astype(np.int32) + first)


def pruned(forest: Forest, threshold: float) -> Forest:
    """Return the forest without weights below a threshold."""
    entries = entries_of(forest)
    scales = forest.scales[forest.child_starts[entries.nodes] + entries.places]
    kept = np.abs(entries.values * scales) >= threshold
    rows = rows_of(Entries(*(part[kept] for part in entries)))
    return Forest(*forest[:5], *by_feature([rows], len(forest.child_starts) - 1))


def workspace_sizes(forest: Forest, paths: Paths) -> tuple[int, ...]:
    """Return what `search.make_workspace` takes."""
    sizes = len(paths.child_to), paths.child_of.shape[1], len(forest.targets)
    return *sizes, int(np.diff(forest.child_starts).max())


def paths_of(forest: Forest) -> Paths:
    sizes = np.diff(forest.child_starts)
    node_of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    is_node = forest.targets >= 0
    child_to = np.full(len(sizes), -1, dtype=np.int32)
    child_to[forest.targets[is_node]] = np.flatnonzero(is_node)
    leads = np.flatnonzero(~is_node).astype(np.int32).reshape(len(forest.roots), -1)  # trees come one after another
    child_of = np.empty_like(leads)
    np.put_along_axis(child_of, -1 - forest.targets[leads], leads, axis=1)
    return Paths(child_of, child_to, node_of)


def starts_of(forest: Forest) -> Int[np.ndarray, "rows+1"]:
    """Return where the weights of each row begin."""
    after = forest.weights.starts
    starts: Int[np.ndarray, "rows+1"] = np.repeat(forest.blocks, 1 << BLOCK_BITS)[: len(after)]
    starts = starts.astype(np.result_type(starts, after), copy=False)
    starts += after
    return starts


def entries_of(forest: Forest) -> Entries:
    """Return all weights but those of 0 in coordinate form."""
    rows, (_, steps, values) = _rows_of(forest), forest.weights
    starts = rows.weights.starts
    in_row, ends = np.diff(starts), np.concatenate([[0], np.cumsum(steps, dtype=np.int64)])
    places = ends[1:] - np.repeat(ends[starts[:-1]], in_row)
    every = Entries(np.repeat(rows.nodes, in_row), np.repeat(rows.features, in_row), places, values)
    return Entries(*(part[values != 0] for part in every))


def _rows_of(forest: Forest) -> Rows:
    sizes, banks = np.diff(forest.feature_starts), banks_of(forest)
    weights = forest.weights._replace(starts=starts_of(forest))
    groups = np.arange(len(sizes), dtype=np.int32)
    features, nodes = np.repeat(groups // banks, sizes), forest.nodes
    if banks > 1:
        nodes = np.repeat(groups % banks << BANK_BITS, sizes) + nodes
    return Rows(nodes, features, weights)


def is_sound(forest: Forest) -> bool:
    """Check that every tree has every label once and that no index is out of bounds: compiled loops check none."""
    return _lengths_fit(forest) and _links_form_trees(forest) and _all_weights_fit(forest)


def _lengths_fit(forest: Forest) -> bool:
    flat = all(array.ndim == 1 for array in arrays_of(forest))
    return bool(
        flat
        and len(forest.roots)
        and len(forest.child_starts) > 1
        and len(forest.feature_starts) > 0
        and (len(forest.feature_starts) - 1) % banks_of(forest) == 0
        and _bounds(forest.child_starts, len(forest.targets))
        and _bounds(forest.feature_starts, len(forest.nodes))
        and len(forest.weights.starts) == len(forest.nodes) + 1
        and len(forest.blocks) == (len(forest.nodes) >> BLOCK_BITS) + 1
        and _bounds(starts_of(forest), len(forest.weights.numbers))
        and len(forest.weights.values) == len(forest.weights.numbers)
        and len(forest.biases) == len(forest.targets)
        and len(forest.scales) == len(forest.targets)
        and np.isfinite(forest.biases).all()
        and np.isfinite(forest.scales).all()
    )


def _links_form_trees(forest: Forest) -> bool:
    """Check that each tree's nodes are contiguous and that each but the root has one parent, which precedes it."""
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
    keys = trees * np.int64(count) + labels
    return not left and count > 0 and _each_once(keys, labels, count) and _is_shallow(forest)


def _each_once(keys: Int[np.ndarray, "n"], labels: Int[np.ndarray, "n"], count: int) -> bool:
    if labels.max() >= count:
        return False
    is_there = np.zeros(len(keys), dtype=np.bool_)
    is_there[keys] = True
    return bool(is_there.all())


def _is_shallow(forest: Forest) -> bool:
    paths = paths_of(forest)
    above = np.where(paths.child_to < 0, np.arange(len(paths.child_to)), paths.node_of[paths.child_to])
    at = np.arange(len(above))
    for _ in range(DEEPEST - 1):
        at = above[at]
    return bool(np.isin(at, forest.roots).all())


def _bounds(starts: Int[np.ndarray, "n"], last: int) -> bool:
    return bool(starts[0] == 0 and starts[-1] == last and (starts[:-1] <= starts[1:]).all())


def _all_weights_fit(forest: Forest) -> bool:
    fit: list[bool] = []
    in_threads(len(forest.feature_starts) - 1, lambda first, last: fit.append(_weights_fit(forest, first, last)))
    return all(fit)


@compiled
def _weights_fit(forest, first, last):  # type: ignore[no-untyped-def]
    """Check for some features and banks that nodes ascend, and that each weight belongs to a child."""
    steps, banks = forest.weights.numbers, num_banks(forest.nodes.itemsize, len(forest.child_starts) - 1)
    for group in range(first, last):
        before, start = np.int64(-1), np.int64(group % banks << BANK_BITS)
        for row in range(forest.feature_starts[group], forest.feature_starts[group + 1]):
            node, place = start + forest.nodes[row], np.int64(0)
            if not before < node < len(forest.child_starts) - 1:
                return False
            before, children = node, forest.child_starts[node + 1] - forest.child_starts[node]
            for i in range(row_start(forest, row), row_start(forest, row + 1)):
                place += steps[i]
                if not 0 <= place < children:
                    return False
    return True


def prune(forest: Forest, kept: Int[np.ndarray, "kept"], num_labels: int) -> Forest:
    """Return the forest of these labels alone; its label i is kept[i]. Nodes stay, though they may be empty."""
    number = np.full(num_labels, NO_LABEL)
    number[kept] = np.arange(len(kept))
    is_node = forest.targets >= 0
    target = np.where(is_node, forest.targets, -1 - number[np.where(is_node, 0, -1 - forest.targets)])
    stays = is_node | (target < 0)  # the target of a removed label is -1 - NO_LABEL, which is 0
    before = np.concatenate([[0], stays.cumsum()])  # children kept before each child
    starts = before[forest.child_starts]
    entries = entries_of(forest)
    child = forest.child_starts[entries.nodes] + entries.places
    left = Entries(*(part[stays[child]] for part in entries))
    places = before[child[stays[child]]] - starts[left.nodes]
    own = forest.biases[stays], forest.scales[stays]
    return _changed(forest, starts, target[stays], own, left._replace(places=places))


def graft(forest: Forest, rows: csr_array, biases: Float[np.ndarray, "new"], num_labels: int) -> Forest:
    """Add a label for each row of weights, numbered after the known ones, under its best last node of every tree."""
    leaves = _leaves(forest, Lists.of(rows))
    node = leaves.T.ravel()  # tree by tree
    order, added = np.argsort(node, kind="stable"), np.bincount(node, minlength=len(forest.child_starts) - 1)
    new = np.tile(np.arange(rows.shape[0]), len(forest.roots))[order]
    node, ends = node[order], forest.child_starts[1:][node[order]]
    sizes = np.diff(forest.child_starts)
    places = sizes[node] + np.arange(len(node)) - (added.cumsum() - added)[node]
    own = csr_array(rows[new])
    counts = np.diff(own.indptr)
    values, scales = quantise(own.data, np.repeat(np.arange(len(new)), counts), len(new))
    more = Entries(np.repeat(node, counts), own.indices, np.repeat(places, counts), values)
    return _changed(
        forest,
        np.concatenate([[0], (sizes + added).cumsum()]),
        np.insert(forest.targets, ends, -1 - (num_labels + new)),
        (np.insert(forest.biases, ends, biases[new]), np.insert(forest.scales, ends, scales)),
        Entries(*(np.concatenate(both) for both in zip(entries_of(forest), more, strict=True))),
    )


def _changed(
    forest: Forest,
    child_starts: Int[np.ndarray, "bounds"],
    targets: Int[np.ndarray, "children"],
    biases_and_scales: tuple[Float[np.ndarray, "children"], Float[np.ndarray, "children"]],
    entries: Entries,
) -> Forest:
    biases, scales = biases_and_scales
    return Forest(
        forest.roots,
        child_starts.astype(np.int64),
        targets.astype(np.int32),
        biases,
        scales,
        *by_feature([rows_of(entries)], len(child_starts) - 1),
    )


def _leaves(forest: Forest, rows: Lists) -> Int[np.ndarray, "new trees"]:
    leaves = np.empty((len(rows.starts) - 1, len(forest.roots)), dtype=np.int64)
    _descend(forest, rows, leaves)
    return leaves


@compiled
def _descend(forest, rows, leaves):  # type: ignore[no-untyped-def]
    """Descend from each root by the best child that is a node, as long as there is one."""
    scores = np.empty(np.diff(forest.child_starts).max(), dtype=np.float32)
    for row in range(len(leaves)):
        found = np.empty(rows.starts[row + 1] - rows.starts[row], dtype=np.int64)
        for tree in range(len(forest.roots)):
            node = np.int64(-1)
            below = np.int64(forest.roots[tree])
            while below >= 0:
                node, below, best = below, np.int64(-1), np.float32(-np.inf)
                for place in range(score_children(forest, rows, row, node, found, scores)):
                    target = forest.targets[forest.child_starts[node] + place]
                    if target >= 0 and scores[place] > best:
                        below, best = np.int64(target), scores[place]
            leaves[row, tree] = node
