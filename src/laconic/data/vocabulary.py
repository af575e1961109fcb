"""Words to ids, and how much each word weighs. Counted on training texts and label texts, never on test texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from laconic.data.text import WordTable
from laconic.errors import ConfigError
from laconic.types import FIRST_WORD, UNKNOWN


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    min_count: int = 1  # a word must stand in so many texts
    size: int = 0  # keep so many of the most frequent words; 0 keeps all
    sublinear: bool = False  # a word that stands n times in a text counts 1 + ln n times, not n times

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise ConfigError(f"vocabulary.min_count must be 1 or more, but is {self.min_count}")
        if self.size < 0:
            raise ConfigError(f"vocabulary.size must be 0 (all words) or more, but is {self.size}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Vocabulary:
    """The known words, most frequent first. Token ids: 0 is PAD, 1 an unknown word, word w is w + FIRST_WORD."""

    words: Sequence[str]
    text_counts: Int[np.ndarray, "words"]  # in how many texts each word stands
    num_texts: int
    sublinear: bool = False

    @staticmethod
    def of(table: WordTable, config: VocabularyConfig) -> Vocabulary:
        """The words of these texts, ordered by the number of texts that have them, then by spelling."""
        counts = _text_counts(table)
        kept = np.flatnonzero(counts >= config.min_count)
        by_spelling = sorted(kept.tolist(), key=table.words.__getitem__)
        order = sorted(by_spelling, key=lambda word: -counts[word])[: config.size or None]
        return Vocabulary(
            words=[table.words[word] for word in order],
            text_counts=counts[order],
            num_texts=len(table.lengths),
            sublinear=config.sublinear,
        )

    @property
    def num_ids(self) -> int:
        return FIRST_WORD + len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: id for id, word in enumerate(self.words, FIRST_WORD)}

    @cached_property
    def word_weights(self) -> Float[np.ndarray, "ids"]:
        """Inverse document frequency by token id, as if one more text had every word; PAD and UNKNOWN weigh 0."""
        idf = np.log((1 + self.num_texts) / (1 + self.text_counts)) + 1
        return np.concatenate([np.zeros(FIRST_WORD), idf]).astype(np.float32)

    def tokens(self, table: WordTable) -> csr_array:
        """Texts as rows of token ids in reading order, unknown words included.

        A matrix that is not summed up: a word that stands twice in a text stands twice in its row. The weights of a
        row add up, per word, to tf-idf with length 1; `bags` sums them.
        """
        ids = np.array([self.ids.get(word, UNKNOWN) for word in table.words], dtype=np.int32)
        indices = ids[table.ids] if len(ids) else table.ids
        rows = csr_array((self.word_weights[indices], indices, table.starts), shape=(len(table.lengths), self.num_ids))
        if self.sublinear:
            counts = _counts_in_own_text(table)
            rows.data *= (1 + np.log(counts)) / counts
        rows.data /= np.repeat(_norms(bags(rows)), table.lengths)
        return rows


def bags(tokens: csr_array) -> csr_array:
    """Token rows as plain bags of words: each word once, in the order of ids, unknown words gone."""
    summed = tokens.copy()
    summed.sum_duplicates()
    summed.eliminate_zeros()
    return summed


def _text_counts(table: WordTable) -> Int[np.ndarray, "words"]:
    ones = np.ones(len(table.ids), dtype=np.int32)
    matrix = csr_array((ones, table.ids, table.starts), shape=(len(table.lengths), len(table.words)))
    matrix.sum_duplicates()
    return np.bincount(matrix.indices, minlength=len(table.words))


def _counts_in_own_text(table: WordTable) -> Float[np.ndarray, "total"]:
    """For every word of every text, how often that text has it."""
    text_of = np.repeat(np.arange(len(table.lengths)), table.lengths)
    _, place, counts = np.unique(text_of * len(table.words) + table.ids, return_inverse=True, return_counts=True)
    return counts[place].astype(np.float32)


def _norms(rows: csr_array) -> Float[np.ndarray, "texts"]:
    norms = np.sqrt(rows.multiply(rows).sum(axis=1))
    return np.where(norms == 0, 1, norms).astype(np.float32)
