"""WordPiece: cut words into the longest pieces that a pre-trained encoder's vocabulary has."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laconic.config import configure
from laconic.data.text import WordTable
from laconic.errors import ConfigError, ModelError

_NO_PIECE = ""  # what no vocabulary has: the token id of an unknown word


@dataclass(frozen=True, kw_only=True)
class WordPiece:
    """How a vocabulary's words are pieces of words."""

    prefix: str = "##"  # of a piece from inside a word
    first: str = "[CLS]"  # stands before every text
    last: str = "[SEP]"  # stands after every text
    longest: int = 100  # characters of a word that is cut; a longer one is unknown

    def cut(self, table: WordTable, known: Container[str]) -> WordTable:
        """Return the texts as rows of pieces between `first` and `last`; each distinct word is cut once."""
        number: dict[str, int] = {}
        flat, bounds = array("i"), array("q", [0])
        for word in (*table.words, self.first, self.last):
            pieces = [word] if len(bounds) > len(table.words) else self.pieces(word, known)
            flat.extend([number.setdefault(piece, len(number)) for piece in pieces])
            bounds.append(len(flat))
        whole = _between(table, len(table.words), len(table.words) + 1)
        starts, pieces_of = np.array(bounds, dtype=np.int64), np.array(flat, dtype=np.int32)
        counts = np.diff(starts)[whole.ids]
        ends = counts.cumsum()
        nth = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        ids = pieces_of[np.repeat(starts[whole.ids], counts) + nth]
        return WordTable(list(number), ids, np.concatenate([[0], ends])[whole.starts])

    def pieces(self, word: str, known: Container[str]) -> list[str]:
        """Return the pieces of a word, each the longest that is known; a word that cannot be cut so has no piece."""
        if len(word) > self.longest:
            return [_NO_PIECE]
        found, begin = list[str](), 0
        while begin < len(word):
            before = self.prefix if begin else ""
            ends = range(len(word), begin, -1)
            end = next((end for end in ends if before + word[begin:end] in known), begin)
            if end == begin:
                return [_NO_PIECE]
            found.append(before + word[begin:end])
            begin = end
        return found


def read_pieces(facts: Any, words: Collection[str], path: Path) -> WordPiece | None:
    """Return how the words of a stored vocabulary are pieces of words; those of most models are not."""
    if facts is None:
        return None
    try:
        pieces = configure(WordPiece, facts)
    except (ConfigError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: the vocabulary's pieces are not known: {error}") from None
    known = frozenset(words)
    if not {pieces.first, pieces.last} <= known:
        raise ModelError(f"{path}: the vocabulary lacks {pieces.first} or {pieces.last}; copy the model again")
    return pieces


def _between(table: WordTable, first: int, last: int) -> WordTable:
    """Return the table with the word `first` before and the word `last` after every text."""
    places = np.stack([table.starts[:-1], table.starts[1:]], axis=1).ravel()
    ids = np.insert(table.ids, places, np.tile(np.array([first, last], dtype=table.ids.dtype), len(table.lengths)))
    return WordTable(table.words, ids, table.starts + 2 * np.arange(len(table.starts)))
