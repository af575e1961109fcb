"""A tokenizer in plain Python with the results of `Tokenizer.rows`, faster for a few texts.

Plain Python, because an array of a handful of words costs more than the words do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise, repeat
from math import hypot, log
from typing import TypeAlias

import numpy as np

from laconic.data.subwords import subwords_of
from laconic.data.text import Splitter, WordTable
from laconic.data.vocabulary import Vocabulary
from laconic.packed.engine.texts import Texts
from laconic.types import FIRST_WORD, UNKNOWN

_Weighed: TypeAlias = tuple[list[int], list[float]]  # ids and their weights


class Reader:
    """Reads texts like a Tokenizer with the same splitter and vocabulary."""

    def __init__(self, splitter: Splitter, vocabulary: Vocabulary) -> None:
        self._splitter, self._vocabulary = splitter, vocabulary
        self._id_of, self._weight_of = vocabulary.ids, vocabulary.word_weights.tolist()

    def read(self, texts: Sequence[str]) -> Texts:
        return self.read_words([self._splitter.words(text) for text in texts])

    def words(self, text: str) -> list[str]:
        return self._splitter.words(text)

    def read_words(self, split: Sequence[list[str]]) -> Texts:
        """Read texts that are split into words, which are cut into pieces where the vocabulary is one of pieces."""
        if (pieces := self._vocabulary.pieces) is not None:
            split = [[pieces.first, *self._pieces(words), pieces.last] for words in split]
        subwords = self._subwords(split) if len(self._vocabulary.subword_counts) else repeat(([], []))
        ids, weights, starts, known = list[int](), list[float](), [0], self._id_of.get
        for words, (buckets, of_buckets) in zip(split, subwords, strict=False):
            own = [known(word, UNKNOWN) for word in words]
            of_words, in_bag = self._weights(own)
            length = hypot(*in_bag, *of_buckets) or 1.0
            ids += own + buckets
            weights += [weight / length for weight in of_words + of_buckets]
            starts.append(len(ids))
        return _texts(ids, weights, starts)

    def _pieces(self, words: list[str]) -> Iterator[str]:
        assert self._vocabulary.pieces is not None
        return chain.from_iterable(self._vocabulary.pieces.pieces(word, self._id_of) for word in words)

    def _weights(self, ids: list[int]) -> tuple[list[float], list[float]]:
        """Return the weight of each word's occurrence, and of each distinct word, before normalisation."""
        weights = [self._weight_of[id] for id in ids]
        if len(set(ids)) == len(ids):
            return weights, weights
        counts = Counter(ids)
        in_bag = {id: self._weight_of[id] * self._counted(count) for id, count in counts.items()}
        return [in_bag[id] / counts[id] for id in ids], list(in_bag.values())

    def _counted(self, count: int) -> float:
        return 1 + log(count) if self._vocabulary.sublinear else float(count)

    def _subwords(self, split: Sequence[list[str]]) -> Iterator[_Weighed]:
        """Yield the sub-word ids and weights of each text."""
        words, starts = list(chain.from_iterable(split)), np.cumsum([0, *map(len, split)])
        table = WordTable(words, np.arange(len(words), dtype=np.int32), starts)
        found = subwords_of(table, len(self._vocabulary.subword_counts))
        counts = 1 + np.log(found.counts) if self._vocabulary.sublinear else found.counts
        weights = (self._vocabulary.subword_weights[found.buckets] * counts).tolist()
        ids = (found.buckets + (FIRST_WORD + len(self._vocabulary.words))).tolist()
        bounds = found.starts.tolist()
        for first, last in pairwise(bounds):
            yield ids[first:last], weights[first:last]


def _texts(ids: Iterable[int], weights: Iterable[float], starts: Iterable[int]) -> Texts:
    return Texts(np.array(ids, dtype=np.int32), np.array(weights, dtype=np.float32), np.array(starts, dtype=np.int64))
