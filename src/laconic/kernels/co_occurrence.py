"""Count which labels occur in the same texts, a label at a time, so that labels × labels is never held."""

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


class CoOccurring(NamedTuple):
    """For each row the labels that co-occur with its label, the most frequent first, ties by number."""

    starts: Int[np.ndarray, "rows+1"]  # where a row's places begin, of which there may be more than it has labels
    labels: Int[np.ndarray, "places"]
    fractions: Float[np.ndarray, "places"]
    counts: Int[np.ndarray, "rows"]  # labels of each row


@compiled
def count_co_occurring(texts_of, labels_of, own, totals, threshold, num_labels, first, last, into):  # type: ignore[no-untyped-def]
    """Write what co-occurs with the labels of rows first to last, whose numbers are `own`.

    The fraction of another label is the weight of the texts that have both, divided by the label's total; it must be
    the threshold at least. Of more labels than a row has places for, the most frequent are kept.
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
        labels = into.labels[into.starts[row] : into.starts[row + 1]]
        fractions = into.fractions[into.starts[row] : into.starts[row + 1]]
        for i in range(count):
            label = touched[i]
            fraction = sums[label] / totals[row]
            sums[label] = 0
            if fraction >= threshold and label != own[row]:
                kept = _insert(labels, fractions, kept, label, fraction)
        into.counts[row] = kept


@compiled
def _insert(labels, fractions, count, label, fraction):  # type: ignore[no-untyped-def]
    """Put a label among those before, which are in order; the last one makes room. Return how many there are."""
    place = count
    while place > 0 and (
        fractions[place - 1] < fraction or (fractions[place - 1] == fraction and labels[place - 1] > label)
    ):
        place -= 1
    if place == len(labels):
        return count
    count = min(count + 1, len(labels))
    for i in range(count - 1, place, -1):
        labels[i], fractions[i] = labels[i - 1], fractions[i - 1]
    labels[place], fractions[place] = label, fraction
    return count
