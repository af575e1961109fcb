"""Balanced 2-means by repeated bisection of every node until there are enough nodes.

Two random rows are the first centres. Rows are sorted by how much closer they are to one centre than to the other and
cut at the middle; each half's normalised mean is its next centre; until the mean cosine to a row's own centre stays.
The best of a few such starts is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from laconic.kernels.csr import Lists, add_row, dot, in_threads
from laconic.kernels.jit import compiled, compiled_in_any_order
from laconic.models.clustering.rows import largest

STARTS = 4  # one is often caught in a cut that tears what belongs together; eight are hardly better
GAIN = 1e-4  # of the mean cosine, below which another round or another start does not count
ROUNDS = 50  # of a start at most; a handful is usual
GRAIN = 2.0**24  # closeness is counted in such parts of 1: what is finer is noise of rounding, and would break ties


class _Space(NamedTuple):
    """Scratch arrays with a number for each feature, 0 between nodes."""

    difference: Float[np.ndarray, "features"]  # between the two centres
    left: Float[np.ndarray, "features"]  # sum of the rows of one half
    right: Float[np.ndarray, "features"]
    seen: Bool[np.ndarray, "features"]
    touched: Int[np.ndarray, "features"]


def halved(
    rows: Lists, num_features: int, labels: Int[np.ndarray, "n"], bounds: Int[np.ndarray, "bounds"], seed: int
) -> Int[np.ndarray, "n"]:
    """Order labels, whose rows have length 1, by cluster; within a cluster they keep their order.

    `bounds` say where each cluster shall begin and the last shall end.
    """
    order, clusters = labels.copy(), len(bounds) - 1
    rows = _without_numbers(rows, num_features)
    for level in range(clusters.bit_length() - 1):
        limits = bounds[:: clusters >> (level + 1)]
        _halve_all(rows, num_features, order, limits, np.random.default_rng([seed, level]))
    return order


def _without_numbers(rows: Lists, num_features: int) -> Lists:
    """Return rows that have every feature, in order, without its number: loops over them are vector instructions."""
    count = len(rows.starts) - 1
    if len(rows.numbers) != count * num_features or not num_features:
        return rows
    is_whole = (rows.numbers.reshape(count, num_features) == np.arange(num_features, dtype=np.int32)).all()
    return rows._replace(numbers=rows.numbers[:0]) if is_whole else rows


def _halve_all(
    rows: Lists,
    num_features: int,
    order: Int[np.ndarray, "n"],
    limits: Int[np.ndarray, "limits"],
    generator: np.random.Generator,
) -> None:
    """Cut each node, from every second limit to the next such one, at the limit between."""
    # Drawn for all nodes at once, so that no draw depends on how threads share the nodes.
    pairs = pairs_of_each(np.diff(limits[::2]), generator)
    cuts, cosines = np.zeros((STARTS, len(order)), dtype=np.bool_), np.zeros((STARTS, len(pairs)))
    found = cuts, cosines
    # Near the root there are fewer nodes than cores: starts are tried side by side.
    in_threads(pairs[..., 0].size, lambda *tasks: _try(rows, num_features, order, limits, pairs, tasks, found))
    _take_best_cuts(order, limits, cuts, cosines)


def pairs_of_each(sizes: Int[np.ndarray, "nodes"], generator: np.random.Generator) -> Int[np.ndarray, "nodes starts 2"]:
    """Draw for each start two different numbers below each size; for sizes of 0 and 1 they are not used."""
    sizes = np.repeat(sizes[:, None], STARTS, axis=1)
    one = generator.integers(np.maximum(sizes, 1))
    other = generator.integers(np.maximum(sizes - 1, 1))
    return np.stack([one, other + (other >= one)], axis=2)


@compiled
def _make_space(num_features):  # type: ignore[no-untyped-def]
    return _Space(
        np.zeros(num_features, dtype=np.float64),
        np.zeros(num_features, dtype=np.float64),
        np.zeros(num_features, dtype=np.float64),
        np.zeros(num_features, dtype=np.bool_),
        np.empty(num_features, dtype=np.int32),
    )


@compiled
def _try(rows, num_features, order, limits, pairs, tasks, found):  # type: ignore[no-untyped-def]
    """Try the starts of nodes that are numbered from the first to the last of `tasks`; write their cuts and cosines."""
    space, (cuts, cosines), count = _make_space(num_features), found, 0
    for task in range(tasks[0], tasks[1]):
        node, start = task // STARTS, task % STARTS
        begin, middle, end = limits[2 * node], limits[2 * node + 1], limits[2 * node + 2]
        if begin < middle < end:
            members = order[begin:end]
            if start == 0 or task == tasks[0]:
                for i in range(count):
                    space.seen[space.touched[i]] = False
                count = _touch(rows, members, space)
            in_left, cosine = _two_means(rows, members, middle - begin, pairs[node, start], count, space)
            cuts[start, begin:end], cosines[start, node] = in_left, cosine


@compiled
def _take_best_cuts(order, limits, cuts, cosines):  # type: ignore[no-untyped-def]
    """Cut every node by its best start."""
    for node in range(cosines.shape[1]):
        begin, middle, end = limits[2 * node], limits[2 * node + 1], limits[2 * node + 2]
        if begin < middle < end:
            chosen = 0
            for start in range(1, STARTS):
                if cosines[start, node] > cosines[chosen, node] + GAIN:
                    chosen = start
            members, in_left = order[begin:end].copy(), cuts[chosen, begin:end]
            order[begin:middle], order[middle:end] = members[in_left], members[~in_left]


@compiled
def _two_means(rows, members, half, pair, count, space):  # type: ignore[no-untyped-def]
    """Return which rows belong to the left half by this start, and the mean cosine of rows to their centre."""
    _add(rows, members[pair[0]], 1.0, space.difference)
    _add(rows, members[pair[1]], -1.0, space.difference)
    closeness = np.empty(len(members), dtype=np.float64)
    in_left, cosine = np.zeros(len(members), dtype=np.bool_), -1.0
    for _ in range(ROUNDS):
        for i in range(len(members)):
            closeness[i] = round(_product(rows, members[i], space.difference) * GRAIN)
        in_left = largest(closeness, half)
        for i in range(len(members)):
            _add(rows, members[i], 1.0, space.left if in_left[i] else space.right)
        before, cosine = cosine, _move_centres(space, count) / len(members)
        if cosine < before + GAIN:
            break
    for i in range(count):
        space.difference[space.touched[i]] = 0
    return in_left, cosine


@compiled
def _add(rows, row, weight, vector):  # type: ignore[no-untyped-def]
    """Add weight × row to the vector."""
    if len(rows.numbers):
        add_row(rows, row, weight, vector)
        return
    values = rows.values[rows.starts[row] : rows.starts[row + 1]]
    for i in range(len(values)):
        vector[i] += weight * values[i]


@compiled
def _product(rows, row, vector):  # type: ignore[no-untyped-def]
    if len(rows.numbers):
        return dot(rows, row, vector)
    return _whole_product(rows.values[rows.starts[row] : rows.starts[row + 1]], vector)


@compiled_in_any_order
def _whole_product(values, vector):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(values)):
        total += values[i] * vector[i]
    return total


@compiled
def _touch(rows, members, space):  # type: ignore[no-untyped-def]
    """Collect the features of these rows; return their number."""
    count = 0
    if len(rows.numbers) == 0:
        for feature in range(len(space.seen)):
            space.seen[feature], space.touched[feature] = True, feature
        return len(space.seen)
    for member in members:
        for i in range(rows.starts[member], rows.starts[member + 1]):
            feature = rows.numbers[i]
            if not space.seen[feature]:
                space.seen[feature] = True
                space.touched[count] = feature
                count += 1
    return count


@compiled
def _move_centres(space, count):  # type: ignore[no-untyped-def]
    """Turn both sums into centres and clear them; return the sum of all rows' cosines to their centre."""
    # Rows of a half add up to a vector whose length is the sum of their cosines to its direction.
    left, right = 0.0, 0.0
    for i in range(count):
        left += space.left[space.touched[i]] ** 2
        right += space.right[space.touched[i]] ** 2
    left, right = np.sqrt(left), np.sqrt(right)
    for i in range(count):
        feature = space.touched[i]
        space.difference[feature] = _ratio(space.left[feature], left) - _ratio(space.right[feature], right)
        space.left[feature] = space.right[feature] = 0
    return left + right


@compiled
def _ratio(part, whole):  # type: ignore[no-untyped-def]
    return part / whole if whole > 0 else 0.0
