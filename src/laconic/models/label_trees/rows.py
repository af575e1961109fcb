"""The weights of label trees: grouped in rows, sorted by feature, and in as few bytes as they take.

A weight takes two bytes. Its value is a whole number from -127 to 127, times the scale of its classifier. Its child is
given by the step from the child before it; longer steps are bridged by weights of 0. A row, the weights of one node and
one feature, takes four bytes more where that is enough: two for its node, and two for where its weights begin, counted
from the first row of its block. Where there are more nodes than two bytes can number, they are split into banks of
65,536 neighbours, and the rows of each feature into those of each bank, which number their nodes from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Integer

from laconic.kernels.csr import Lists
from laconic.kernels.jit import compiled
from laconic.models.label_trees.search import BANK_BITS, BLOCK_BITS, num_banks

_LARGEST, _LONGEST = 127, 255  # a weight's whole number, and a step
_TOGETHER = 1 << 22  # weights that are grouped at a time, unless a node has more


class Entries(NamedTuple):
    """Weights in coordinate form: node, feature, position of the child in the node, value."""

    nodes: Int[np.ndarray, "pairs"]
    features: Int[np.ndarray, "pairs"]
    places: Int[np.ndarray, "pairs"]
    values: Int[np.ndarray, "pairs"]  # to be multiplied with the child's scale


class Rows(NamedTuple):
    """Weights grouped in one row for each pair of node and feature that has any."""

    nodes: Int[np.ndarray, "rows"]
    features: Int[np.ndarray, "rows"]
    weights: Lists  # as a forest has them


def quantise(
    values: Float[np.ndarray, "pairs"], children: Int[np.ndarray, "pairs"], num_children: int
) -> tuple[Int[np.ndarray, "pairs"], Float[np.ndarray, "children"]]:
    """Return weights as whole numbers up to 127, and the scale of each child."""
    largest = np.zeros(num_children, dtype=np.float32)
    np.maximum.at(largest, children, np.abs(values).astype(np.float32))
    scales = np.where(largest > 0, largest, 1).astype(np.float32) / np.float32(_LARGEST)
    return np.rint(values / scales[children]).astype(np.int8), scales


def no_scales(children: int) -> Float[np.ndarray, "children"]:
    """Return the scales of children without weights."""
    return np.ones(children, dtype=np.float32) / np.float32(_LARGEST)


def rows_of(entries: Entries) -> Rows:
    """Group weights by node and feature; some millions at a time, since sorting takes many times their own memory."""
    order, ends = _sorted_by([entries.nodes]), np.bincount(entries.nodes, minlength=1).cumsum()
    cuts = np.unique(ends[np.searchsorted(ends, np.arange(_TOGETHER, len(order), _TOGETHER))])  # whole nodes
    parts = [_grouped(entries, one) for one in np.split(order, cuts) if len(one)]
    return join_rows(parts or [_grouped(entries, order)])


def _grouped(entries: Entries, chosen: Int[np.ndarray, "chosen"]) -> Rows:
    """Group some of the weights by node and feature."""
    nodes, features, places, values = (part[chosen] for part in entries)
    order = _sorted_by([nodes, features, places])
    nodes, features = nodes[order].astype(np.int32), features[order].astype(np.int32)
    begins = np.flatnonzero((np.diff(nodes, prepend=-1) != 0) | (np.diff(features, prepend=-1) != 0))
    weights = _in_steps(np.append(begins, len(order)), places[order], values[order])
    return Rows(nodes[begins], features[begins], weights)


def _sorted_by(keys: Sequence[Integer[np.ndarray, "n"]]) -> Int[np.ndarray, "n"]:
    """Return the order by the first key, among equals by the next; keys are small, so that counting sorts fastest."""
    count = len(keys[0])
    order = np.arange(count, dtype=np.int32 if count <= np.iinfo(np.int32).max else np.int64)
    for key in reversed(keys):
        counts = np.zeros(int(key.max(initial=0)) + 1, dtype=np.int64)
        _count(key, counts)
        _deal_out(key, order.copy(), counts.cumsum() - counts, order)
    return order


@compiled
def _count(keys, counts):  # type: ignore[no-untyped-def]
    for key in keys:
        counts[key] += 1


@compiled
def _deal_out(key, order, places, into):  # type: ignore[no-untyped-def]
    """Write each number to the next place of its key."""
    for number in order:
        into[places[key[number]]] = number
        places[key[number]] += 1


def _in_steps(
    starts: Int[np.ndarray, "rows+1"], places: Int[np.ndarray, "pairs"], values: Int[np.ndarray, "pairs"]
) -> Lists:
    """Return rows of ascending positions as steps of one byte; no row is empty."""
    steps = np.diff(places.astype(np.int64), prepend=0)
    steps[starts[:-1]] = places[starts[:-1]]
    bridges = np.maximum(steps - 1, 0) // _LONGEST
    ends = np.concatenate([[0], np.cumsum(bridges + 1)])
    numbers, weights = np.full(ends[-1], _LONGEST, dtype=np.uint8), np.zeros(ends[-1], dtype=np.int8)
    numbers[ends[1:] - 1], weights[ends[1:] - 1] = steps - _LONGEST * bridges, values
    return Lists(narrow(ends[starts]), numbers, weights)


def by_feature(
    parts: Sequence[Rows], num_nodes: int
) -> tuple[Int[np.ndarray, "starts"], Integer[np.ndarray, "rows"], Int[np.ndarray, "blocks"], Lists]:
    """Sort rows by feature and node; return where nodes begin by feature and bank, the nodes, blocks and weights.

    Nodes of a part come after those of the parts before it, and ascend within each of its features.
    """
    features = max(int(part.features.max(initial=-1)) for part in parts) + 1
    banks, kind = _narrowest(num_nodes, features, sum(len(part.nodes) for part in parts))
    counts = np.zeros(features * banks + 1, dtype=np.int64)
    for part in parts:
        _count_rows(part, banks, counts[1:])
    starts = counts.cumsum()
    nodes, bounds = np.empty(starts[-1], dtype=kind), np.zeros(starts[-1] + 1, dtype=np.int64)
    places = starts.copy()
    for part in parts:
        _place_rows(part, banks, places, nodes, bounds[1:])
    bounds = narrow(bounds.cumsum(out=bounds))
    weights = Lists(bounds, np.empty(bounds[-1], dtype=np.uint8), np.empty(bounds[-1], dtype=np.int8))
    places = starts.copy()
    for part in parts:
        _copy_rows(part, banks, places, weights)
    return narrow(starts), nodes, *_in_blocks(weights)


def _narrowest(num_nodes: int, features: int, rows: int) -> tuple[int, type[np.uint16 | np.int32]]:
    """Return the number of banks and the kind of nodes that take fewest bytes, bounds included."""
    banks, bound = int(num_banks(2, num_nodes)), narrow(np.array([rows])).itemsize
    saved, added = (4 - 2) * rows, bound * (banks - 1) * features
    return (banks, np.uint16) if added <= saved else (1, np.int32)


@compiled
def _group(rows, row, banks):  # type: ignore[no-untyped-def]
    """Return the number of a row's feature and bank."""
    bank = rows.nodes[row] >> BANK_BITS if banks > 1 else 0
    return np.int64(rows.features[row]) * banks + bank


@compiled
def _count_rows(rows, banks, counts):  # type: ignore[no-untyped-def]
    for row in range(len(rows.nodes)):
        counts[_group(rows, row, banks)] += 1


@compiled
def _place_rows(rows, banks, places, nodes, sizes):  # type: ignore[no-untyped-def]
    """Write the node and the size of each row to the next place of its feature and bank."""
    for row in range(len(rows.nodes)):
        group = _group(rows, row, banks)
        place = places[group]
        places[group] += 1
        nodes[place] = rows.nodes[row]  # of numbers of two bytes, what the bank does not say
        sizes[place] = rows.weights.starts[row + 1] - rows.weights.starts[row]


@compiled
def _copy_rows(rows, banks, places, weights):  # type: ignore[no-untyped-def]
    """Copy the weights of each row to the next place of its feature and bank."""
    for row in range(len(rows.nodes)):
        group = _group(rows, row, banks)
        begin, place = rows.weights.starts[row], places[group]
        places[group] += 1
        for i in range(rows.weights.starts[row + 1] - begin):
            weights.numbers[weights.starts[place] + i] = rows.weights.numbers[begin + i]
            weights.values[weights.starts[place] + i] = rows.weights.values[begin + i]


def _in_blocks(weights: Lists) -> tuple[Int[np.ndarray, "blocks"], Lists]:
    """Return where every block of rows begins, and where each row begins after that."""
    blocks = weights.starts[:: 1 << BLOCK_BITS].copy()
    after = np.repeat(blocks, 1 << BLOCK_BITS)[: len(weights.starts)]
    np.subtract(weights.starts, after, out=after)
    if after.max() > np.iinfo(np.uint16).max:
        return no_blocks(len(after) - 1), weights
    return blocks, weights._replace(starts=after.astype(np.uint16))


def no_blocks(rows: int) -> Int[np.ndarray, "blocks"]:
    """Return the blocks of a forest whose rows start where they say, as earlier versions stored them."""
    return np.zeros((rows >> BLOCK_BITS) + 1, dtype=np.int32)


def narrow(starts: Int[np.ndarray, "bounds"]) -> Int[np.ndarray, "bounds"]:
    """Return bounds in four bytes each where these suffice, in eight otherwise."""
    return starts.astype(np.int32 if starts[-1] <= np.iinfo(np.int32).max else np.int64)


def join_rows(parts: Sequence[Rows]) -> Rows:
    nodes, features = (np.concatenate(both) for both in list(zip(*parts, strict=True))[:2])
    return Rows(nodes, features, join_lists([part.weights for part in parts]))


def join_lists(parts: Sequence[Lists]) -> Lists:
    return Lists(
        join_starts([part.starts for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def join_starts(parts: Sequence[Int[np.ndarray, "..."]]) -> Int[np.ndarray, "starts"]:
    """Concatenate arrays of range bounds, each shifted by the ranges before it."""
    lasts = np.cumsum([0, *(part[-1] for part in parts)])
    moved = [part[:-1] + last for part, last in zip(parts, lasts, strict=False)]
    return np.concatenate([*moved, lasts[-1:]]).astype(np.int64)
