"""Random forests: as shapes they are right, and what they say is known from their arrays written out in full."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from laconic.kernels.checks import for_kernels
from laconic.kernels.csr import Lists
from laconic.models.label_trees.forest import Forest, join_trees, starts_of
from laconic.models.label_trees.rows import Entries, by_feature, quantise, rows_of

LABELS, FEATURES = 23, 9


def forest(trees: int = 3, labels: int = LABELS, seed: int = 0) -> Forest:
    return frozen(join_trees([_tree(labels, np.random.default_rng([seed, number])) for number in range(trees)]))


def frozen(forest: Forest) -> Forest:
    """As rankers have it, so that nothing is compiled anew."""
    return Forest(*map(for_kernels, forest[:-1]), Lists(*map(for_kernels, forest.weights)))


def queries(texts: int = 12, seed: int = 0) -> Lists:
    generator = np.random.default_rng(seed)
    table = generator.random((texts, FEATURES + 3)) * (generator.random((texts, FEATURES + 3)) < 0.5)
    return Lists.of(csr_array(table.astype(np.float32)))


def slow_scores(forest: Forest, asked: Lists, labels: int = LABELS) -> np.ndarray:
    """Of every label, by walking from every root through every child: texts × labels."""
    table = csr_array(
        (asked.values, asked.numbers, asked.starts), shape=(len(asked.starts) - 1, FEATURES + 3)
    ).toarray()
    scores = np.zeros((len(table), labels))
    feature_of = np.repeat(np.arange(len(forest.feature_starts) - 1), np.diff(forest.feature_starts))
    starts = starts_of(forest)

    def walk(node: int, losses: np.ndarray) -> None:
        rows = np.flatnonzero(forest.nodes == node)
        for place, child in enumerate(range(forest.child_starts[node], forest.child_starts[node + 1])):
            weights = np.zeros(table.shape[1])
            for row in rows:
                own = slice(starts[row], starts[row + 1])
                at = np.cumsum(forest.weights.numbers[own], dtype=np.int64)
                weights[feature_of[row]] = forest.scales[child] * forest.weights.values[own][at == place].sum()
            below = losses + np.maximum(0, 1 - (table @ weights + forest.biases[child])) ** 2
            target = int(forest.targets[child])
            if target < 0:
                scores[:, -1 - target] += np.exp(-below) / len(forest.roots)
            else:
                walk(target, below)

    for root in forest.roots:
        walk(int(root), np.zeros(len(table)))
    return scores


def _tree(labels: int, generator: np.random.Generator) -> Forest:
    """A root with three nodes, one of which has two more below it; labels are dealt out to the last ones."""
    leaves = generator.integers(4, size=labels)
    under = [np.flatnonzero(leaves == leaf) for leaf in range(4)]
    targets = [np.array([1, 2, 3]), np.array([4, 5]), *(-1 - part for part in (under[2], under[3], under[0], under[1]))]
    starts = np.cumsum([0, *map(len, targets)])
    nodes = np.repeat(np.arange(6), np.diff(starts))
    here = generator.random((len(nodes), FEATURES)) < 0.5
    child, feature = np.nonzero(here)
    values, scales = quantise(generator.normal(size=len(child)), child, len(nodes))
    entries = Entries(nodes[child], feature, child - starts[nodes[child]], values)
    return Forest(
        np.zeros(1, dtype=np.int32),
        starts.astype(np.int64),
        np.concatenate(targets).astype(np.int32),
        generator.normal(size=len(nodes)).astype(np.float32),
        scales,
        *by_feature([rows_of(entries)], 6),
    )
