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
        ids, starts, word = self.cut_ids(rows.indices, rows.indptr)
        weights = np.where((word >= 0) & (ids != UNKNOWN), np.append(rows.data, 0)[word], 0).astype(np.float32)
        return csr_array((weights, ids, starts), shape=(rows.shape[0], num_pieces))

    def cut_ids(self, ids: Int[np.ndarray, "words"], starts: Int[np.ndarray, "texts+1"]) -> PieceRows:
        """Return the pieces of texts of words; text t is `ids[starts[t]:starts[t + 1]]`."""
        text = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        counts = np.diff(self.starts)[ids]
        word = np.repeat(np.arange(len(ids)), counts)
        nth = np.arange(len(word)) - np.repeat(counts.cumsum() - counts, counts)
        bounds = np.concatenate([[0], (np.bincount(text[word], minlength=len(starts) - 1) + 2).cumsum()])
        place = np.arange(len(word)) + 2 * text[word] + 1
        found, of_word = np.empty(bounds[-1], dtype=np.int32), np.full(bounds[-1], -1, dtype=np.int64)
        found[bounds[:-1]], found[bounds[1:] - 1] = self.ends
        found[place], of_word[place] = self.pieces[self.starts[ids[word]] + nth], word
        return PieceRows(found, bounds, of_word)


class PieceRows(NamedTuple):
    """Texts of pieces: text t is `ids[starts[t]:starts[t + 1]]`."""

    ids: Int[np.ndarray, "total"]
    starts: Int[np.ndarray, "texts+1"]
    word: Int[np.ndarray, "total"]  # the place of each piece's word; -1 for the tokens around a text
