"""Grow a tree of labels from data and learn its classifiers level by level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from threading import Event
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from laconic.data.dataset import Dataset
from laconic.kernels.csr import Lists
from laconic.models.clustering import Clustering, LabelRows
from laconic.models.clustering.groups import partition
from laconic.models.label_trees.forest import Forest
from laconic.models.label_trees.learn import LearnSettings, Problems, Weights, learn
from laconic.models.label_trees.rows import by_feature
from laconic.system.machine import usable_cores

_CORES_OF_TREE = 4  # with fewer, a tree's parallel steps keep all of them busy


class GrowSettings(NamedTuple):
    """The shape of a tree, and how its classifiers are learnt."""

    fan_out: int  # children of a node at most, above the last
    leaf: int  # labels of a last node at most
    learning: LearnSettings


def grow_trees(
    data: Dataset,
    rows: Lists,
    growing: GrowSettings,
    seeds: Sequence[int],
    advance: Callable[[float], None] = lambda fraction: None,
) -> list[Forest]:
    """Grow a tree for each seed and learn its classifiers; `rows` are the features of the data's texts.

    On many cores several trees grow at once, because some steps of each take one core. `advance` gets the fraction that
    is done, time and again. An interrupt stops all of them as soon as each has learnt its next part.
    """
    labels, done, stopped = LabelRows.of_texts(data, Clustering(), 0), [0.0] * len(seeds), Event()

    def grow(number: int) -> Forest:
        def report(fraction: float) -> None:
            if stopped.is_set():
                raise InterruptedError
            done[number] = fraction
            advance(sum(done) / len(done))

        return _grow_tree(data, rows, labels, growing, seeds[number], report)

    with ThreadPoolExecutor(max(1, min(len(seeds), usable_cores() // _CORES_OF_TREE))) as pool:
        try:
            return list(pool.map(grow, range(len(seeds))))
        except BaseException:  # Ctrl-C reaches this thread alone, and threads are waited for
            stopped.set()
            raise


def _grow_tree(
    data: Dataset,
    rows: Lists,
    labels: LabelRows,
    growing: GrowSettings,
    seed: int,
    advance: Callable[[float], None],
) -> Forest:
    text_weights = np.ones(len(data)) if data.weights is None else data.weights.astype(np.float64)
    levels = grow_levels(labels, fan_out=growing.fan_out, leaf=growing.leaf, seed=seed)
    bounds = np.cumsum([0.0, *(_work(data, level) for level in levels)])
    weights = []
    for level, (begin, end) in zip(levels, pairwise((bounds / max(1.0, bounds[-1])).tolist()), strict=True):
        report = partial(_within, advance, begin, end)
        problems = problems_of(data, level)
        weights.append(learn(rows, text_weights, problems, level.node_of, growing.learning, report))
    return _tree_of(levels, weights)


def _within(advance: Callable[[float], None], begin: float, end: float, fraction: float) -> None:
    """Report a fraction of one part of the whole."""
    advance(begin + fraction * (end - begin))


def _work(data: Dataset, level: Level) -> float:
    """Estimate how long a level takes beside others: pairs of a text and a child that its classifier sees."""
    nodes = int(level.node_of[-1]) + 1
    return float(min(data.labels.nnz, len(data) * nodes) * len(level.node_of) / nodes)


def _tree_of(levels: Sequence[Level], weights: Sequence[Weights]) -> Forest:
    """Stack levels into a tree: children of one level are the nodes of the next, those of the last are labels."""
    sizes = [len(level.node_of) for level in levels]
    first_nodes = np.cumsum([0, 1, *sizes[:-1]], dtype=np.int32)
    labels = np.argsort(levels[-1].child_of)
    targets = [np.arange(size) + first for size, first in zip(sizes[:-1], first_nodes[1:], strict=False)]
    moved = list(zip(weights, first_nodes, strict=False))
    nodes = np.concatenate([level.node_of + first for level, first in zip(levels, first_nodes, strict=False)])
    return Forest(
        np.zeros(1, dtype=np.int32),
        np.searchsorted(nodes, np.arange(first_nodes[-1] + 1)).astype(np.int64),
        np.concatenate([*targets, -1 - labels]).astype(np.int32),
        np.concatenate([part.biases for part in weights]),
        np.concatenate([part.scales for part in weights]),
        *by_feature([part.rows._replace(nodes=part.rows.nodes + first) for part, first in moved], int(first_nodes[-1])),
    )


class Level(NamedTuple):
    """The children of the nodes of one depth; a child is a node of the next level, or a label."""

    child_of: Int[np.ndarray, "labels"]  # the child above each label
    node_of: Int[np.ndarray, "children"]  # the node of each child, ascending


def grow_levels(labels: LabelRows, *, fan_out: int, leaf: int, seed: int) -> list[Level]:
    """Return the levels of a tree, root first, taken from a balanced binary tree of labels."""
    num_labels = len(labels.described)
    bits = max(0, -(-num_labels // leaf) - 1).bit_length()
    bits = min(bits, num_labels.bit_length() - 1)
    tree = labels.clustered(1 << bits, seed)
    depths = _depths(bits, fan_out.bit_length() - 1)
    cluster, places = tree.cluster_of().numpy(), tree.places().numpy()
    levels = [
        Level(cluster >> (bits - depth), np.arange(1 << depth) >> (depth - above)) for above, depth in pairwise(depths)
    ]
    return [*levels, Level(places, np.repeat(np.arange(1 << bits), np.diff(tree.starts.numpy())))]


def _depths(bits: int, most: int) -> list[int]:
    """Choose the depths of the binary tree to keep, at most `most` apart."""
    steps = -(-bits // most)
    return [0, *(bits * step // steps for step in range(1, steps + 1))]


class _Pairs(NamedTuple):
    text: Int[np.ndarray, "pairs"]
    child: Int[np.ndarray, "pairs"]
    truth: Float[np.ndarray, "pairs"]


def problems_of(data: Dataset, level: Level) -> Problems:
    """Return the training texts of each node and the targets of its children.

    A node learns only from texts with a label under it: it is scored for a text only when the search reached it.
    A child's target for a text is the largest target of the text's labels under it.
    """
    grouped = data.relabelled(partition(level.child_of, len(level.node_of)))
    true, num_nodes = _pairs(grouped.labels), int(level.node_of[-1]) + 1
    members = np.unique(_keys(true, level, len(data)))
    starts = np.searchsorted(members, np.arange(num_nodes + 1) * len(data))
    truths = true
    if grouped.leave_out is not None:
        left_out = _pairs(grouped.leave_out)
        keys = _keys(left_out, level, len(data))
        there = np.isin(keys, members)
        left_out = _Pairs(left_out.text[there], left_out.child[there], np.zeros(int(there.sum()), dtype=np.float32))
        truths = _Pairs(*(np.concatenate(both) for both in zip(true, left_out, strict=True)))
    place = np.searchsorted(members, _keys(truths, level, len(data))) - starts[level.node_of[truths.child]]
    order = np.argsort(truths.child, kind="stable")
    bounds = np.searchsorted(truths.child[order], np.arange(len(level.node_of) + 1))
    return Problems(
        starts,
        (members % len(data)).astype(np.int32),
        Lists(bounds.astype(np.int64), place[order].astype(np.int32), truths.truth[order]),
    )


def _pairs(matrix: csr_array) -> _Pairs:
    text = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return _Pairs(text, matrix.indices, matrix.data.astype(np.float32))


def _keys(pairs: _Pairs, level: Level, num_texts: int) -> Int[np.ndarray, "pairs"]:
    """Return one key for each pair of node and text, ordered by node."""
    keys: Int[np.ndarray, "pairs"] = level.node_of[pairs.child].astype(np.int64) * num_texts + pairs.text
    return keys
