"""The nearest texts and the labels' own texts, which need no training: a ranker, and two channels of a fused one."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from laconic.combining.evidence import Channels
from laconic.combining.voting import rank_votes, score_votes
from laconic.compiled import compiled
from laconic.engine.candidate_kernels import nearest_rows
from laconic.engine.cells import Cells
from laconic.engine.parts import (
    Part,
    check_array,
    check_kind,
    check_numbers,
    check_order,
    check_real,
    check_starts,
    check_whole,
    for_kernels,
)
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
    index: Pairs | Cells  # for each word the texts that have it, or the texts' vectors
    votes: Pairs  # for each text its labels
    label_texts: Pairs  # for each word the labels that have it
    popular: np.ndarray  # int64: labels, the most frequent first
    neighbours: int
    power: float  # of a neighbour's cosine
    label_text: float  # weight of the label-text cosine

    def __post_init__(self) -> None:
        check_array(self.popular, "labels by frequency", np.int64, (None,))
        check_order(self.popular, "labels by frequency")
        check_kind(self.votes, "labels of texts", Pairs)
        check_numbers(self.votes.numbers, "labels of texts", 0, self.num_labels)
        check_kind(self.label_texts, "labels of words", Pairs)
        check_numbers(self.label_texts.numbers, "labels of words", 0, self.num_labels)
        if isinstance(self.index, Cells):
            if self.index.rows.size != self._num_texts:
                raise ModelError("the packed model's texts and their labels do not fit together; pack it again")
        else:
            check_kind(self.index, "texts of words", Pairs)
            check_numbers(self.index.numbers, "texts of words", 0, self._num_texts)
        check_whole(self.neighbours, "number of neighbours", 1)
        check_real(self.power, "power of cosines", 0)
        check_real(self.label_text, "weight of label texts", 0)

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

    def opening(self, beam: int) -> Neighbours:
        """The same; of texts that share a word, every one is looked at."""
        return replace(self, index=self.index.opening(beam)) if isinstance(self.index, Cells) else self

    def exact(self) -> Neighbours:
        return replace(self, index=self.index.exact()) if isinstance(self.index, Cells) else self

    def channels(self, inputs: Inputs) -> Channels:
        """What both channels know of the texts, before it is added up."""
        words = bags_of(inputs)
        texts = np.full((size_of(inputs), self.neighbours), -1, dtype=np.int64)
        cosines = np.zeros((size_of(inputs), self.neighbours), dtype=np.float32)
        if isinstance(self.index, Cells):
            cells = self.index.enough_for(min(self.neighbours, self._num_texts))
            _nearest_vectors(cells.tree, cells.dial, _features(inputs, cells.rows.dim), texts, cosines)
        else:
            _check_words(inputs)
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
    def _num_texts(self) -> int:
        return len(self.votes.starts) - 1

    @property
    def _room(self) -> tuple[np.ndarray, np.ndarray]:
        """A place for every text, which each thread keeps: to make it takes longer than to use it."""
        mine, texts = self._rooms, self._num_texts
        if not hasattr(mine, "room"):
            mine.room = np.zeros(texts, dtype=np.float32), np.empty(texts + 1, dtype=np.int32)
        room: tuple[np.ndarray, np.ndarray] = mine.room
        return room

    @cached_property
    def _rooms(self) -> threading.local:
        return threading.local()


def bags_of(inputs: Inputs) -> Lists:
    """Every word of a text once, in the order of ids, unknown words gone; dense features have no words."""
    nothing = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
    texts = inputs if isinstance(inputs, Texts) else Texts(*nothing, np.zeros(len(inputs) + 1, dtype=np.int64))
    starts = np.zeros(texts.size + 1, dtype=np.int64)
    numbers, values = np.empty(len(texts.ids), dtype=np.int32), np.empty(len(texts.ids), dtype=np.float32)
    _sum_words(texts.ids, texts.weights, texts.starts, starts, numbers, values)
    return Lists(starts, numbers[: starts[-1]], values[: starts[-1]])


def _check_words(inputs: Inputs) -> None:
    if not isinstance(inputs, Texts):
        raise DataError("the model finds texts by their words, but is given dense features; give it texts")


def _features(inputs: Inputs, width: int) -> Float[np.ndarray, "texts features"]:
    if isinstance(inputs, Texts) or inputs.shape[1] != width:
        found = "words" if isinstance(inputs, Texts) else f"{inputs.shape[1]:,}"
        raise DataError(f"the model reads {width:,} features, but is given {found}")
    lengths = np.maximum(np.linalg.norm(inputs, axis=1, keepdims=True), 1e-12)
    return np.ascontiguousarray(inputs / lengths, dtype=np.float32)


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


@compiled
def _nearest_vectors(tree, dial, vectors, texts, cosines):  # type: ignore[no-untyped-def]
    found, places = np.empty(dial.room, np.float32), np.empty(dial.room, np.int32)
    best = np.empty(texts.shape[1], np.int32)
    for text in range(len(texts)):
        kept = nearest_rows(tree, dial, vectors[text], found, places, len(best), best, cosines[text])
        texts[text, :kept] = best[:kept]
