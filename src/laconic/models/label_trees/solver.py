"""Linear classifiers with squared hinge loss and L2 regularisation, by coordinate descent in the dual.

For texts x with sign y and cost c, w minimises |w|²/2 + Σ c·max(0, 1 − y w·x)². Its dual has a number a ≥ 0 for each
text, and w = Σ a y x; each is moved in turn to where its own slope is 0 (Hsieh et al., ICML 2008, algorithm 1 with the
shrinking of section 3.2). Every text has one more feature, which is BIAS and whose weight times BIAS is the bias.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laconic.kernels.csr import add_row, dot
from laconic.kernels.jit import compiled

# Texts are taken in runs that lie together, runs in a mixed order: one after another is slow to end, all mixed slow to
# read.
_RUN = 16
_RUNS = 64  # at least, where there are as many texts
STATE = 88172645463325252  # from which orders are drawn; any number but 0
# A feature that all texts share ties their numbers together. With 1, which is usual, eight rounds are not enough, and
# rare labels fare worse after any number of them (docs/log.md).
BIAS = 0.25


class Solving(NamedTuple):
    """When to stop."""

    tolerance: float  # the most by which slopes may differ in the end
    epochs: int  # over all texts at most


@compiled
def solve(rows, signs, costs, solving, weights):  # type: ignore[no-untyped-def]
    """Fills in the weights, zeros before, a feature each; returns the bias. Texts of cost 0 are not there."""
    duals, squares, told = np.zeros(len(signs)), _squares(rows), np.flatnonzero(costs > 0)
    active, bias, highest, state = told, 0.0, np.inf, np.uint64(STATE)
    resting = np.zeros(len(signs), dtype=np.bool_)
    for _ in range(solving.epochs):
        most, least = -np.inf, np.inf
        run = max(1, min(_RUN, len(active) // _RUNS))
        order = np.arange((len(active) + run - 1) // run)
        state = shuffle(order, state)
        for first in order * run:
            for text in active[first : first + run]:
                diagonal = 0.5 / costs[text]
                slope = signs[text] * (dot(rows, text, weights) + bias) - 1 + diagonal * duals[text]
                if duals[text] == 0 and slope > 0:
                    resting[text] = slope > highest  # nothing will want it: it is looked at no more
                    most = max(most, 0.0)
                    least = min(least, 0.0)
                    continue
                most, least = max(most, slope), min(least, slope)
                before = duals[text]
                duals[text] = max(before - slope / (squares[text] + diagonal), 0.0)
                step = (duals[text] - before) * signs[text]
                add_row(rows, text, step, weights)
                bias += step * BIAS**2
        if most - least > solving.tolerance:
            highest = most if most > 0 else np.inf
            active = active[~resting[active]]
        elif len(active) == len(told):
            break
        else:  # once more over all
            resting[:] = False
            active, highest = told, np.inf
    return bias


@compiled
def shuffle(numbers, state):  # type: ignore[no-untyped-def]
    """Mixes the numbers; returns the state that the next order follows from (Marsaglia's xorshift)."""
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
