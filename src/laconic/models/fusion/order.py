"""Boosted trees that put a text's best labels into their final order.

The combining network chooses which labels are a text's best; its loss can favour rare ones. The trees are trained for
the order alone (training/lambdamart.py), and compare only the few labels that the network chose.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from laconic.errors import ModelError
from laconic.kernels.jit import compiled

DEPTH = 4  # of every tree
SPLITS, LEAVES = 2**DEPTH - 1, 2**DEPTH
LARGEST = np.float32(1e30)  # the threshold of a split that divides nothing
_APART = np.float32(1e-3)  # by which the best of the other labels stays below the ordered ones


class Forest(NamedTuple):
    """Complete binary trees. The children of split i are 2i + 1 and 2i + 2; the leaves come after all splits.

    A label goes to the second child where its number exceeds the threshold. The last number is the network's score.
    """

    numbers: Int[np.ndarray, "trees splits"]  # int32: which feature is compared
    thresholds: Float[np.ndarray, "trees splits"]
    values: Float[np.ndarray, "trees leaves"]


class Ordering(NamedTuple):
    """The trees, how many labels they order, and the line that makes their sums logits of probabilities."""

    forest: Forest
    places: int
    slope: float
    shift: float


def in_final_order(
    ordering: Ordering,
    listed: Bool[np.ndarray, "batch n"],
    numbers: Float[np.ndarray, "batch n numbers"],
    network: Float[np.ndarray, "batch n"],
    biased: Float[np.ndarray, "batch n"],
) -> Float[np.ndarray, "batch n"]:
    """Return logits by which the best labels are in the trees' order, and all others below them in the order they had.

    `network` has the network's scores, `biased` the same after a tail bias. The best are those of the listed labels, so
    that scores do not depend on which other labels are requested.
    """
    result = np.array(biased, dtype=np.float32)
    _order(ordering, listed, numbers, np.ascontiguousarray(network), result)
    return result


def forest_sums(
    forest: Forest, numbers: Float[np.ndarray, "n numbers"], network: Float[np.ndarray, "n"]
) -> Float[np.ndarray, "n"]:
    """Return what the trees add to the scores of labels."""
    sums = np.zeros(len(numbers), dtype=np.float32)
    _sum_each(forest, np.ascontiguousarray(numbers), np.ascontiguousarray(network), sums)
    return sums


def check_ordering(ordering: Ordering, features: int) -> None:
    """Refuse what the loops cannot be given: they check no bounds."""
    numbers, thresholds, values = ordering.forest
    shapes = numbers.shape, thresholds.shape, values.shape
    trees = len(values)
    fits = shapes == ((trees, SPLITS), (trees, SPLITS), (trees, LEAVES)) and ordering.places >= 1
    if not fits or (numbers < 0).any() or (numbers > features).any() or ordering.slope <= 0:
        raise ModelError("the trees that order labels are damaged; fetch the model again")


@compiled
def _order(ordering, listed, numbers, network, scores):  # type: ignore[no-untyped-def]
    for row in range(len(listed)):
        order_best(ordering, listed[row], numbers[row], network[row], scores[row])


@compiled
def order_best(ordering, listed, numbers, network, scores):  # type: ignore[no-untyped-def]
    """Change the scores of one text's labels so that they are in the final order (see `in_final_order`)."""
    slope, shift = np.float32(ordering.slope), np.float32(ordering.shift)
    best = np.empty(min(ordering.places, len(listed)), dtype=np.int64)
    count = _best_of(listed, scores, best)
    lowest, highest = np.float32(np.inf), np.float32(-np.inf)
    for i in range(count):
        place = best[i]
        total = scores[place] + forest_sum(ordering.forest, numbers[place], network[place])
        scores[place] = slope * total + shift
        lowest = min(lowest, scores[place])
    for place in range(len(listed)):
        if listed[place] and not _among(best, count, place):
            highest = max(highest, scores[place])
    lower = highest - (lowest - _APART)
    if lower > 0:
        for place in range(len(listed)):
            if not _among(best, count, place):
                scores[place] -= lower


@compiled
def _best_of(listed, scores, best):  # type: ignore[no-untyped-def]
    """Write the places of the largest scores, largest first, an earlier place before a later; return how many."""
    count = 0
    for place in range(len(listed)):
        if not listed[place]:
            continue
        if count == len(best) and not scores[place] > scores[best[count - 1]]:
            continue
        at = min(count, len(best) - 1)
        count = min(count + 1, len(best))
        while at > 0 and scores[place] > scores[best[at - 1]]:
            best[at] = best[at - 1]
            at -= 1
        best[at] = place
    return count


@compiled
def _among(best, count, place):  # type: ignore[no-untyped-def]
    found = False
    for i in range(count):
        found |= best[i] == place
    return found


@compiled
def _sum_each(forest, numbers, network, sums):  # type: ignore[no-untyped-def]
    for i in range(len(numbers)):
        sums[i] = forest_sum(forest, numbers[i], network[i])


@compiled
def forest_sum(forest, numbers, network):  # type: ignore[no-untyped-def]
    """Return the sum of the leaves that a label with these numbers reaches."""
    total, splits = np.float32(0), forest.numbers.shape[1]
    for tree in range(len(forest.numbers)):
        node = 0
        while node < splits:
            number = forest.numbers[tree, node]
            value = numbers[number] if number < len(numbers) else network
            node = 2 * node + (2 if value > forest.thresholds[tree, node] else 1)
        total += forest.values[tree, node - splits]
    return total
