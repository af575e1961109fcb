"""Token rows to padded rectangles."""

from __future__ import annotations

import os
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from scipy.sparse import csr_array

from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer, inputs_of, padded, shuffled
from laconic.data.vocabulary import VocabularyConfig
from laconic.models.shortlisters.nearest import NearestVectors
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


@given(rows=ROWS, seed=st.integers(0, 99))
def test_shuffling_keeps_every_text_s_words_and_their_weights(rows: list[list[tuple[int, float]]], seed: int) -> None:
    mixed = shuffled(rows_of(rows), seed)
    pairs = list(zip(mixed.indices.tolist(), mixed.data.tolist(), strict=True))
    assert [sorted(pairs[start:end]) for start, end in pairwise(mixed.indptr.tolist())] == [*map(sorted, rows)]
    assert mixed.shape == (len(rows), 10)


def test_every_order_of_words_is_as_likely_as_any_other() -> None:
    mixed = shuffled(rows_of([[(1, 0.1), (2, 0.2), (3, 0.3)]] * 6000), seed=0)
    orders, counts = np.unique(mixed.indices.reshape(-1, 3), axis=0, return_counts=True)
    assert orders.tolist() == [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]]
    assert counts.tolist() == pytest.approx([1000] * 6, abs=150)


def test_a_shuffle_is_the_seed_s_alone_and_leaves_its_rows_as_they_were() -> None:
    rows = rows_of([[(word, word / 10) for word in range(1, 10)]] * 3)
    before = rows.indices.copy()
    assert shuffled(rows, 1).indices.tolist() == shuffled(rows, 1).indices.tolist()
    assert shuffled(rows, 1).indices.tolist() != shuffled(rows, 2).indices.tolist()
    shuffled(rows, 1).sum_duplicates()
    np.testing.assert_array_equal(rows.indices, before)


@pytest.mark.skipif(os.environ.get("LACONIC_CHECKS") != "all", reason="make test-types checks the whole package")
def test_shapes_are_checked_where_all_packages_are() -> None:
    pytest.importorskip("beartype")
    with pytest.raises(TypeCheckError):
        NearestVectors(torch.ones(3))  # rows × dim are asked for
