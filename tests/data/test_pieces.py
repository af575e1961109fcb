"""Words cut into pieces, and texts split as BERT's tokenizers split them."""

from __future__ import annotations

import json
import unicodedata
from typing import Any
from unicodedata import ucd_3_2_0

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laconic.data.bert_words import bert_words
from laconic.data.label_texts import with_known_words
from laconic.data.pieces import WordPiece
from laconic.data.text import Splitter, word_table
from laconic.data.vocabulary import Vocabulary, bags
from laconic.types import FIRST_WORD, UNKNOWN
from tests.tiny_transformer import PIECES, tokenizer_json

UNCASED = Splitter(rules="bert", stop_words=False)
TRICKY = [
    "",
    "  ",
    "Bace!",
    "the dibaCE",
    "BÁ ce\u00adfo",
    "日本 ba",
    "x",
    "a" * 101,
    "ba\u200bce",
    "a_b-a",
    "Éa ﬁ ǅ",
    "\x00a",
]


def ids_of(texts: list[str]) -> list[list[int]]:
    vocabulary = Vocabulary.of_pieces(word_table(texts, UNCASED), PIECES, WordPiece())
    rows = vocabulary.tokens(word_table(texts, UNCASED))
    ids = [rows.indices[begin:end].tolist() for begin, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)]
    return [[PIECES.index("[UNK]") if id == UNKNOWN else id - FIRST_WORD for id in row] for row in ids]


def oracle(*, lowercase: bool = True) -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    return tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json(lowercase=lowercase)))


def test_words_are_cut_into_the_longest_pieces() -> None:
    names = [[PIECES[id] for id in row] for row in ids_of(["Bacefo!", "aba xy"])]
    assert names == [["[CLS]", "ba", "##ce", "##fo", "!", "[SEP]"], ["[CLS]", "a", "##ba", "[UNK]", "[SEP]"]]


# Characters that an old version of Unicode has and calls the same: of others the library's tables may not know that
# they are signs, or that they are none any more.
LONG_KNOWN = [
    one for one in map(chr, range(0x3000)) if unicodedata.category(one) == ucd_3_2_0.category(one) not in ("Cn", "Cs")
]


def test_bert_words_keep_signs_and_part_ideographs() -> None:
    assert bert_words("C++ für日本", cased=False) == ["c", "+", "+", "fur", "日", "本"]
    assert bert_words("C++ für", cased=True) == ["C", "+", "+", "für"]


@pytest.mark.parametrize("text", TRICKY)
def test_pieces_are_those_of_the_tokenizers_library(text: str) -> None:
    assert ids_of([text]) == [oracle().encode(text).ids]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(alphabet="abcefdiou éÁ日本!_.-\t\u00ad'\u0301ßİ", max_size=12), max_size=6))
def test_pieces_of_any_texts_are_those_of_the_tokenizers_library(texts: list[str]) -> None:
    # A text of invisible characters alone is an unknown word for us and no word for them.
    texts = [text for text in texts if bert_words(text, cased=False) or not text.split()]
    assert ids_of(texts) == [one.ids for one in oracle().encode_batch(texts)]


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from(LONG_KNOWN), max_size=20))
def test_cased_words_are_those_of_the_tokenizers_library(text: str) -> None:
    tokenizer = oracle(lowercase=False)
    split = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text))
    assert bert_words(text, cased=True) == [word for word, _ in split]


def test_tokens_around_a_text_weigh_nothing() -> None:
    texts = ["ba ce", "", "xyz"]
    vocabulary = Vocabulary.of_pieces(word_table(texts, UNCASED), PIECES, WordPiece())
    rows = vocabulary.tokens(word_table(texts, UNCASED))
    assert np.diff(bags(rows).indptr).tolist() == [2, 0, 0]
    assert with_known_words(rows).tolist() == [True, False, False]
    np.testing.assert_allclose(np.sqrt((bags(rows)[[0]].data ** 2).sum()), 1, rtol=1e-6)


def test_a_vocabulary_of_pieces_does_not_grow() -> None:
    vocabulary = Vocabulary.of_pieces(word_table(["ba"], UNCASED), PIECES, WordPiece())
    assert vocabulary.extended(word_table(["zzz"], UNCASED), 1) is vocabulary
