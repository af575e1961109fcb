"""Read label trees as version 0.2 stored them: positions of children in four bytes, weights in float32."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.kernels.csr import Lists
from laconic.models.label_trees.forest import Forest
from laconic.models.label_trees.rows import Entries, by_feature, quantise, rows_of


class OlderForest(NamedTuple):
    """The arrays of such trees; all but the weights are as in a Forest with one bank of nodes."""

    roots: Int[np.ndarray, "trees"]
    child_starts: Int[np.ndarray, "nodes+1"]
    targets: Int[np.ndarray, "children"]
    biases: Float[np.ndarray, "children"]
    feature_starts: Int[np.ndarray, "features+1"]
    nodes: Int[np.ndarray, "rows"]
    weight_starts: Int[np.ndarray, "rows+1"]
    weight_children: Int[np.ndarray, "pairs"]
    weights: Float[np.ndarray, "pairs"]


def from_older(older: OlderForest, name: str) -> Forest | None:
    """Return the trees in today's form, which is still to be checked; None if arrays do not fit together.

    `name` is that of the tensors, for messages.
    """
    sizes, in_row = np.diff(older.child_starts), np.diff(older.weight_starts)
    weights = Lists(older.weight_starts, older.weight_children, older.weights)
    weights.checked(name, int(sizes.max(initial=0)))
    Lists(older.feature_starts, older.nodes, older.nodes).checked(name, len(sizes))
    if len(in_row) != len(older.nodes) or sizes.min(initial=0) < 0 or sizes.sum() != len(older.targets):
        return None
    nodes, features = np.repeat(older.nodes, in_row), np.repeat(_features_of(older), in_row)
    if (weights.numbers >= sizes[nodes]).any():
        return None
    values, scales = quantise(weights.values, older.child_starts[nodes] + weights.numbers, len(older.targets))
    rows = rows_of(Entries(nodes, features, weights.numbers, values))
    return Forest(*older[:4], scales, *by_feature([rows], len(sizes)))


def _features_of(older: OlderForest) -> Int[np.ndarray, "rows"]:
    return np.repeat(np.arange(len(older.feature_starts) - 1), np.diff(older.feature_starts))
