"""A packed ranker fused with label trees, nearest texts and label texts by a small network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.kernels.checks import (
    check_array,
    check_floats,
    check_kind,
    check_numbers,
    check_real,
    check_whole,
    for_kernels,
)
from laconic.kernels.jit import compiled_in_any_order
from laconic.models.fusion.evidence import (
    Asked,
    Evidence,
    Listed,
    Workspace,
    gather,
    listed,
    make_workspace,
    numbers_of,
    score_all,
)
from laconic.models.fusion.order import LEAVES, SPLITS, Forest, Ordering, check_ordering, in_final_order
from laconic.packed.engine.blend import sigmoids
from laconic.packed.engine.composite import in_order, values_of
from laconic.packed.engine.neighbours import Neighbours
from laconic.packed.engine.parts import Part, PerThread
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.search import Searched
from laconic.packed.engine.texts import Inputs, Ranked, size_of
from laconic.types import NO_LABEL

_LARGEST = float(np.finfo(np.float32).max)
_FARTHEST = np.float32(5)  # deviations from the mean
_STEEPEST = np.float32(16)  # beyond which a sigmoid no longer changes


class Layers(NamedTuple):
    """The network as the kernel reads it, a column for each output of a layer."""

    mean: Float[np.ndarray, "numbers"]
    deviation: Float[np.ndarray, "numbers"]
    first: Float[np.ndarray, "numbers width"]
    first_bias: Float[np.ndarray, "width"]
    second: Float[np.ndarray, "width width"]
    second_bias: Float[np.ndarray, "width"]
    last: Float[np.ndarray, "width"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TreeOrder(Part):
    """Boosted trees that put a text's best labels into their final order (models/fusion/order.py)."""

    numbers: np.ndarray  # int32
    thresholds: np.ndarray  # float32, as the values
    values: np.ndarray
    slope: float
    shift: float
    places: int

    def __post_init__(self) -> None:
        check_array(self.numbers, "ordering's numbers", np.int32, (None, SPLITS))
        check_floats(self.thresholds, "ordering's thresholds", self.numbers.shape)
        check_floats(self.values, "ordering's values", (len(self.numbers), LEAVES))
        check_real(self.slope, "ordering's slope", 0)
        check_real(self.shift, "ordering's shift", -_LARGEST)
        check_whole(self.places, "number of ordered labels", 1)

    @cached_property
    def ordering(self) -> Ordering:
        forest = Forest(*(for_kernels(part) for part in (self.numbers, self.thresholds, self.values)))
        return Ordering(forest, self.places, self.slope, self.shift)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fused(PackedRanker):
    """The packed form of a FusedRanker."""

    base: PackedRanker
    nearest: Neighbours
    trees: PackedRanker | None
    frequency: np.ndarray  # float32: log of 1 + a label's training texts
    mean: np.ndarray  # float32, as the others
    deviation: np.ndarray
    first: np.ndarray
    first_bias: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray
    last: np.ndarray
    last_bias: float
    width: int  # labels that each channel puts forward
    tail: float  # tail bias: rare labels gain by it what frequent ones lose
    siamese: Searched | None = None
    transformer: Searched | None = None
    order: TreeOrder | None = None

    def __post_init__(self) -> None:
        check_kind(self.base, "base", PackedRanker)
        check_kind(self.nearest, "nearest texts", Neighbours)
        if self.trees is not None:
            check_kind(self.trees, "label trees", PackedRanker)
        for part, name in ((self.siamese, "space of label texts"), (self.transformer, "transformer")):
            if part is not None:
                check_kind(part, name, Searched)
        if self.order is not None:
            check_kind(self.order, "trees that order labels", TreeOrder)
        check_array(self.last, "fusion's last", np.float32, (None,))
        hidden, numbers = len(self.last), numbers_of(1 + len(self._others))
        shapes = {"mean": (numbers,), "deviation": (numbers,), "first": (numbers, hidden), "first_bias": (hidden,)}
        shapes |= {"second": (hidden, hidden), "second_bias": (hidden,), "last": (hidden,)}
        for name, shape in {**shapes, "frequency": (self.base.num_labels,)}.items():
            check_floats(getattr(self, name), f"fusion's {name}", shape)
        check_whole(self.width, "width of a list", 1)
        for name in ("last_bias", "tail"):
            check_real(getattr(self, name), f"fusion's {name}", -_LARGEST)
        if self.order is not None:
            check_ordering(self.order.ordering, numbers)
        known = {one.num_labels for one in (self.base, self.nearest, *self._others)}
        if len(known) > 1 or not (self.deviation > 0).all():
            raise ModelError("the packed model's channels do not fit together; pack it again")

    @property
    def num_labels(self) -> int:
        return self.base.num_labels

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        found = self._evidence(inputs, at_least=k, wanted=None)
        return in_order(found.labels, self._scores(found), k)

    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        check_numbers(labels, "labels to be scored", NO_LABEL, self.num_labels)
        found = self._evidence(inputs, at_least=0, wanted=labels)
        return values_of(labels, found.labels, self._scores(found))

    def with_beam(self, beam: int) -> Fused:
        return replace(self, base=self.base.with_beam(beam))

    def exact(self) -> Fused:
        """Return the ranker with exact search; trees probe what they probe in the model."""
        space, own = (None if one is None else one.exact() for one in (self.siamese, self.transformer))
        return replace(self, base=self.base.exact(), nearest=self.nearest.exact(), siamese=space, transformer=own)

    def with_tail(self, tail: float) -> Fused:
        """Return the ranker with another tail bias."""
        return replace(self, tail=tail)

    def _evidence(self, inputs: Inputs, at_least: int, wanted: Int[np.ndarray, "texts n"] | None) -> Evidence:
        """Return the features of the network, as models.fusion.ranker.FusedRanker computes them."""
        labels, scores = self.base.rank(inputs, min(max(self._width, at_least), self.num_labels))
        further = labels[:, self._width :] if wanted is None else wanted
        rankings = [(labels[:, : self._width], scores[:, : self._width])]
        rankings += [] if self.trees is None else [self.trees.rank(inputs, self._width)]
        every = [(one, one.vectors(inputs)) for one in (self.siamese, self.transformer) if one is not None]
        first = len(rankings)
        rankings += [one.rank_vectors(vectors, self._width) for one, vectors in every]
        lists = tuple(Listed(*map(np.ascontiguousarray, one)) for one in rankings)
        asked = Asked(lists, np.ascontiguousarray(further))
        found, channels = asked.empty_evidence(self._width), self.nearest.channels(inputs)
        gather(channels, asked, self._frequency, self._width, (0, size_of(inputs)), self._scratch(), found)
        for number, (one, vectors) in enumerate(every, first):
            score_all(found, number, one.score_vectors(vectors, found.labels), self._frequency)
        return found

    def _scores(self, found: Evidence) -> Float[np.ndarray, "texts n"]:
        """Return probabilities."""
        scores = np.zeros(found.labels.shape, dtype=np.float32)
        weigh(self._layers, found.numbers, scores)
        scores += np.float32(self.last_bias)
        network = scores
        if self.tail:
            scores = scores + np.float32(self.tail) * (self._usual - self._frequency[np.maximum(found.labels, 0)])
        if self.order is not None:
            scores = in_final_order(self.order.ordering, listed(found), found.numbers, network, scores)
        shares = sigmoids(scores)
        shares[found.labels == NO_LABEL] = 0
        return shares

    @property
    def _others(self) -> list[PackedRanker]:
        """Return the rankers after the base, in the order of their features."""
        return [one for one in (self.trees, self.siamese, self.transformer) if one is not None]

    @cached_property
    def _width(self) -> int:
        return min(self.width, self.num_labels)

    @cached_property
    def _frequency(self) -> Float[np.ndarray, "labels"]:
        return for_kernels(self.frequency)

    @cached_property
    def _usual(self) -> float:
        return float(self.frequency.mean())

    @cached_property
    def _layers(self) -> Layers:
        return Layers(*(for_kernels(getattr(self, name)) for name in Layers._fields))

    @cached_property
    def _scratch(self) -> PerThread[Workspace]:
        return PerThread(partial(make_workspace, self.num_labels))


@compiled_in_any_order
def weigh(layers, numbers, scores):  # type: ignore[no-untyped-def]
    """Write the network's output for every label present; the others stay 0."""
    width = len(layers.last)
    usual = np.empty(numbers.shape[2], np.float32)
    hidden, above = np.empty(width, np.float32), np.empty(width, np.float32)
    for text in range(numbers.shape[0]):
        for label in range(numbers.shape[1]):
            if numbers[text, label, 0] == 0:
                continue
            for i in range(len(usual)):
                value = (numbers[text, label, i] - layers.mean[i]) / layers.deviation[i]
                usual[i] = min(max(value, -_FARTHEST), _FARTHEST)
            _layer(usual, layers.first, layers.first_bias, hidden)
            _layer(hidden, layers.second, layers.second_bias, above)
            total = np.float32(0)
            for i in range(width):
                total += above[i] * layers.last[i]
            scores[text, label] = total


@compiled_in_any_order
def _layer(inputs, columns, bias, outputs):  # type: ignore[no-untyped-def]
    for j in range(len(outputs)):
        outputs[j] = bias[j]
    for i in range(len(inputs)):
        value = inputs[i]
        for j in range(len(outputs)):
            outputs[j] += value * columns[i, j]
    for j in range(len(outputs)):
        outputs[j] *= sigmoid(outputs[j])


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
