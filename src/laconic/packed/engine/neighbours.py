"""Nearest texts and label texts as a packed ranker, and as two inputs of a fused one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import DataError, ModelError
from laconic.kernels.checks import (
    check_array,
    check_kind,
    check_numbers,
    check_order,
    check_real,
    check_whole,
    for_kernels,
)
from laconic.kernels.csr import Lists, add, clear, find, take_best
from laconic.kernels.held import Held, hold
from laconic.kernels.jit import compiled
from laconic.kernels.selection import ascending
from laconic.models.fusion.evidence import Asked, Channels, Evidence, gather, make_workspace
from laconic.models.fusion.votes import rank_votes, score_votes
from laconic.packed.engine.cell_kernels import nearest_places
from laconic.packed.engine.cells import Cells
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.pairs import Pairs, bags_of, contiguous, refuse_unreadable, sum_words
from laconic.packed.engine.parts import PerThread, scratch_for
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.texts import Inputs, Ranked, Texts, check_features, size_of
from laconic.types import NO_LABEL

_LOOKED_UP = 4  # times as many texts as are wanted


@dataclass(frozen=True, kw_only=True, eq=False)
class Neighbours(PackedRanker):
    """The packed form of the method `nearest`."""

    index: Pairs | Cells  # for each word the texts that have it, or the texts' vectors
    votes: Pairs  # for each text its labels
    label_texts: Pairs  # for each word the labels that have it
    popular: np.ndarray  # int64: labels, the most frequent first
    neighbours: int
    power: float  # of a neighbour's cosine
    label_text: float  # weight of the label-text cosine
    walked: int  # texts of words' lists that are gone through, the rarest word's first; 0: all

    def __post_init__(self) -> None:
        check_array(self.popular, "labels by frequency", np.int64, (None,))
        check_order(self.popular, "labels by frequency")
        check_kind(self.votes, "labels of texts", Pairs)
        check_numbers(self.votes.numbers, "labels of texts", 0, self.num_labels)
        check_kind(self.label_texts, "labels of words", Pairs)
        check_numbers(self.label_texts.numbers, "labels of words", 0, self.num_labels)
        if isinstance(self.index, Cells):
            check_kind(self.index.rows, "texts' vectors", NibbleRows)
            if self.index.rows.size != self._num_texts:
                raise ModelError("the packed model's texts and their labels do not fit together; pack it again")
        else:
            check_kind(self.index, "texts of words", Pairs)
            check_numbers(self.index.numbers, "texts of words", 0, self._num_texts)
        check_whole(self.neighbours, "number of neighbours", 1)
        check_whole(self.walked, "number of texts that are gone through", 0)
        check_real(self.power, "power of cosines", 0.0)
        check_real(self.label_text, "weight of label texts", 0.0)

    @property
    def num_labels(self) -> int:
        return len(self.popular)

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        channels = self.channels(inputs)
        labels, scores = found = Ranked.empty(size_of(inputs), k)
        rank_votes(channels, 0, len(labels), for_kernels(self.popular), labels, scores)
        return found

    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        check_numbers(labels, "labels to be scored", NO_LABEL, self.num_labels)
        scores = np.zeros(labels.shape, dtype=np.float32)
        score_votes(self.channels(inputs), 0, len(labels), self.num_labels, np.ascontiguousarray(labels), scores)
        return scores

    def with_beam(self, beam: int) -> Neighbours:
        """Return the ranker with this many cells probed; unchanged where texts are found by words."""
        return replace(self, index=self.index.with_beam(beam)) if isinstance(self.index, Cells) else self

    def exact(self) -> Neighbours:
        """Return the ranker with exact search."""
        if isinstance(self.index, Cells):
            return replace(self, index=self.index.exact())
        return replace(self, walked=0) if 0 < self.walked < len(self.index.numbers) else self

    def channels(self, inputs: Inputs) -> Channels:
        """Return the evidence of both channels before it is summed."""
        words = bags_of(inputs)
        width = min(self.neighbours, self._num_texts + 1)  # with the one more, a search never seems to be complete
        texts = np.full((size_of(inputs), width), -1, dtype=np.int64)
        cosines = np.zeros((size_of(inputs), width), dtype=np.float32)
        if isinstance(self.index, Cells):
            cells = self.index.enough_for(min(self.neighbours, self._num_texts))
            _nearest_vectors(cells.tree, cells.limits, _features(inputs, cells.rows.dim), (texts, cosines))
        else:
            _check_words(inputs)
            _nearest(self.index.lists, words, self.walked, self._scratch(), (texts, cosines))
        _to_power(cosines, np.float32(self.power))
        return Channels(
            texts,
            cosines,
            self.votes.lists,
            words,
            self.label_texts.lists,
            np.float32(self.label_text),
        )

    def by_words(self) -> tuple[Any, ...]:
        """Return what finds nearest texts by their words, and the labels of both, as `_gather_by_words` reads it."""
        assert isinstance(self.index, Pairs)
        lists = self.index.lists, self.votes.lists, self.label_texts.lists
        sizes = min(self.neighbours, self._num_texts + 1), self.walked
        return lists, sizes, (np.float32(self.power), np.float32(self.label_text)), scratch_for(self._num_texts)

    @property
    def _num_texts(self) -> int:
        return len(self.votes.starts) - 1

    @cached_property
    def _scratch(self) -> PerThread[tuple[np.ndarray, np.ndarray]]:
        return PerThread(partial(scratch_for, self._num_texts))


class Gatherer:
    """Gathers the features of candidate labels by nearest texts and label texts, for one thread."""

    def __init__(self, nearest: Neighbours, frequency: Float[np.ndarray, "labels"], width: int) -> None:
        self._nearest, self._frequency, self._width = nearest, frequency, width
        self._workspace = make_workspace(nearest.num_labels)
        self._held: Held | None = None

    def __call__(self, inputs: Inputs, asked: Asked, found: Evidence) -> None:
        """Write the features of what is asked."""
        if isinstance(self._nearest.index, Cells) or not isinstance(inputs, Texts):
            channels, span = self._nearest.channels(inputs), (0, size_of(inputs))
            gather(channels, asked, self._frequency, self._width, span, self._workspace, found)
            return
        if self._held is None:
            self._held = hold((*self._nearest.by_words(), self._frequency, self._width, self._workspace))
        if not _gather_by_words(self._held, *contiguous(inputs), *asked, *found):
            refuse_unreadable()


def _check_words(inputs: Inputs) -> None:
    if not isinstance(inputs, Texts):
        raise DataError("the model finds texts by their words, but is given dense features; give it texts")


def _features(inputs: Inputs, width: int) -> Float[np.ndarray, "texts features"]:
    features = check_features(inputs, width)
    lengths = np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    return np.ascontiguousarray(features / lengths, dtype=np.float32)


@compiled
def _gather_by_words(held, ids, weights, starts, rankers, wanted, labels, numbers):  # type: ignore[no-untyped-def]
    """Write the features of texts' labels; return False, with nothing written, if the texts cannot be read."""
    lists, sizes, (power, label_weight), scratch, frequency, width, workspace = held.value
    (index, votes, label_texts), (neighbours, walked), size = lists, sizes, len(starts) - 1
    words = Lists(np.zeros(size + 1, np.int64), np.empty(len(ids), np.int32), np.empty(len(ids), np.float32))
    if not sum_words(Texts(ids, weights, starts), words.starts, words.numbers, words.values):
        return False
    texts, cosines = np.full((size, neighbours), NO_LABEL, np.int64), np.zeros((size, neighbours), np.float32)
    _nearest(index, words, walked, scratch, (texts, cosines))
    _to_power(cosines, power)
    channels = Channels(texts, cosines, votes, words, label_texts, label_weight)
    gather(channels, Asked(rankers, wanted), frequency, width, (0, size), workspace, Evidence(labels, numbers))
    return True


@compiled
def _nearest(index, words, walked, scratch, into):  # type: ignore[no-untyped-def]
    """Find candidates by a text's rare words, then add the products of its frequent words for the best of them."""
    (totals, touched), (texts, cosines) = scratch, into
    some, partial = np.empty(_LOOKED_UP * texts.shape[1], np.int64), np.empty(_LOOKED_UP * texts.shape[1], np.float32)
    for text in range(len(texts)):
        lists = _shortest_first(index, words, text)
        count, gone, rest = 0, 0, 0
        for i in lists:
            first, last = index.starts[words.numbers[i]], index.starts[words.numbers[i] + 1]
            gone += last - first
            if walked and gone > walked and count >= texts.shape[1]:
                break
            numbers, values = index.numbers[first:last], index.values[first:last]
            count = add(numbers, values, words.values[i], totals, touched, count)
            rest += 1
        if rest == len(lists):
            take_best(totals, touched, count, texts[text], cosines[text])
        else:
            kept = take_best(totals, touched, count, some, partial)
            for i in lists[rest:]:
                _look_up(index, words.numbers[i], words.values[i], some[:kept], totals)
            take_best(totals, some, kept, texts[text], cosines[text])
        clear(totals, touched, count)


@compiled
def _to_power(cosines, power):  # type: ignore[no-untyped-def]
    """Raise cosines to a power, in place; those below 0 count as 0."""
    for text in range(len(cosines)):
        for i in range(cosines.shape[1]):
            cosines[text, i] = max(cosines[text, i], np.float32(0)) ** power


@compiled
def _shortest_first(index, words, text):  # type: ignore[no-untyped-def]
    """Return the positions of the text's known words, those with the fewest texts first."""
    first, last, known = words.starts[text], words.starts[text + 1], 0
    places, sizes = np.empty(last - first, np.int64), np.empty(last - first, np.int64)
    for i in range(first, last):
        if words.numbers[i] < len(index.starts) - 1:
            places[known] = i
            sizes[known] = index.starts[words.numbers[i] + 1] - index.starts[words.numbers[i]]
            known += 1
    return places[:known][ascending(sizes[:known])]


@compiled
def _look_up(index, word, weight, texts, totals):  # type: ignore[no-untyped-def]
    """Add the values in a word's list for these texts."""
    for text in texts:
        place = find(index.numbers, index.starts[word], index.starts[word + 1], text)
        if place >= 0:
            totals[text] += weight * index.values[place]


@compiled
def _nearest_vectors(tree, limits, vectors, into):  # type: ignore[no-untyped-def]
    """Write the nearest texts of each vector, nearest first, with their cosines."""
    texts, cosines = into
    found, places = np.empty(limits.capacity, np.float32), np.empty(limits.capacity, np.int32)
    wanted = texts.shape[1]
    best, scratch = np.empty(wanted, np.int32), np.empty(wanted, np.float32)
    for text in range(len(texts)):
        kept = nearest_places(tree, limits, vectors[text], found, places, wanted, best, scratch)
        order = ascending(-scratch[:kept])
        for i in range(kept):
            texts[text, i], cosines[text, i] = tree.order[best[order[i]]], scratch[order[i]]
