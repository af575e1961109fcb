"""What each classifier of a level learns from: texts that have a label under its node, and which of them it is true of.

Only these are shown to it: it will be asked about a text when its node was found right for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from laconic.data.dataset import Dataset
from laconic.kernels.csr import Lists
from laconic.models.clustering.groups import partition
from laconic.models.label_trees.levels import Level


class Problems(NamedTuple):
    """One for each child of a level."""

    starts: Int[np.ndarray, "nodes+1"]  # where each node's texts begin
    texts: Int[np.ndarray, "members"]
    # For each child, places among its node's texts, and how true it is of them; 0: neither true nor false.
    told: Lists


class _Pairs(NamedTuple):
    text: Int[np.ndarray, "pairs"]
    child: Int[np.ndarray, "pairs"]
    truth: Float[np.ndarray, "pairs"]


def problems_of(data: Dataset, level: Level) -> Problems:
    """A child is as true of a text as the truest of the text's labels under it."""
    grouped = data.relabelled(partition(level.child_of, len(level.node_of)))
    true, num_nodes = _pairs(grouped.labels), int(level.node_of[-1]) + 1
    members = np.unique(_keys(true, level, len(data)))
    starts = np.searchsorted(members, np.arange(num_nodes + 1) * len(data))
    told = true
    if grouped.leave_out is not None:
        left_out = _pairs(grouped.leave_out)
        keys = _keys(left_out, level, len(data))
        there = np.isin(keys, members)
        left_out = _Pairs(left_out.text[there], left_out.child[there], np.zeros(int(there.sum()), dtype=np.float32))
        told = _Pairs(*(np.concatenate(both) for both in zip(true, left_out, strict=True)))
    place = np.searchsorted(members, _keys(told, level, len(data))) - starts[level.node_of[told.child]]
    order = np.argsort(told.child, kind="stable")
    bounds = np.searchsorted(told.child[order], np.arange(len(level.node_of) + 1))
    return Problems(
        starts,
        (members % len(data)).astype(np.int32),
        Lists(bounds.astype(np.int64), place[order].astype(np.int32), told.truth[order]),
    )


def _pairs(matrix: csr_array) -> _Pairs:
    text = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return _Pairs(text, matrix.indices, matrix.data.astype(np.float32))


def _keys(pairs: _Pairs, level: Level, num_texts: int) -> Int[np.ndarray, "pairs"]:
    """A number for each node and text, in the order of nodes."""
    keys: Int[np.ndarray, "pairs"] = level.node_of[pairs.child].astype(np.int64) * num_texts + pairs.text
    return keys
