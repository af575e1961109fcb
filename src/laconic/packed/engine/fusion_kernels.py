"""Kernels of the packed combined ranker: from the features of a text's labels to its best labels.

The network sees the labels of a text together, a line of numbers for each feature or unit, so that every loop runs
over labels and becomes vector instructions. Axis words: labels; numbers (of a label); width (units of a layer).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from laconic.kernels.csr import keep, order_kept
from laconic.kernels.jit import compiled, compiled_in_any_order
from laconic.models.fusion.evidence import Evidence, is_listed
from laconic.models.fusion.order import Ordering, order_best
from laconic.types import NO_LABEL

_FARTHEST = np.float32(5)  # deviations from the mean
_STEEPEST = np.float32(16)  # beyond which a sigmoid no longer changes
_TOGETHER = 4  # inputs of a layer that are added together


class Layers(NamedTuple):
    """The network as the kernel reads it, a column for each output of a layer."""

    mean: Float[np.ndarray, "numbers"]
    deviation: Float[np.ndarray, "numbers"]
    first: Float[np.ndarray, "numbers width"]
    first_bias: Float[np.ndarray, "width"]
    second: Float[np.ndarray, "width width"]
    second_bias: Float[np.ndarray, "width"]
    last: Float[np.ndarray, "width"]


class Weighing(NamedTuple):
    """The network, its last bias, the tail bias, and the trees that put the best labels into order."""

    layers: Layers
    bias: np.float32
    tail: np.float32
    usual: np.float32  # mean of all labels' frequencies
    frequency: Float[np.ndarray, "labels"]
    ordering: Ordering  # of 0 places: there are no trees


@compiled
def rank_evidence(held, labels, numbers, best, best_scores):  # type: ignore[no-untyped-def]
    """Write the best labels of each text, best first, with their probabilities; equal ones keep their order."""
    (weighing,), found = held.value, Evidence(labels, numbers)
    scores = np.empty(found.labels.shape[1], np.float32)
    places = np.empty(best.shape[1], np.int64)
    for text in range(len(best)):
        count = _score_text(weighing, found.labels[text], found.numbers[text], scores)
        kept = 0
        for place in range(count):
            kept = keep(place, scores[place], places, best_scores[text], kept)
        order_kept(places, best_scores[text], kept)
        for i in range(kept):
            best[text, i] = found.labels[text, places[i]]


@compiled
def score_evidence(held, labels, numbers, scores):  # type: ignore[no-untyped-def]
    """Write the probabilities of all labels of the evidence; those beyond a text's last label stay as they are."""
    (weighing,), found = held.value, Evidence(labels, numbers)
    for text in range(len(scores)):
        _score_text(weighing, found.labels[text], found.numbers[text], scores[text])


@compiled
def _score_text(weighing, labels, numbers, scores):  # type: ignore[no-untyped-def]
    """Write the probabilities of a text's labels; return their number."""
    count = 0
    while count < len(labels) and labels[count] != NO_LABEL:
        count += 1
    weigh(weighing.layers, numbers[:count], scores)
    if weighing.tail == 0 and weighing.ordering.places == 0:
        for i in range(count):
            scores[i] = _probability(scores[i] + weighing.bias)
        return count
    network, listed = np.empty(count, np.float32), np.empty(count, np.bool_)
    for i in range(count):
        network[i] = scores[i] + weighing.bias
        scores[i] = network[i] + weighing.tail * (weighing.usual - weighing.frequency[labels[i]])
        listed[i] = is_listed(numbers[i])
    if weighing.ordering.places > 0:
        order_best(weighing.ordering, listed, numbers, network, scores[:count])
    for i in range(count):
        scores[i] = _probability(scores[i])
    return count


@compiled
def _probability(score):  # type: ignore[no-untyped-def]
    return np.float32(1) / (np.float32(1) + np.exp(-score))


@compiled_in_any_order
def weigh(layers, numbers, scores):  # type: ignore[no-untyped-def]
    """Write the network's output for every label."""
    width, count = len(layers.last), len(numbers)
    usual, hidden = np.empty((numbers.shape[1], count), np.float32), np.empty((width, count), np.float32)
    for i in range(len(usual)):
        line, mean, deviation = usual[i], layers.mean[i], layers.deviation[i]
        for label in range(count):
            line[label] = min(max((numbers[label, i] - mean) / deviation, -_FARTHEST), _FARTHEST)
    _layer(usual, layers.first, layers.first_bias, hidden)
    above = np.empty((width, count), np.float32)
    _layer(hidden, layers.second, layers.second_bias, above)
    scores[:count] = 0
    for i in range(width):
        _add(layers.last[i], above[i], scores[:count])


@compiled_in_any_order
def _layer(inputs, columns, bias, outputs):  # type: ignore[no-untyped-def]
    """Write x σ(x) of x = columns · inputs + bias."""
    together = len(inputs) // _TOGETHER * _TOGETHER
    for j in range(len(outputs)):
        line = outputs[j]
        for label in range(len(line)):
            line[label] = bias[j]
        for i in range(0, together, _TOGETHER):
            a, b, c, d = inputs[i], inputs[i + 1], inputs[i + 2], inputs[i + 3]
            e, f, g, h = columns[i, j], columns[i + 1, j], columns[i + 2, j], columns[i + 3, j]
            for label in range(len(line)):
                line[label] += e * a[label] + f * b[label] + (g * c[label] + h * d[label])
        for i in range(together, len(inputs)):
            _add(columns[i, j], inputs[i], line)
        for label in range(len(line)):
            line[label] *= sigmoid(line[label])


@compiled_in_any_order
def _add(factor, line, out):  # type: ignore[no-untyped-def]
    for label in range(len(out)):
        out[label] += factor * line[label]


@compiled_in_any_order
def sigmoid(x):  # type: ignore[no-untyped-def]
    """Return the sigmoid to within 1e-6, without a branch or a call, so that loops are vectorised.

    1/2 + tanh(x/2) / 2, where tanh is Lambert's continued fraction of an eighth of x, as a fraction above / below, and
    its argument is doubled twice: 2ab / (a² + b²). There is one division, at the end.
    """
    y = min(max(x, -_STEEPEST), _STEEPEST) * np.float32(0.125)
    square = y * y
    above = y * (np.float32(135135) + square * (np.float32(17325) + square * (np.float32(378) + square)))
    below = np.float32(135135) + square * (np.float32(62370) + square * (np.float32(3150) + square * np.float32(28)))
    above, below = np.float32(2) * above * below, above * above + below * below
    both = above + below
    return both * both / (np.float32(2) * (above * above + below * below))
