"""Add words to a finished model, in every part that uses token ids.

New words come after the last known one, so that known words keep their ids; buckets of sub-words move up. Nothing is
trained: a new word starts from the words beside it in the texts that have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import numpy as np
import torch
from jaxtyping import Int
from scipy.sparse import csr_array
from torch import Tensor, nn

from laconic.data.text import WordTable
from laconic.data.vocabulary import Vocabulary
from laconic.kernels.csr import Lists
from laconic.models.encoders import PieceEncoder, TransformerEncoder, WordEncoder
from laconic.models.rankers import Ranker
from laconic.models.shortlisters.label_texts import WithLabelTexts
from laconic.models.shortlisters.nearest import NearestBags, StoredLists
from laconic.types import FIRST_WORD


@dataclass(frozen=True, kw_only=True, eq=False)
class NewWords:
    """Words that join a vocabulary."""

    at: int  # the token id of the first
    count: int
    beside: csr_array  # new words × known token ids: the mean text around each; an empty row: nothing is known

    def moved(self, ids: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """Return token ids after the new words are inserted."""
        return ids + self.count * (ids >= self.at)

    @staticmethod
    def of(known: Vocabulary, grown: Vocabulary, table: WordTable, around: csr_array) -> NewWords:
        """Return the words that `grown` has in addition to `known`, with the words beside them.

        `around` has a row for each text of the table: its known words and those of its labels.
        """
        first, count = FIRST_WORD + len(known.words), len(grown.words) - len(known.words)
        number = np.array([grown.ids.get(word, 0) for word in table.words], dtype=np.int64) - first
        of_word, text = number[table.ids], np.repeat(np.arange(len(table.lengths)), table.lengths)
        new = of_word >= 0
        has = csr_array((np.ones(new.sum()), (of_word[new], text[new])), shape=(count, len(table.lengths)))
        has.data[:] = np.repeat(1 / np.maximum(np.diff(has.indptr), 1), np.diff(has.indptr))
        return NewWords(at=first, count=count, beside=csr_array(has @ around))


def with_words(ranker: Ranker, words: NewWords) -> Ranker:
    """Add words to a ranker, in place; predictions for texts of known words do not change."""
    for part in list(ranker.modules()):
        add_words(part, words)
        if isinstance(part, Ranker) and part.num_ids:
            part.num_ids += words.count
    return ranker


@singledispatch
def add_words(part: nn.Module, words: NewWords) -> None:
    """Add words to a part, in place; a part that does not use token ids stays as it is."""


@add_words.register
def _(part: WordEncoder, words: NewWords) -> None:
    table = part.embedding.weight.detach()
    rows = torch.cat([table[: words.at], _vectors(table, words), table[words.at :]])
    part.embedding = nn.Embedding(len(rows), rows.shape[1], padding_idx=part.embedding.padding_idx, _weight=rows)
    part.num_ids += words.count


def _vectors(table: Tensor, words: NewWords) -> Tensor:
    """Return the sum of vectors beside each new word; a random direction for a word that is always alone."""
    known = words.beside @ table.cpu().numpy()
    alone = np.abs(known).sum(axis=1) == 0
    usual = float(table[FIRST_WORD : words.at].norm(dim=1).median()) if words.at > FIRST_WORD else 1.0
    drawn = np.random.default_rng(words.at).normal(size=known.shape)
    drawn *= usual / np.linalg.norm(drawn, axis=1, keepdims=True)
    return torch.from_numpy(np.where(alone[:, None], drawn, known)).to(table)


@add_words.register
def _(part: TransformerEncoder, words: NewWords) -> None:
    """Leave the encoder as it is: it reads pieces, and their vocabulary does not grow."""


@add_words.register
def _(part: PieceEncoder, words: NewWords) -> None:
    """Give new words no pieces."""
    starts = torch.from_numpy(with_empty_ranges(part.starts.cpu().numpy(), words))
    part.starts, part.num_ids = starts.to(part.starts.device), part.num_ids + words.count


@add_words.register
def _(part: NearestBags, words: NewWords) -> None:
    part.index = with_empty_lists(part.index, words)


@add_words.register
def _(part: WithLabelTexts, words: NewWords) -> None:
    part.words, part.num_ids = words.moved(part.words), part.num_ids + words.count


def with_empty_lists(stored: StoredLists, words: NewWords) -> StoredLists:
    """Return lists by token id with an empty one for every new word."""
    lists = stored.lists()
    return StoredLists(Lists(with_empty_ranges(lists.starts, words), lists.numbers, lists.values))


def with_empty_ranges(starts: Int[np.ndarray, "bounds"], words: NewWords, each: int = 1) -> Int[np.ndarray, "more"]:
    """Return bounds of ranges by token id, `each` for one, with empty ranges for every new word."""
    at = words.at * each
    if len(starts) <= at:  # no token id so high has a range
        return starts
    return np.insert(starts, at, np.full(words.count * each, starts[at]))
