"""Learn the sparse linear classifiers of one tree level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from laconic.kernels.csr import Lists, in_threads
from laconic.kernels.jit import compiled
from laconic.models.label_trees.rows import Entries, Rows, no_scales, quantise, rows_of
from laconic.models.label_trees.solver import STATE, TOGETHER, SolverSettings, shuffle, solve
from laconic.system.machine import usable_cores

_PARTS_OF_CORE = 16  # of a level's work; fewer, and some cores wait for others at its end
EMPTY_SCORE = -1.0  # the score of a child without training texts


class LearnSettings(NamedTuple):
    """How classifiers are regularised, thresholded and solved."""

    cost: float  # weight of the loss, where the weights' squared length has 1/2
    threshold: float  # weights below it are dropped
    solving: SolverSettings


class Problems(NamedTuple):
    """The training texts of each node of a level, and the targets of each child."""

    starts: Int[np.ndarray, "nodes+1"]  # where each node's texts begin
    texts: Int[np.ndarray, "members"]
    # For each child, positions among its node's texts and the target; 0: the text is left out.
    truths: Lists


class Weights(NamedTuple):
    """The biases and scales of a level's children, and their rows of weights; nodes are counted within the level."""

    biases: Float[np.ndarray, "children"]
    scales: Float[np.ndarray, "children"]
    rows: Rows


class _Found(NamedTuple):
    """Learnt weights in coordinate form, in the order of learning."""

    children: Int[np.ndarray, "pairs"]
    features: Int[np.ndarray, "pairs"]
    values: Num[np.ndarray, "pairs"]


def learn(
    texts: Lists,
    text_weights: Float[np.ndarray, "texts"],
    problems: Problems,
    node_of: Int[np.ndarray, "children"],
    learning: LearnSettings,
    advance: Callable[[float], None] = lambda fraction: None,
) -> Weights:
    """Learn the classifiers of one level. Rows of texts have length 1; weights do not depend on the thread count.

    `advance` gets the fraction of the level that is learnt, time and again.
    """
    units, costs = _units(node_of), learning.cost * text_weights
    biases, scales = np.full(len(node_of), EMPTY_SCORE, dtype=np.float32), no_scales(len(node_of))
    num_features = int(texts.numbers.max(initial=-1)) + 1
    sizes = np.diff(problems.starts)[units[:, 0]]
    largest_first = np.argsort(-sizes, kind="stable")
    learnt = np.cumsum(sizes[largest_first]) / max(1, sizes.sum())  # fractions after so many units
    parts = _parts(learnt, usable_cores() * _PARTS_OF_CORE)
    found: list[_Found] = [_Found(*(np.zeros(0, dtype=np.int32),) * 3)] * len(parts)
    waiting, done = iter(range(len(parts))), count(0)

    def work(first: int, last: int) -> None:
        places = np.full(num_features, -1, dtype=np.int32)
        for number in waiting:  # whichever thread is free takes the next
            own = units[largest_first[parts[number]]]
            found[number] = _in_bytes(_learn(texts, costs, problems, learning, own, (places, biases)), scales)
            advance(float(learnt[parts[next(done)].stop - 1]))

    in_threads(usable_cores(), work)
    entries = _entries(found, node_of)
    found.clear()  # there are many
    return Weights(biases, scales, rows_of(entries))


def _in_bytes(found: _Found, scales: Float[np.ndarray, "children"]) -> _Found:
    """Return weights as whole numbers, and write the scales of their children, which have no others."""
    values, own = quantise(found.values, found.children, len(scales))
    scales[found.children] = own[found.children]
    return found._replace(values=values)


def _entries(found: Sequence[_Found], node_of: Int[np.ndarray, "children"]) -> Entries:
    """Return all weights with their nodes and the places of their children in these."""
    children, features, values = (np.concatenate(several) for several in zip(*found, strict=True))
    first = np.searchsorted(node_of, np.arange(int(node_of[-1]) + 1)).astype(np.int32)
    nodes = node_of.astype(np.int32)[children]
    return Entries(nodes, features, children - first[nodes], values)


def _units(node_of: Int[np.ndarray, "children"]) -> Int[np.ndarray, "units 3"]:
    """Split the children of nodes into tasks: (node, first child, end)."""
    starts = np.searchsorted(node_of, np.arange(int(node_of[-1]) + 2))
    return np.array(
        [
            (node, first, min(first + TOGETHER, starts[node + 1]))
            for node in range(len(starts) - 1)
            for first in range(starts[node], starts[node + 1], TOGETHER)
        ]
    )


def _parts(learnt: Float[np.ndarray, "units"], most: int) -> list[slice]:
    """Divide units into parts of about the same work: threads of Python wait for each other between them."""
    ends = np.unique(np.searchsorted(learnt, np.arange(1, most) / most))
    return [slice(first, last) for first, last in pairwise([0, *ends[ends > 0].tolist(), len(learnt)]) if first < last]


@compiled
def _learn(texts, costs, problems, learning, units, workspace):  # type: ignore[no-untyped-def]
    """Learn the children of some units: write their biases, return their weights."""
    found, count, before, (places, biases) = _space(1024), 0, -1, workspace
    rows, features, order = texts, texts.numbers[:0], np.arange(0)
    for node, first, last in units:
        members = problems.texts[problems.starts[node] : problems.starts[node + 1]]
        if node != before:  # its other units follow
            order = _shuffled(len(members))
            rows, features = _numbered_anew(texts, members, order, places)
            before = node
        row_of = np.empty(len(members), dtype=np.int32)
        row_of[order] = np.arange(len(members), dtype=np.int32)
        targets = _targets_of(problems, first, last, row_of, costs[members[order]])
        weights, scores = np.zeros((len(features), TOGETHER), dtype=np.float32), np.zeros(TOGETHER, dtype=np.float32)
        solve(rows, targets, learning.solving, weights, scores)
        for child in range(first, last):
            if (targets[:, child - first] > 0).any():
                biases[child] = scores[child - first]
                found, count = _collect(weights[:, child - first], features, learning.threshold, child, found, count)
    return _Found(found[0][:count].copy(), found[1][:count].copy(), found[2][:count].copy())


@compiled
def _collect(weights, features, threshold, child, found, count):  # type: ignore[no-untyped-def]
    """Write the weights of a child after those found before; return them and their number."""
    for i in range(len(features)):
        if abs(weights[i]) >= threshold:
            if count == len(found[0]):
                found = _doubled(found)
            found[0][count], found[1][count], found[2][count] = child, features[i], weights[i]
            count += 1
    return found, count


@compiled
def _shuffled(count):  # type: ignore[no-untyped-def]
    """Return a fixed random order: neighbouring texts are often alike, which slows convergence."""
    order = np.arange(count)
    shuffle(order, np.uint64(STATE))
    return order


@compiled
def _numbered_anew(texts, members, order, places):  # type: ignore[no-untyped-def]
    """Return the members' rows in that order with features renumbered from 0, and the original feature of each.

    `places` is scratch space that holds -1 everywhere before and after.
    """
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
def _targets_of(problems, first, last, row_of, costs):  # type: ignore[no-untyped-def]
    """Return the costs of a node's texts for its children, with the sign of the target; 0: the child has no say.

    Children without a true text, and columns beyond the last child, have zeros.
    """
    targets = np.zeros((len(costs), TOGETHER), dtype=np.float32)
    for child in range(first, last):
        begin, end = problems.truths.starts[child], problems.truths.starts[child + 1]
        if not (problems.truths.values[begin:end] > 0).any():
            continue
        targets[:, child - first] = -costs
        for i in range(begin, end):
            row = row_of[problems.truths.numbers[i]]
            targets[row, child - first] = costs[row] * problems.truths.values[i]
    return targets


@compiled
def _space(size):  # type: ignore[no-untyped-def]
    return np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32)


@compiled
def _doubled(space):  # type: ignore[no-untyped-def]
    size = len(space[0])
    more = _space(2 * size)
    more[0][:size], more[1][:size], more[2][:size] = space
    return more
