"""Token rows to padded rectangles."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from scipy.sparse import csr_array

from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer, inputs_of, padded
from laconic.data.vocabulary import VocabularyConfig
from laconic.shortlisters.nearest import NearestVectors
from laconic.types import PAD, UNKNOWN, Tokens

ROWS = st.lists(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 1, width=32)), max_size=6), max_size=6)


def rows_of(rows: list[list[tuple[int, float]]]) -> csr_array:
    ids = np.array([id for row in rows for id, _ in row], dtype=np.int32)
    weights = np.array([weight for row in rows for _, weight in row], dtype=np.float32)
    return csr_array((weights, ids, np.cumsum([0, *map(len, rows)])), shape=(len(rows), 10))


@given(rows=ROWS, length=st.integers(0, 8))
def test_rows_are_cut_and_padded_on_the_right(rows: list[list[tuple[int, float]]], length: int) -> None:
    tokens = padded(rows_of(rows), length)
    width = length or max([1, *map(len, rows)])
    expected = [[*row[:width], *[(PAD, 0.0)] * (width - len(row))] for row in rows]
    assert tokens.ids.tolist() == [[id for id, _ in row] for row in expected]
    assert tokens.weights.tolist() == [[weight for _, weight in row] for row in expected]
    assert tokens.ids.shape == tokens.weights.shape == (len(rows), width)


def test_an_empty_text_is_all_padding() -> None:
    tokenizer = Tokenizer.of(["red apple"], Splitter(), VocabularyConfig())
    tokens = tokenizer.tokens(["", "red"])
    assert tokens.ids.tolist() == [[PAD], [tokenizer.vocabulary.ids["red"]]]
    assert tokens.weights[0].tolist() == [0]
    assert tokenizer.tokens([""]).ids.shape == (1, 1)
    assert tokenizer.tokens([]).ids.shape == (0, 1)


def test_an_unknown_word_is_not_padding() -> None:
    tokenizer = Tokenizer.of(["red apple"], Splitter(), VocabularyConfig())
    assert tokenizer.tokens(["pear"]).ids.tolist() == [[UNKNOWN]]


def test_dense_rows_are_read_as_they_are() -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    inputs = inputs_of(rows)
    assert isinstance(inputs, torch.Tensor)
    assert inputs.tolist() == rows.tolist()
    assert isinstance(inputs_of(rows_of([[(2, 1.0)]])), Tokens)


def test_shapes_are_checked_while_tests_run() -> None:
    pytest.importorskip("beartype")
    with pytest.raises(TypeCheckError):
        NearestVectors(torch.ones(3))  # rows × dim are asked for
