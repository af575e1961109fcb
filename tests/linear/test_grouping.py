"""Weights grouped into rows and rows sorted by feature, against a plain twin."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from laconic.models.label_trees import rows as grouping
from laconic.models.label_trees.rows import Entries, by_feature, rows_of

Weights = dict[tuple[int, int], dict[int, int]]  # of each place, by node and feature


def drawn(count: int, seed: int) -> Entries:
    """Distinct weights in any order, in few nodes and in places that a step of one byte does not always reach."""
    generator = np.random.default_rng(seed)
    keys = generator.permutation(np.unique(generator.integers(0, 7 * 11 * 900, count)))
    (nodes, rest) = np.divmod(keys, 11 * 900)
    features, places = np.divmod(rest, 900)
    values = generator.integers(1, 127, len(keys)).astype(np.int8)
    return Entries(*(part.astype(np.int32) for part in (nodes, features, places)), values)


def plain(entries: Entries, first_node: int = 0) -> Weights:
    found: Weights = {}
    for node, feature, place, value in zip(*(part.tolist() for part in entries), strict=True):
        found.setdefault((node + first_node, feature), {})[place] = value
    return found


def read(starts: np.ndarray, steps: np.ndarray, values: np.ndarray) -> list[dict[int, int]]:
    rows = []
    for begin, end in pairwise(starts.tolist()):
        places = np.cumsum(steps[begin:end], dtype=np.int64).tolist()
        pairs = zip(places, values[begin:end].tolist(), strict=True)
        rows.append({place: value for place, value in pairs if value})
    return rows


@pytest.mark.parametrize("together", [1, 40, 1 << 20])
def test_rows_are_those_of_a_plain_twin_however_many_weights_are_grouped_at_a_time(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping, "_TOGETHER", together)
    entries = drawn(600, seed=1)
    rows = rows_of(entries)
    keys = list(zip(rows.nodes.tolist(), rows.features.tolist(), strict=True))
    assert keys == sorted(keys)
    assert dict(zip(keys, read(*rows.weights), strict=True)) == plain(entries)


def test_no_weights_are_no_rows() -> None:
    rows = rows_of(Entries(*(np.zeros(0, dtype=np.int32),) * 3, np.zeros(0, dtype=np.int8)))
    assert len(rows.nodes) == len(rows.features) == len(rows.weights.numbers) == 0
    assert rows.weights.starts.tolist() == [0]


def test_rows_of_several_parts_are_sorted_by_feature_and_node() -> None:
    several = [drawn(300, seed) for seed in range(3)]
    rows = [rows_of(entries) for entries in several]
    moved = [part._replace(nodes=part.nodes + np.int32(7 * number)) for number, part in enumerate(rows)]
    feature_starts, nodes, blocks, weights = by_feature(moved, 21)
    features = np.repeat(np.arange(len(feature_starts) - 1), np.diff(feature_starts)).tolist()
    keys = list(zip(features, nodes.tolist(), strict=True))
    assert keys == sorted(keys)
    starts = np.repeat(blocks, 16)[: len(weights.starts)] + weights.starts
    found = dict(zip(((node, feature) for feature, node in keys), read(starts, *weights[1:]), strict=True))
    assert found == {
        key: row for number, entries in enumerate(several) for key, row in plain(entries, 7 * number).items()
    }
