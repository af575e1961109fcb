"""Turn texts into token rows and into the padded rectangles that models read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from laconic.data.dataset import Rows
from laconic.data.encoder_folder import Pretrained
from laconic.data.text import Splitter, WordTable, word_table
from laconic.data.vocabulary import Vocabulary, VocabularyConfig
from laconic.data.word_counts import WordCounts
from laconic.types import PAD, Inputs, Tokens


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A splitter with the vocabulary that its words are looked up in."""

    splitter: Splitter
    vocabulary: Vocabulary

    @staticmethod
    def of(texts: Iterable[str], splitter: Splitter, config: VocabularyConfig) -> Tokenizer:
        """Count the vocabulary of these texts, some at a time."""
        counts = WordCounts.of_texts(texts, splitter, config.subwords)
        return Tokenizer(splitter, Vocabulary.of_counts(counts, config))

    @staticmethod
    def of_tables(tables: Iterable[WordTable], splitter: Splitter, config: VocabularyConfig) -> Tokenizer:
        """Count the vocabulary of texts that the splitter has split already."""
        counts = WordCounts(subwords=np.zeros(config.subwords, dtype=np.int64))
        for table in tables:
            counts.add(WordCounts.of(table, config.subwords))
        return Tokenizer(splitter, Vocabulary.of_counts(counts, config))

    @staticmethod
    def of_pretrained(texts: Iterable[str], splitter: Splitter, encoder: Pretrained) -> Tokenizer:
        """Count the pieces of a pre-trained encoder in these texts."""
        return Tokenizer(splitter, Vocabulary.of_pieces(word_table(texts, splitter), encoder.words, encoder.pieces))

    def rows(self, texts: Iterable[str]) -> csr_array:
        return self.vocabulary.tokens(word_table(texts, self.splitter))

    def tokens(self, texts: Iterable[str]) -> Tokens:
        return padded(self.rows(texts))


def inputs_of(rows: Rows) -> Inputs:
    """Turn rows of a dataset into a model's inputs."""
    return padded(rows) if isinstance(rows, csr_array) else torch.from_numpy(rows)


def padded(rows: csr_array, length: int = 0) -> Tokens:
    """Cut token rows at `length` (0: the longest row's) and pad them with PAD on the right."""
    lengths = np.diff(rows.indptr)
    length = length or int(lengths.max(initial=1))
    there = np.arange(length) < lengths[:, None]
    places = (rows.indptr[:-1, None] + np.arange(length))[there]
    ids = np.full(there.shape, PAD, dtype=np.int32)
    weights = np.zeros(there.shape, dtype=np.float32)
    ids[there], weights[there] = rows.indices[places], rows.data[places]
    return Tokens(torch.from_numpy(ids), torch.from_numpy(weights))


def shuffled(rows: csr_array, seed: int) -> csr_array:
    """Shuffle the words of every text, each with its weight."""
    text_of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    order = np.lexsort((np.random.default_rng(seed).random(len(text_of)), text_of))
    return csr_array((rows.data[order], rows.indices[order], rows.indptr.copy()), shape=rows.shape)
