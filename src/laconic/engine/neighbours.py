"""The nearest texts and the labels' own texts, which need no training: a ranker, and two channels of a fused one."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from laconic.combining.evidence import Channels
from laconic.combining.voting import rank_votes, score_votes
from laconic.compiled import compiled
from laconic.engine.parts import Part, check_array, check_numbers, check_starts, for_kernels
from laconic.engine.ranking import PackedRanker
from laconic.engine.texts import Inputs, Ranked, Texts, size_of
from laconic.errors import DataError, ModelError
from laconic.shortlisters.inverted import Lists, add_products, clear, take_best
from laconic.types import NO_LABEL


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs(Part):
    """Rows of numbers and values."""

    starts: np.ndarray  # int64
    numbers: np.ndarray  # int32
    values: np.ndarray  # float32

    def __post_init__(self) -> None:
        check_array(self.starts, "bounds of lists", np.int64, (None,))
        check_array(self.numbers, "numbers of lists", np.int32, (None,))
        check_array(self.values, "values of lists", np.float32, self.numbers.shape)
        check_starts(self.starts, "bounds of lists", len(self.numbers))

    @staticmethod
    def of(lists: Lists) -> Pairs:
        return Pairs(starts=lists.starts, numbers=lists.numbers, values=lists.values)

    @cached_property
    def lists(self) -> Lists:
        return Lists(for_kernels(self.starts), for_kernels(self.numbers), for_kernels(self.values))


@dataclass(frozen=True, kw_only=True, eq=False)
class Neighbours(PackedRanker):
    index: Pairs  # for each word the texts that have it
    votes: Pairs  # for each text its labels
    label_texts: Pairs  # for each word the labels that have it
    popular: np.ndarray  # int64: labels, the most frequent first
    neighbours: int
    power: float  # of a neighbour's cosine
    label_text: float  # weight of the label-text cosine

    def __post_init__(self) -> None:
        labels, texts = len(self.popular), len(self.votes.starts) - 1
        check_array(self.popular, "labels by frequency", np.int64, (None,))
        if not np.array_equal(np.sort(self.popular), np.arange(labels)) or self.neighbours < 1:
            raise ModelError("the packed model's list of popular labels must name every label once; pack it again")
        check_numbers(self.index.numbers, "texts of words", 0, texts)
        check_numbers(self.votes.numbers, "labels of texts", 0, labels)
        check_numbers(self.label_texts.numbers, "labels of words", 0, labels)

    @property
    def num_labels(self) -> int:
        return len(self.popular)

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        channels = self.channels(inputs)
        labels = np.full((size_of(inputs), k), NO_LABEL, dtype=np.int64)
        scores = np.zeros((size_of(inputs), k), dtype=np.float32)
        rank_votes(channels, 0, len(labels), for_kernels(self.popular), labels, scores)
        return Ranked(labels, scores)

    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        check_numbers(labels, "labels to be scored", NO_LABEL, self.num_labels)
        scores = np.zeros(labels.shape, dtype=np.float32)
        score_votes(self.channels(inputs), 0, len(labels), self.num_labels, np.ascontiguousarray(labels), scores)
        return scores

    def channels(self, inputs: Inputs) -> Channels:
        """What both channels know of the texts, before it is added up."""
        if not isinstance(inputs, Texts):
            raise DataError("nearest texts are found by words, but these inputs are dense features")
        words = _bags(inputs)
        texts = np.full((inputs.size, self.neighbours), -1, dtype=np.int64)
        cosines = np.zeros((inputs.size, self.neighbours), dtype=np.float32)
        _nearest(self.index.lists, words, *self._room, texts, cosines)
        return Channels(
            texts,
            np.maximum(cosines, 0) ** np.float32(self.power),
            self.votes.lists,
            words,
            self.label_texts.lists,
            np.float32(self.label_text),
        )

    @property
    def _room(self) -> tuple[np.ndarray, np.ndarray]:
        """A place for every text, which each thread keeps: to make it takes longer than to use it."""
        mine, texts = self._rooms, len(self.votes.starts) - 1
        if not hasattr(mine, "room"):
            mine.room = np.zeros(texts, dtype=np.float32), np.empty(texts + 1, dtype=np.int32)
        room: tuple[np.ndarray, np.ndarray] = mine.room
        return room

    @cached_property
    def _rooms(self) -> threading.local:
        return threading.local()


def _bags(texts: Texts) -> Lists:
    """Every word of a text once, in the order of ids, unknown words gone."""
    starts = np.zeros(texts.size + 1, dtype=np.int64)
    numbers, values = np.empty(len(texts.ids), dtype=np.int32), np.empty(len(texts.ids), dtype=np.float32)
    _sum_words(texts.ids, texts.weights, texts.starts, starts, numbers, values)
    return Lists(starts, numbers[: starts[-1]], values[: starts[-1]])


@compiled
def _sum_words(ids, weights, bounds, starts, numbers, values):  # type: ignore[no-untyped-def]
    count = 0
    for text in range(len(bounds) - 1):
        first = bounds[text]
        order = np.argsort(ids[first : bounds[text + 1]], kind="mergesort")
        begun = count
        for place in order:
            word, weight = ids[first + place], weights[first + place]
            if count > begun and numbers[count - 1] == word:
                values[count - 1] += weight
            else:
                if count > begun and values[count - 1] == 0:
                    count -= 1
                numbers[count], values[count] = word, weight
                count += 1
        if count > begun and values[count - 1] == 0:
            count -= 1
        starts[text + 1] = count


@compiled
def _nearest(index, words, totals, touched, texts, cosines):  # type: ignore[no-untyped-def]
    for text in range(len(texts)):
        count = add_products(index, words, text, np.float32(1), totals, touched, 0)
        take_best(totals, touched, count, texts[text], cosines[text])
        clear(totals, touched, count)
