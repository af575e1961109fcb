"""Linear classifiers by squared hinge loss and L2: dual coordinate descent for a few classifiers of the same texts.

For texts x with sign y and cost c, w minimises |w|²/2 + Σ c·max(0, 1 − y w·x)². Its dual has a variable a ≥ 0 for each
text, and w = Σ a y x; each in turn is set to where its own gradient is 0 (Hsieh et al., ICML 2008, algorithm 1). Every
text has one more feature, which is BIAS and whose weight times BIAS is the bias.

Nearly all texts are false of a classifier and soon have a dual of 0, which stays. An epoch is therefore one pass over
all texts and _BETWEEN passes over those alone whose duals can change. The pass over all texts is made for TOGETHER
classifiers at once: their weights of a word lie side by side, so that each word is fetched once for all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laconic.kernels.jit import compiled

TOGETHER = 8  # classifiers that are solved together
_BETWEEN = 2
# Texts are taken in contiguous runs, the runs in random order: sequential order converges slowly, fully random order
# reads memory slowly.
_RUN = 16
_RUNS = 64  # at least, where there are as many texts
STATE = 88172645463325252  # seed of the random orders; any number but 0
# A feature that all texts share ties their dual variables together. With the usual 1, convergence is slow, and rare
# labels score worse after any number of epochs (docs/log.md).
BIAS = 0.25


class SolverSettings(NamedTuple):
    """When the solver stops."""

    tolerance: float  # the most by which gradients may differ in the end
    epochs: int  # passes over all texts at most


@compiled
def solve(rows, targets, solving, weights, biases):  # type: ignore[no-untyped-def]
    """Fill the weights, features × TOGETHER, and the biases, which are all zeros before.

    `targets`, texts × TOGETHER, are the costs of texts with their signs; texts of cost 0 are ignored.
    """
    duals, squares = np.zeros(targets.shape, dtype=weights.dtype), _squares(rows)
    active, state = np.empty((TOGETHER, len(targets)), dtype=np.int32), np.uint64(STATE)
    for one in range(TOGETHER):  # true texts first: the others then begin with weights that say something
        count = 0
        for text in range(len(targets)):
            if targets[text, one] > 0:
                active[one, count] = text
                count += 1
        _, _, state = _pass_over(rows, targets, squares, duals, weights, biases, one, active[one], count, state)
    for _ in range(solving.epochs):
        counts, spreads, state = _pass_over_all(rows, targets, squares, duals, weights, biases, active, state)
        if spreads.max() <= solving.tolerance:
            break
        for one in range(TOGETHER):
            count, spread = counts[one], spreads[one]
            for _ in range(_BETWEEN):
                if spread > solving.tolerance:
                    active[one, :count].sort()  # texts in the order of memory
                    count, spread, state = _pass_over(
                        rows, targets, squares, duals, weights, biases, one, active[one], count, state
                    )


@compiled
def _pass_over_all(rows, targets, squares, duals, weights, biases, active, state):  # type: ignore[no-untyped-def]
    """Update the duals of all texts; write the texts whose duals can change, return their numbers and the spreads."""
    counts, most, least = np.zeros(TOGETHER, dtype=np.int64), np.zeros(TOGETHER), np.zeros(TOGETHER)
    scores = np.empty(TOGETHER, dtype=weights.dtype)
    starts, length, state = _runs(len(targets), state)
    for start in starts:
        for text in range(start, min(start + length, len(targets))):
            scores[:] = biases
            for i in range(rows.starts[text], rows.starts[text + 1]):
                feature, value = rows.numbers[i], rows.values[i]
                for one in range(TOGETHER):
                    scores[one] += value * weights[feature, one]
            for one in range(TOGETHER):
                target = targets[text, one]
                margin = scores[one] if target > 0 else -scores[one]
                if target != 0 and (margin < 1 or duals[text, one] > 0):
                    gradient = _update(rows, text, one, target, squares[text], duals, weights, biases, margin)
                    active[one, counts[one]] = text
                    counts[one] += 1
                    most[one], least[one] = max(most[one], gradient), min(least[one], gradient)
    return counts, most - least, state


@compiled
def _pass_over(rows, targets, squares, duals, weights, biases, one, active, count, state):  # type: ignore[no-untyped-def]
    """Update the duals of some texts of one classifier; the first of `active` are then those that can still change.

    Return how many they are, and by how much their gradients differ.
    """
    left, most, least = 0, 0.0, 0.0
    texts = active[:count].copy()
    starts, length, state = _runs(count, state)
    for start in starts:
        for text in texts[start : start + length]:
            score = biases[one]
            for i in range(rows.starts[text], rows.starts[text + 1]):
                score += rows.values[i] * weights[rows.numbers[i], one]
            target = targets[text, one]
            margin = score if target > 0 else -score
            if margin < 1 or duals[text, one] > 0:
                gradient = _update(rows, text, one, target, squares[text], duals, weights, biases, margin)
                active[left] = text
                left += 1
                most, least = max(most, gradient), min(least, gradient)
    return left, most - least, state


@compiled
def _update(rows, text, one, target, square, duals, weights, biases, margin):  # type: ignore[no-untyped-def]
    """Set a text's dual to its best value; return its gradient before.

    It is called only where the dual can change: a call takes longer than to see that it cannot.
    """
    before, diagonal = duals[text, one], 0.5 / abs(target)
    gradient = margin - 1.0 + diagonal * before
    duals[text, one] = max(before - gradient / (square + diagonal), 0.0)
    step = duals[text, one] - before if target > 0 else before - duals[text, one]
    for i in range(rows.starts[text], rows.starts[text + 1]):
        weights[rows.numbers[i], one] += step * rows.values[i]
    biases[one] += step * BIAS**2
    return gradient


@compiled
def _runs(count, state):  # type: ignore[no-untyped-def]
    """Return the starts of runs of texts in random order, the length of a run, and the generator's next state."""
    length = max(1, min(_RUN, count // _RUNS))
    order = np.arange((count + length - 1) // length)
    state = shuffle(order, state)
    return order * length, length, state


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
