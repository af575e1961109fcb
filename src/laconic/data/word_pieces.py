"""Pieces of a pre-trained encoder for each word of a vocabulary: a text of words read as a text of pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from laconic.data.bert_words import bert_words
from laconic.data.encoder_folder import Pretrained
from laconic.system.sparse import csr_array
from laconic.types import FIRST_WORD, UNKNOWN


class WordPieces(NamedTuple):
    """Pieces by token id of a word: id i has `pieces[starts[i]:starts[i + 1]]`; padding and unknown words have none."""

    starts: Int[np.ndarray, "ids+1"]
    pieces: Int[np.ndarray, "total"]  # token ids of the encoder
    ends: Int[np.ndarray, "2"]  # the tokens that stand before and after every text

    @staticmethod
    def of(words: Sequence[str], encoder: Pretrained) -> WordPieces:
        """Cut every word as the encoder's tokenizer would cut it."""
        number = {piece: at for at, piece in enumerate(encoder.words, FIRST_WORD)}
        cased, cut = encoder.rules == "bert-cased", encoder.pieces.pieces
        found = [
            [number.get(piece, UNKNOWN) for part in bert_words(word, cased=cased) for piece in cut(part, number)]
            for word in words
        ]
        counts = [0] * FIRST_WORD + [len(own) for own in found]
        return WordPieces(
            np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
            np.array([piece for own in found for piece in own], dtype=np.int32),
            np.array([number[encoder.pieces.first], number[encoder.pieces.last]], dtype=np.int32),
        )

    def cut(self, rows: csr_array, num_pieces: int) -> csr_array:
        """Return token rows of words as rows of pieces, each with its word's weight; tokens around a text weigh 0."""
        text = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        counts = np.diff(self.starts)[rows.indices]
        word = np.repeat(np.arange(rows.nnz), counts)
        nth = np.arange(len(word)) - np.repeat(counts.cumsum() - counts, counts)
        lengths = np.bincount(text[word], minlength=rows.shape[0]) + 2
        starts = np.concatenate([[0], lengths.cumsum()])
        place = np.arange(len(word)) + 2 * text[word] + 1
        ids, weights = np.empty(starts[-1], dtype=np.int32), np.zeros(starts[-1], dtype=np.float32)
        ids[starts[:-1]], ids[starts[1:] - 1] = self.ends
        ids[place], weights[place] = self.pieces[self.starts[rows.indices[word]] + nth], rows.data[word]
        weights[ids == UNKNOWN] = 0
        return csr_array((weights, ids, starts), shape=(rows.shape[0], num_pieces))
