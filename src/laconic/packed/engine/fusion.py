"""A packed ranker fused with label trees, nearest texts and label texts by a small network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

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
from laconic.kernels.held import Held, hold
from laconic.models.fusion.evidence import (
    Asked,
    Evidence,
    Listed,
    count_proposed,
    forget_unlisted,
    list_best,
    numbers_of,
    score_all,
)
from laconic.models.fusion.order import LEAVES, SPLITS, Forest, Ordering, check_ordering
from laconic.packed.engine.composite import values_of
from laconic.packed.engine.fusion_kernels import Layers, Weighing, rank_evidence, score_evidence
from laconic.packed.engine.neighbours import Gatherer, Neighbours
from laconic.packed.engine.parts import Part, PerThread
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.search import Searched
from laconic.packed.engine.texts import Inputs, Ranked, size_of
from laconic.types import NO_LABEL

_NO_LABELS = np.empty((1, 0), dtype=np.int64)
_LARGEST = float(np.finfo(np.float32).max)


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


_SHAPES = ((SPLITS, np.int32), (SPLITS, np.float32), (LEAVES, np.float32))
_NO_FOREST = Forest(*(for_kernels(np.zeros((0, size), dtype=kind)) for size, kind in _SHAPES))
NO_ORDER = Ordering(_NO_FOREST, 0, 1.0, 0.0)


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
        best = Ranked.empty(size_of(inputs), k)
        rank_evidence(self._held, *found, *best)
        return best

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
        """Return the features of the network, as models.fusion.ranker.FusedRanker computes them.

        What searches clusters for labels proposes some, and then scores those of the other channels too, so that it
        lists what they have found and its search has missed.
        """
        vectors = {number: one.vectors(inputs) for number, one in self._searched.items()}
        most = min(max(self._width, at_least), self.num_labels)
        rankings, further = [], _NO_LABELS.repeat(size_of(inputs), axis=0) if wanted is None else wanted
        for number, one in enumerate([self.base, *self._others]):
            size = self._width if number else most
            searched = self._searched.get(number)
            if searched is None:
                labels, scores = one.rank(inputs, size)
            elif size == self._width:
                labels = searched.propose(vectors[number], size)
                scores = np.zeros(labels.shape, dtype=np.float32)
            else:
                labels, scores = searched.rank_vectors(vectors[number], size)
            rankings.append((labels[:, : self._width], scores[:, : self._width]))
            if size > self._width and wanted is None:
                further = labels[:, self._width :]
        asked = Asked(tuple(Listed(*map(np.ascontiguousarray, one)) for one in rankings), np.ascontiguousarray(further))
        found = asked.empty_evidence(self._width)
        self._gatherer()(inputs, asked, found)
        proposed = count_proposed(found, asked)
        for number, one in self._searched.items():
            scores = one.score_candidates(vectors[number], found.labels, proposed, self._width)
            list_best(found, number, scores, proposed, self._width)
            if number == 0:  # of the others, which share a space with label texts, every score says something
                forget_unlisted(found, number, scores)
            score_all(found, number, scores, proposed, self._frequency)
        return found

    def _scores(self, found: Evidence) -> Float[np.ndarray, "texts n"]:
        """Return probabilities."""
        scores = np.zeros(found.labels.shape, dtype=np.float32)
        score_evidence(self._held, *found, scores)
        return scores

    @property
    def _others(self) -> list[PackedRanker]:
        """Return the rankers after the base, in the order of their features."""
        return [one for one in (self.trees, self.siamese, self.transformer) if one is not None]

    @cached_property
    def _searched(self) -> dict[int, Searched]:
        """Return the rankers that score any label, by their number."""
        rankers = enumerate([self.base, *self._others])
        return {number: one for number, one in rankers if isinstance(one, Searched) and one.scores_any}

    @cached_property
    def _width(self) -> int:
        return min(self.width, self.num_labels)

    @cached_property
    def _frequency(self) -> Float[np.ndarray, "labels"]:
        return for_kernels(self.frequency)

    @cached_property
    def _held(self) -> Held:
        layers = Layers(*(for_kernels(getattr(self, name)) for name in Layers._fields))
        usual = np.float32(self.frequency.mean())
        ordering = NO_ORDER if self.order is None else self.order.ordering
        numbers = np.float32(self.last_bias), np.float32(self.tail), usual
        return hold((Weighing(layers, *numbers, self._frequency, ordering),))

    @cached_property
    def _gatherer(self) -> PerThread[Gatherer]:
        return PerThread(partial(Gatherer, self.nearest, self._frequency, self._width))
