"""Labels leave a forest or join it; what was learnt of the others stays."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from laconic.kernels.csr import Lists
from laconic.kernels.jit import compiled
from laconic.models.label_trees.forest import Entries, Forest, by_feature, entries_of, rows_of
from laconic.models.label_trees.search import score_children
from laconic.types import NO_LABEL


def pruned(forest: Forest, kept: Int[np.ndarray, "kept"], num_labels: int) -> Forest:
    """The forest of these labels alone: label i of it is kept[i]. Nodes stay, though they may be empty."""
    number = np.full(num_labels, NO_LABEL)
    number[kept] = np.arange(len(kept))
    is_node = forest.targets >= 0
    target = np.where(is_node, forest.targets, -1 - number[np.where(is_node, 0, -1 - forest.targets)])
    stays = is_node | (target < 0)  # a label that goes would lead to -1 - NO_LABEL, which is 0
    before = np.concatenate([[0], stays.cumsum()])  # children that stay, before each
    starts = before[forest.child_starts]
    entries = entries_of(forest)
    child = forest.child_starts[entries.nodes] + entries.places
    left = Entries(*(part[stays[child]] for part in entries))
    places = before[child[stays[child]]] - starts[left.nodes]
    return _changed(forest, starts, target[stays], forest.biases[stays], left._replace(places=places))


def grafted(forest: Forest, rows: csr_array, biases: Float[np.ndarray, "new"], num_labels: int) -> Forest:
    """With a label for each row of weights, after the known ones: in every tree under the last node that suits it."""
    leaves = _leaves(forest, Lists.of(rows))
    node = leaves.T.ravel()  # tree by tree
    order, added = np.argsort(node, kind="stable"), np.bincount(node, minlength=len(forest.child_starts) - 1)
    new = np.tile(np.arange(rows.shape[0]), len(forest.roots))[order]
    node, ends = node[order], forest.child_starts[1:][node[order]]
    sizes = np.diff(forest.child_starts)
    places = sizes[node] + np.arange(len(node)) - (added.cumsum() - added)[node]
    own = csr_array(rows[new])
    counts = np.diff(own.indptr)
    more = Entries(np.repeat(node, counts), own.indices, np.repeat(places, counts), own.data)
    return _changed(
        forest,
        np.concatenate([[0], (sizes + added).cumsum()]),
        np.insert(forest.targets, ends, -1 - (num_labels + new)),
        np.insert(forest.biases, ends, biases[new]),
        Entries(*(np.concatenate(both) for both in zip(entries_of(forest), more, strict=True))),
    )


def _changed(
    forest: Forest,
    child_starts: Int[np.ndarray, "bounds"],
    targets: Int[np.ndarray, "children"],
    biases: Float[np.ndarray, "children"],
    entries: Entries,
) -> Forest:
    return Forest(
        forest.roots,
        child_starts.astype(np.int64),
        targets.astype(np.int32),
        biases.astype(np.float32),
        *by_feature([rows_of(entries._replace(values=entries.values.astype(np.float32)))]),
    )


def _leaves(forest: Forest, rows: Lists) -> Int[np.ndarray, "new trees"]:
    leaves = np.empty((len(rows.starts) - 1, len(forest.roots)), dtype=np.int64)
    _descend(forest, rows, leaves)
    return leaves


@compiled
def _descend(forest, rows, leaves):  # type: ignore[no-untyped-def]
    """From each root by the best child at every step, as long as there is one that is a node."""
    scores = np.empty(np.diff(forest.child_starts).max(), dtype=np.float32)
    for row in range(len(leaves)):
        for tree in range(len(forest.roots)):
            node = np.int64(-1)
            below = np.int64(forest.roots[tree])
            while below >= 0:
                node, below, best = below, np.int64(-1), np.float32(-np.inf)
                for place in range(score_children(forest, rows, row, node, scores)):
                    target = forest.targets[forest.child_starts[node] + place]
                    if target >= 0 and scores[place] > best:
                        below, best = np.int64(target), scores[place]
            leaves[row, tree] = node
