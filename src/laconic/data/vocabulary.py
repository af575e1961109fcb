"""Map words to ids and weights, counted on training texts and label texts, never on test texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from laconic.config import Bounds, check_within
from laconic.data.pieces import WordPiece
from laconic.data.subwords import MOST_BUCKETS, subwords_of
from laconic.data.text import WordTable
from laconic.data.word_counts import WordCounts, text_counts
from laconic.system.sparse import csr_array
from laconic.types import FIRST_WORD, UNKNOWN


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """Settings of the vocabulary."""

    bounds: ClassVar[Bounds] = {"min_count": (1, math.inf), "size": (0, math.inf), "subwords": (0, MOST_BUCKETS)}

    min_count: int = 1
    """Training texts in which a word must occur to be known."""
    size: int = 0
    """Number of the most frequent words that are kept. 0: all of them."""
    sublinear: bool = False
    """Whether a word that occurs n times in a text counts 1 + ln n times instead of n times."""
    subwords: int = 0
    """Buckets for the hashed character 3- and 4-grams of words, which misspelt words share. 0: no sub-words."""

    def __post_init__(self) -> None:
        check_within(self, self.bounds, "vocabulary.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Vocabulary:
    """The known words, most frequent first, and the buckets of sub-words, also those of words that are not known.

    Token ids: 0 is PAD, 1 an unknown word, word w is w + FIRST_WORD; buckets follow after the last word.
    """

    words: Sequence[str]
    text_counts: Int[np.ndarray, "words"]  # in how many texts each word stands
    num_texts: int
    sublinear: bool = False
    # In how many texts each bucket stands; empty: there are no sub-words.
    subword_counts: Int[np.ndarray, "buckets"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    pieces: WordPiece | None = None  # how words are cut into pieces, which `words` then are; None: they are not cut

    @staticmethod
    def of(table: WordTable, config: VocabularyConfig) -> Vocabulary:
        """Return the vocabulary of the words of these texts."""
        return Vocabulary.of_counts(WordCounts.of(table, config.subwords), config)

    @staticmethod
    def of_counts(counts: WordCounts, config: VocabularyConfig) -> Vocabulary:
        """Return counted words, ordered by the number of texts that have them, then by spelling."""
        words = counts.ordered(config.min_count)[: config.size or None]
        return Vocabulary(
            words=words,
            text_counts=np.array([counts.words[word] for word in words], dtype=np.int64),
            num_texts=counts.texts,
            sublinear=config.sublinear,
            subword_counts=counts.subwords,
        )

    @staticmethod
    def of_pieces(table: WordTable, words: Sequence[str], pieces: WordPiece) -> Vocabulary:
        """Count in how many of these texts each piece of a pre-trained encoder's vocabulary stands."""
        cut = pieces.cut(table, frozenset(words))
        number, counts = {word: at for at, word in enumerate(words)}, np.zeros(len(words), dtype=np.int64)
        for word, count in zip(cut.words, text_counts(cut), strict=True):
            if word in number:
                counts[number[word]] = count
        return Vocabulary(words=words, text_counts=counts, num_texts=len(table.lengths), pieces=pieces)

    @property
    def num_ids(self) -> int:
        return FIRST_WORD + len(self.words) + len(self.subword_counts)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: id for id, word in enumerate(self.words, FIRST_WORD)}

    @cached_property
    def word_weights(self) -> Float[np.ndarray, "ids"]:
        """Return inverse document frequencies by token id, smoothed by one text; PAD and UNKNOWN weigh 0.

        So do the tokens that stand before and after every text.
        """
        weights = np.concatenate([np.zeros(FIRST_WORD), self._idf(self.text_counts)]).astype(np.float32)
        if self.pieces is not None:
            weights[[self.ids[self.pieces.first], self.ids[self.pieces.last]]] = 0
        return weights

    @cached_property
    def subword_weights(self) -> Float[np.ndarray, "buckets"]:
        """Return inverse document frequencies by bucket; a bucket that no text had weighs 0."""
        return np.where(self.subword_counts > 0, self._idf(self.subword_counts), 0).astype(np.float32)

    def _idf(self, counts: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return np.log((1 + self.num_texts) / (1 + counts)) + 1

    def extended(self, table: WordTable, min_count: int) -> Vocabulary:
        """Return the vocabulary with the words of further texts after its own, by the rule that made it.

        Weights of known words stay as they are, as do those of sub-words. Pieces are those of the encoder, always.
        """
        if self.pieces is not None:
            return self
        counts = text_counts(table)
        new = [at for at, word in enumerate(table.words) if word not in self.ids and counts[at] >= min_count]
        new.sort(key=lambda at: (-counts[at], table.words[at]))
        return replace(
            self,
            words=[*self.words, *(table.words[at] for at in new)],
            text_counts=np.concatenate([self.text_counts, np.minimum(counts[new], self.num_texts)]),
        )

    def tokens(self, table: WordTable) -> csr_array:
        """Return texts as rows of token ids in reading order, unknown words included, sub-words last.

        A matrix that is not summed up: a word that stands twice in a text stands twice in its row. The weights of a
        row add up, per word and per bucket, to tf-idf with length 1; `bags` sums them.
        """
        if self.pieces is not None:
            table = self.pieces.cut(table, self.ids)
        ids = np.array([self.ids.get(word, UNKNOWN) for word in table.words], dtype=np.int32)
        indices = ids[table.ids] if len(ids) else table.ids
        rows = csr_array((self.word_weights[indices], indices, table.starts), shape=(len(table.lengths), self.num_ids))
        if self.sublinear:
            counts = _counts_in_own_text(table)
            rows.data *= (1 + np.log(counts)) / counts
        if len(self.subword_counts):
            rows = self._with_subwords(rows, table)
        rows.data /= np.repeat(_norms(bags(rows)), np.diff(rows.indptr))
        return rows

    def _with_subwords(self, words: csr_array, table: WordTable) -> csr_array:
        """Append each text's sub-words to its words."""
        starts, buckets, counts = subwords_of(table, len(self.subword_counts))
        weights = self.subword_weights[buckets] * (1 + np.log(counts) if self.sublinear else counts)
        lengths = np.stack([table.lengths, np.diff(starts)], axis=1)
        is_word = np.repeat(np.tile([True, False], len(lengths)), lengths.ravel())
        indices, data = np.empty(len(is_word), dtype=np.int32), np.empty(len(is_word), dtype=np.float32)
        indices[is_word], data[is_word] = words.indices, words.data
        indices[~is_word], data[~is_word] = FIRST_WORD + len(self.words) + buckets, weights
        return csr_array((data, indices, table.starts + starts), shape=words.shape)


def bags(tokens: csr_array) -> csr_array:
    """Turn token rows into bags of words: each word once, ordered by id, without unknown words."""
    summed = tokens.copy()
    summed.sum_duplicates()
    summed.eliminate_zeros()
    return summed


def limited_to(tokens: csr_array, known: Bool[np.ndarray, "ids"]) -> csr_array:
    """Return token rows as they are read where these ids alone are known: other words are unknown and weigh nothing."""
    strange = ~known[tokens.indices]
    if not strange.any():
        return tokens
    indices, weights = np.where(strange, UNKNOWN, tokens.indices), np.where(strange, 0, tokens.data)
    rows = csr_array((weights, indices, tokens.indptr.copy()), shape=tokens.shape)
    rows.data /= np.repeat(_norms(bags(rows)), np.diff(rows.indptr))
    return rows


def _counts_in_own_text(table: WordTable) -> Float[np.ndarray, "total"]:
    """Return for every word of every text how often that text has it."""
    text_of = np.repeat(np.arange(len(table.lengths)), table.lengths)
    _, place, counts = np.unique(text_of * len(table.words) + table.ids, return_inverse=True, return_counts=True)
    return counts[place].astype(np.float32)


def _norms(rows: csr_array) -> Float[np.ndarray, "texts"]:
    squares = csr_array((rows.data * rows.data, rows.indices, rows.indptr), shape=rows.shape)
    norms = np.sqrt(squares.sum(axis=1))
    return np.where(norms == 0, 1, norms).astype(np.float32)
