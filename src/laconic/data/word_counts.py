"""Count in how many texts each word stands, some texts at a time; counts of parts add up to those of the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Int

from laconic.data.subwords import subwords_of
from laconic.data.text import Pieces, Splitter, WordTable, word_table
from laconic.system.files import writing
from laconic.system.sparse import csr_array

_TEXTS = 65_536  # whose words are held at a time


@dataclass(kw_only=True, eq=False)
class WordCounts:
    """Numbers of texts: of all, of those that have a word, and of those that have a bucket of sub-words."""

    texts: int = 0
    words: Counter[str] = field(default_factory=Counter)
    subwords: Int[np.ndarray, "buckets"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @staticmethod
    def of(table: WordTable, buckets: int = 0) -> WordCounts:
        """Count the words of a table of texts."""
        words = Counter(dict(zip(table.words, text_counts(table).tolist(), strict=True)))
        return WordCounts(texts=len(table.lengths), words=words, subwords=_subword_counts(table, buckets))

    @staticmethod
    def of_texts(texts: Iterable[str], splitter: Splitter, buckets: int = 0) -> WordCounts:
        """Count the words of texts, which need not be in memory together."""
        found, rest, pieces = WordCounts(subwords=np.zeros(buckets, dtype=np.int64)), iter(texts), Pieces(splitter)
        while some := list(islice(rest, _TEXTS)):
            found.add(WordCounts.of(word_table(some, splitter, pieces), buckets))
        return found

    def ordered(self, min_count: int = 1) -> list[str]:
        """Return the words that so many texts have, ordered by the number of texts, then by spelling."""
        by_spelling = sorted(word for word, texts in self.words.items() if texts >= min_count)
        return sorted(by_spelling, key=lambda word: -self.words[word])

    def add(self, more: WordCounts) -> None:
        """Add the counts of other texts."""
        self.texts += more.texts
        self.words.update(more.words)
        self.subwords = self.subwords + more.subwords


def write_words(counts: WordCounts, path: Path) -> None:
    """Write a word per line with the number of texts that have it, after a tab; the most frequent come first."""
    with writing(path) as file:
        file.writelines(f"{word}\t{counts.words[word]}\n".encode() for word in counts.ordered())


def text_counts(table: WordTable) -> Int[np.ndarray, "words"]:
    """Return in how many texts each word of a table stands."""
    ones = np.ones(len(table.ids), dtype=np.int32)
    matrix = csr_array((ones, table.ids, table.starts), shape=(len(table.lengths), len(table.words)), copy=True)
    matrix.sum_duplicates()
    return np.bincount(matrix.indices, minlength=len(table.words))


def _subword_counts(table: WordTable, buckets: int) -> Int[np.ndarray, "buckets"]:
    if not buckets:
        return np.zeros(0, dtype=np.int64)
    return np.bincount(subwords_of(table, buckets).buckets, minlength=buckets)
