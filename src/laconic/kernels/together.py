"""Count which labels occur together in texts, a label at a time, so that labels × labels is never held."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.kernels.jit import compiled


class Occurrences(NamedTuple):
    """Rows of numbers with their weights: the texts of labels, or the labels of texts, whose weights do not count."""

    starts: Int[np.ndarray, "rows+1"]
    numbers: Int[np.ndarray, "pairs"]
    weights: Float[np.ndarray, "pairs"]


class Together(NamedTuple):
    """For each label those that go with it, the most frequent first, ties by number; `counts` says how many."""

    labels: Int[np.ndarray, "rows most"]
    shares: Float[np.ndarray, "rows most"]
    counts: Int[np.ndarray, "rows"]


@compiled
def count_together(texts_of, labels_of, own, totals, threshold, num_labels, first, last, into):  # type: ignore[no-untyped-def]
    """Write what goes with the labels of rows first to last, whose numbers are `own`.

    The share of another label is the weight of the texts that have both, divided by the label's total; it must be the
    threshold at least.
    """
    sums, touched = np.zeros(num_labels, np.float64), np.empty(num_labels, np.int32)
    for row in range(first, last):
        count = 0
        for i in range(texts_of.starts[row], texts_of.starts[row + 1]):
            text, weight = texts_of.numbers[i], texts_of.weights[i]
            if weight <= 0:
                continue
            for j in range(labels_of.starts[text], labels_of.starts[text + 1]):
                label = labels_of.numbers[j]
                if sums[label] == 0:
                    touched[count] = label
                    count += 1
                sums[label] += weight
        kept = 0
        for i in range(count):
            label = touched[i]
            share = sums[label] / totals[row]
            sums[label] = 0
            if share >= threshold and label != own[row]:
                kept = _insert(into.labels[row], into.shares[row], kept, label, share)
        into.counts[row] = kept


@compiled
def _insert(labels, shares, count, label, share):  # type: ignore[no-untyped-def]
    """Put a label among those before, which are in order; the last one makes room. Return how many there are."""
    place = count
    while place > 0 and (shares[place - 1] < share or (shares[place - 1] == share and labels[place - 1] > label)):
        place -= 1
    if place == len(labels):
        return count
    count = min(count + 1, len(labels))
    for i in range(count - 1, place, -1):
        labels[i], shares[i] = labels[i - 1], shares[i - 1]
    labels[place], shares[place] = label, share
    return count
