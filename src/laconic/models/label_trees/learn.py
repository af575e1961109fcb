"""Learn the sparse linear classifiers of one tree level: squared hinge loss, L2, dual coordinate descent.

For texts x with sign y and cost c, w minimises |w|²/2 + Σ c·max(0, 1 − y w·x)². Its dual has a variable a ≥ 0 for each
text, and w = Σ a y x; each in turn is set to where its own gradient is 0 (Hsieh et al., ICML 2008, algorithm 1 with the
shrinking of section 3.2). Every text has one more feature, which is BIAS and whose weight times BIAS is the bias.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.kernels.csr import Lists, add_row, dot, in_threads
from laconic.kernels.jit import compiled
from laconic.models.label_trees.forest import Entries, Rows, rows_of
from laconic.system.machine import usable_cores

_AT_ONCE = 8  # children of a node that one task learns, so that threads can share large nodes
EMPTY_SCORE = -1.0  # the score of a child without training texts
# Texts are taken in contiguous runs, the runs in random order: sequential order converges slowly, fully random order
# reads memory slowly.
_RUN = 16
_RUNS = 64  # at least, where there are as many texts
STATE = 88172645463325252  # seed of the random orders; any number but 0
# A feature that all texts share ties their dual variables together. With the usual 1, eight epochs are not enough, and
# rare labels score worse after any number of them (docs/log.md).
BIAS = 0.25


class SolverSettings(NamedTuple):
    """When the solver stops."""

    tolerance: float  # the most by which gradients may differ in the end
    epochs: int  # over all texts at most


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
    """The biases of a level's children, and their rows of weights; nodes are counted within the level."""

    biases: Float[np.ndarray, "children"]
    rows: Rows


class _Found(NamedTuple):
    """Learnt weights in coordinate form, in the order of learning."""

    children: Int[np.ndarray, "pairs"]
    features: Int[np.ndarray, "pairs"]
    values: Float[np.ndarray, "pairs"]


def learn(
    texts: Lists,
    text_weights: Float[np.ndarray, "texts"],
    problems: Problems,
    node_of: Int[np.ndarray, "children"],
    learning: LearnSettings,
) -> Weights:
    """Learn the classifiers of one level. Rows of texts have length 1; weights do not depend on the thread count."""
    units, costs = _units(node_of), learning.cost * text_weights
    biases = np.full(len(node_of), EMPTY_SCORE, dtype=np.float32)
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
    """Split the children of nodes into tasks: (node, first child, end)."""
    starts = np.searchsorted(node_of, np.arange(int(node_of[-1]) + 2))
    return np.array(
        [
            (node, first, min(first + _AT_ONCE, starts[node + 1]))
            for node in range(len(starts) - 1)
            for first in range(starts[node], starts[node + 1], _AT_ONCE)
        ]
    )


@compiled
def _learn(texts, costs, problems, learning, unit, workspace):  # type: ignore[no-untyped-def]
    """Learn some children of a node: write their biases, return their weights."""
    (node, first, last), (places, biases) = unit, workspace
    members = problems.texts[problems.starts[node] : problems.starts[node + 1]]
    order = _shuffled(len(members))
    rows, features = _numbered_anew(texts, members, order, places)
    row_of = np.empty(len(members), dtype=np.int32)
    row_of[order] = np.arange(len(members), dtype=np.int32)
    weights = np.empty(len(features))
    found, count = _space(1024), 0
    for child in range(first, last):
        signs, own_costs = _targets_of(problems, child, row_of, costs[members[order]])
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
def _targets_of(problems, child, row_of, costs):  # type: ignore[no-untyped-def]
    """Return the signs of a node's texts for one child, and the cost of each text's loss."""
    signs = np.full(len(costs), -1.0)
    for i in range(problems.truths.starts[child], problems.truths.starts[child + 1]):
        row, truth = row_of[problems.truths.numbers[i]], problems.truths.values[i]
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


@compiled
def solve(rows, signs, costs, solving, weights):  # type: ignore[no-untyped-def]
    """Fill the weights, which are zeros before, and return the bias. Texts of cost 0 are ignored."""
    duals, squares, truths = np.zeros(len(signs)), _squares(rows), np.flatnonzero(costs > 0)
    active, bias, highest, state = truths, 0.0, np.inf, np.uint64(STATE)
    resting = np.zeros(len(signs), dtype=np.bool_)
    for _ in range(solving.epochs):
        most, least = -np.inf, np.inf
        run = max(1, min(_RUN, len(active) // _RUNS))
        order = np.arange((len(active) + run - 1) // run)
        state = shuffle(order, state)
        for first in order * run:
            for text in active[first : first + run]:
                diagonal = 0.5 / costs[text]
                gradient = signs[text] * (dot(rows, text, weights) + bias) - 1 + diagonal * duals[text]
                if duals[text] == 0 and gradient > 0:
                    resting[text] = gradient > highest  # its dual stays 0: shrink it away
                    most = max(most, 0.0)
                    least = min(least, 0.0)
                    continue
                most, least = max(most, gradient), min(least, gradient)
                before = duals[text]
                duals[text] = max(before - gradient / (squares[text] + diagonal), 0.0)
                step = (duals[text] - before) * signs[text]
                add_row(rows, text, step, weights)
                bias += step * BIAS**2
        if most - least > solving.tolerance:
            highest = most if most > 0 else np.inf
            active = active[~resting[active]]
        elif len(active) == len(truths):
            break
        else:  # once more over all
            resting[:] = False
            active, highest = truths, np.inf
    return bias


@compiled
def shuffle(numbers, state):  # type: ignore[no-untyped-def]
    """Shuffle the numbers in place and return the generator's next state (Marsaglia's xorshift)."""
    for i in range(len(numbers) - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        other = np.int64(state % np.uint64(i + 1))
        numbers[i], numbers[other] = numbers[other], numbers[i]
    return state


@compiled
def _squares(rows):  # type: ignore[no-untyped-def]
    squares = np.full(len(rows.starts) - 1, BIAS**2)
    for row in range(len(squares)):
        for i in range(rows.starts[row], rows.starts[row + 1]):
            squares[row] += float(rows.values[i]) ** 2
    return squares
