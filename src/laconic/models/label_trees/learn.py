"""The classifiers of a tree, learnt level by level; a node's texts and features are numbered anew, so that they are few
and lie together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.kernels.csr import Lists, in_threads
from laconic.kernels.jit import compiled
from laconic.models.label_trees.forest import Entries, Rows, rows_of
from laconic.models.label_trees.problems import Problems
from laconic.models.label_trees.solver import STATE, Solving, shuffle, solve
from laconic.system.machine import usable_cores

_AT_ONCE = 8  # children of a node that are learnt together: so threads share large nodes too
NOTHING = -1.0  # the score of a child that no text has


class Learning(NamedTuple):
    cost: float  # of a mistake, where the weights' own length costs 1/2
    threshold: float  # weights below it are dropped
    solving: Solving


class Weights(NamedTuple):
    """Of a level's children: a bias each, and rows of weights, whose nodes are counted within the level."""

    biases: Float[np.ndarray, "children"]
    rows: Rows


class _Found(NamedTuple):
    """Weights in the order in which they were learnt."""

    children: Int[np.ndarray, "pairs"]
    features: Int[np.ndarray, "pairs"]
    values: Float[np.ndarray, "pairs"]


def learn(
    texts: Lists,
    text_weights: Float[np.ndarray, "texts"],
    problems: Problems,
    node_of: Int[np.ndarray, "children"],
    learning: Learning,
) -> Weights:
    """The classifiers of one level. Rows of texts have length 1; same data, same weights, however many threads."""
    units, costs = _units(node_of), learning.cost * text_weights
    biases = np.full(len(node_of), NOTHING, dtype=np.float32)
    found: list[_Found] = [_Found(*(np.zeros(0),) * 3)] * len(units)
    num_features = int(texts.numbers.max(initial=-1)) + 1
    largest_first = np.argsort(-np.diff(problems.starts)[units[:, 0]], kind="stable")
    waiting = iter(largest_first.tolist())

    def work(first: int, last: int) -> None:
        places = np.full(num_features, -1, dtype=np.int32)
        for number in waiting:  # whichever thread is free takes the next
            found[number] = _learn(texts, costs, problems, learning, units[number], (places, biases))

    in_threads(usable_cores(), work)
    children, features, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    first = np.searchsorted(node_of, np.arange(int(node_of[-1]) + 1))
    nodes = node_of[children]
    return Weights(biases, rows_of(Entries(nodes, features, children - first[nodes], values)))


def _units(node_of: Int[np.ndarray, "children"]) -> Int[np.ndarray, "units 3"]:
    """A node, and from which of its children to which."""
    starts = np.searchsorted(node_of, np.arange(int(node_of[-1]) + 2))
    return np.array(
        [
            (node, first, min(first + _AT_ONCE, starts[node + 1]))
            for node in range(len(starts) - 1)
            for first in range(starts[node], starts[node + 1], _AT_ONCE)
        ]
    )


@compiled
def _learn(texts, costs, problems, learning, unit, room):  # type: ignore[no-untyped-def]
    """Fills in the biases of some children of a node; returns their weights."""
    (node, first, last), (places, biases) = unit, room
    members = problems.texts[problems.starts[node] : problems.starts[node + 1]]
    order = _shuffled(len(members))
    rows, features = _numbered_anew(texts, members, order, places)
    row_of = np.empty(len(members), dtype=np.int32)
    row_of[order] = np.arange(len(members), dtype=np.int32)
    weights = np.empty(len(features))
    found, count = _space(1024), 0
    for child in range(first, last):
        signs, own_costs = _told(problems, child, row_of, costs[members[order]])
        if not (signs > 0).any():
            continue
        weights[:] = 0
        biases[child] = solve(rows, signs, own_costs, learning.solving, weights)
        for i in range(len(features)):
            if abs(weights[i]) >= learning.threshold:
                if count == len(found[0]):
                    found = _doubled(found)
                found[0][count], found[1][count], found[2][count] = child, features[i], weights[i]
                count += 1
    return _Found(found[0][:count].copy(), found[1][:count].copy(), found[2][:count].copy())


@compiled
def _shuffled(count):  # type: ignore[no-untyped-def]
    """The same mixed order for the same count: texts that lie together are often alike, which slows learning down."""
    order = np.arange(count)
    shuffle(order, np.uint64(STATE))
    return order


@compiled
def _numbered_anew(texts, members, order, places):  # type: ignore[no-untyped-def]
    """The members' rows in that order, and which feature each of their numbers stands for; `places` stay all -1."""
    starts = np.zeros(len(members) + 1, dtype=np.int64)
    for row in range(len(members)):
        text = members[order[row]]
        starts[row + 1] = starts[row] + texts.starts[text + 1] - texts.starts[text]
    numbers, values = np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1], dtype=np.float32)
    features, count = np.empty(min(starts[-1], len(places)), dtype=np.int32), 0
    for row in range(len(members)):
        begin = texts.starts[members[order[row]]]
        for i in range(starts[row + 1] - starts[row]):
            feature = texts.numbers[begin + i]
            if places[feature] < 0:
                places[feature] = count
                features[count] = feature
                count += 1
            numbers[starts[row] + i], values[starts[row] + i] = places[feature], texts.values[begin + i]
    for i in range(count):
        places[features[i]] = -1
    return Lists(starts, numbers, values), features[:count]


@compiled
def _told(problems, child, row_of, costs):  # type: ignore[no-untyped-def]
    """The signs of a node's texts for one child, and what each mistake costs."""
    signs = np.full(len(costs), -1.0)
    for i in range(problems.told.starts[child], problems.told.starts[child + 1]):
        row, truth = row_of[problems.told.numbers[i]], problems.told.values[i]
        costs[row] *= truth
        if truth > 0:
            signs[row] = 1.0
    return signs, costs


@compiled
def _space(size):  # type: ignore[no-untyped-def]
    return np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32)


@compiled
def _doubled(space):  # type: ignore[no-untyped-def]
    size = len(space[0])
    more = _space(2 * size)
    more[0][:size], more[1][:size], more[2][:size] = space
    return more
