"""Untrained scores: votes of the nearest texts plus words shared with labels' own texts."""

from __future__ import annotations

import numpy as np

from laconic.kernels.csr import TRACE, add, add_products, clear, take_best
from laconic.kernels.jit import compiled


@compiled
def rank_votes(channels, first, last, popular, labels, scores):  # type: ignore[no-untyped-def]
    totals = np.zeros(len(popular), dtype=np.float32)
    touched = np.empty(len(popular) + 1, dtype=np.int32)
    for row in range(first, last):
        count = _fill(channels, row, totals, touched)
        kept = take_best(totals, touched, count, labels[row], scores[row])
        for label in popular:
            if kept == labels.shape[1]:
                break
            if totals[label] == 0:
                labels[row, kept] = label
                kept += 1
        clear(totals, touched, count)


@compiled
def score_votes(channels, first, last, num_labels, labels, scores):  # type: ignore[no-untyped-def]
    totals = np.zeros(num_labels, dtype=np.float32)
    touched = np.empty(num_labels + 1, dtype=np.int32)
    for row in range(first, last):
        count = _fill(channels, row, totals, touched)
        for place in range(labels.shape[1]):
            if labels[row, place] >= 0:
                scores[row, place] = totals[labels[row, place]]
        clear(totals, touched, count)


@compiled
def _fill(channels, row, totals, touched):  # type: ignore[no-untyped-def]
    """Compute every label's score for one text; return the number of touched labels."""
    count, votes = 0, channels.votes
    for place in range(channels.neighbours.shape[1]):
        text, weight = channels.neighbours[row, place], channels.weights[row, place]
        if text < 0 or weight == 0:
            break
        first, last = votes.starts[text], votes.starts[text + 1]
        count = add(votes.numbers[first:last], votes.values[first:last], weight, totals, touched, count)
    largest = np.float32(0)
    for i in range(count):
        largest = max(largest, totals[touched[i]])
    for i in range(count):
        # A trace stays of the smallest fraction, so that what is touched is never 0.
        totals[touched[i]] = max(totals[touched[i]] / largest, TRACE)
    return add_products(channels.label_texts, channels.queries, row, channels.label_weight, totals, touched, count)
