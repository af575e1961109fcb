"""tf-idf features for other libraries: tokenised and weighted as for our own models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from laconic.data.text import Splitter, word_table
from laconic.data.vocabulary import Vocabulary, VocabularyConfig
from laconic.packed.tokenizer import Reader

WORDS = "tf-idf of words"
SPLITTER = Splitter(stop_words=False)  # as tf-idf commonly is; their answers are the better for it
_FILE = "words.json"


class Features:
    """Rows of length 1 over the words of the training texts."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    @classmethod
    def of(cls, texts: Sequence[str]) -> Features:
        return cls(Vocabulary.of(word_table(texts, SPLITTER), VocabularyConfig()))

    @classmethod
    def read(cls, folder: Path) -> Features:
        known = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        counts = np.array(known["text_counts"], dtype=np.int64)
        return cls(Vocabulary(words=known["words"], text_counts=counts, num_texts=known["num_texts"]))

    def write(self, folder: Path) -> None:
        known = {
            "words": list(self._vocabulary.words),
            "text_counts": self._vocabulary.text_counts.tolist(),
            "num_texts": self._vocabulary.num_texts,
        }
        (folder / _FILE).write_text(json.dumps(known, ensure_ascii=False), encoding="utf-8")

    def rows(self, texts: Sequence[str]) -> csr_matrix:
        """Return a csr_matrix, the older class of scipy that these libraries accept."""
        ids, weights, starts = self._reader.read(texts)
        rows = csr_matrix((weights, ids, starts), shape=(len(texts), self._vocabulary.num_ids))
        rows.sum_duplicates()
        rows.eliminate_zeros()  # words that are not known
        return rows

    @cached_property
    def _reader(self) -> Reader:
        return Reader(SPLITTER, self._vocabulary)
