"""A tree from the data that it is learnt from: grown, then its classifiers learnt level by level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from laconic.data.dataset import Dataset
from laconic.kernels.csr import Lists
from laconic.models.label_trees.forest import Forest, by_feature
from laconic.models.label_trees.learn import Learning, Weights, learn
from laconic.models.label_trees.levels import Level, grown
from laconic.models.label_trees.problems import problems_of


class Growing(NamedTuple):
    fan_out: int  # children of a node at most, above the last
    leaf: int  # labels of a last node at most
    learning: Learning


def planted(data: Dataset, rows: Lists, growing: Growing, seed: int) -> Forest:
    """One tree; `rows` are the data's texts as classifiers read them."""
    text_weights = np.ones(len(data)) if data.weights is None else data.weights.astype(np.float64)
    levels = grown(data, fan_out=growing.fan_out, leaf=growing.leaf, seed=seed)
    weights = [learn(rows, text_weights, problems_of(data, level), level.node_of, growing.learning) for level in levels]
    return _tree_of(levels, weights)


def _tree_of(levels: Sequence[Level], weights: Sequence[Weights]) -> Forest:
    """Children of one level are the nodes of the next; those of the last are labels."""
    sizes = [len(level.node_of) for level in levels]
    first_nodes = np.cumsum([0, 1, *sizes[:-1]])
    labels = np.argsort(levels[-1].child_of)
    targets = [np.arange(size) + first for size, first in zip(sizes[:-1], first_nodes[1:], strict=False)]
    moved = list(zip(weights, first_nodes, strict=False))
    nodes = np.concatenate([level.node_of + first for level, first in zip(levels, first_nodes, strict=False)])
    return Forest(
        np.zeros(1, dtype=np.int32),
        np.searchsorted(nodes, np.arange(first_nodes[-1] + 1)).astype(np.int64),
        np.concatenate([*targets, -1 - labels]).astype(np.int32),
        np.concatenate([part.biases for part in weights]),
        *by_feature([rows._replace(nodes=rows.nodes + first) for (_, rows), first in moved]),
    )
