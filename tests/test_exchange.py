"""Data that one rank hands to others is what it has read."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from laconic.data.dataset import Dataset
from laconic.data.encoder_folder import Pretrained
from laconic.data.exchange import map_data, write_data
from laconic.data.pieces import WordPiece
from laconic.data.prepare import prepare
from laconic.data.text import Splitter
from laconic.data.vectors import WordVectors
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import DataError
from laconic.training.run import fingerprint
from tests.planted import planted_texts, planted_vectors


def made(kind: str) -> Dataset:
    """Return data with all that a dataset can have, or dense features."""
    if kind == "dense":
        return prepare(planted_vectors(), Splitter(), VocabularyConfig()).data
    corpus = planted_texts(num_texts=3000, with_label_texts=True)
    data, tokenizer = prepare(corpus, Splitter(), VocabularyConfig(subwords=64))
    assert tokenizer is not None
    words = tokenizer.vocabulary
    left_out = csr_array((np.ones(2, dtype=bool), ([1, 5], [2, 3])), shape=data.labels.shape)
    encoder = Pretrained(
        layers=1,
        heads=2,
        inner=3,
        dim=4,
        positions=5,
        weights={"first": np.ones((70, 300), dtype=np.float32), "second": np.zeros(0, dtype=np.float32)},
        words=["a", "##b"],
        pieces=WordPiece(longest=7),
        rules="bert",
        digest="0",
    )
    vectors = WordVectors(np.eye(len(words.words), 5), np.arange(len(words.words)) % 2 == 0, words)
    return replace(
        data,
        leave_out=left_out,
        weights=np.linspace(0, 1, len(data)),
        word_vectors=vectors,
        pretrained=encoder,
        validation=data.rows(np.arange(7)),
    )


def check_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, csr_array):
        assert found.shape == expected.shape
        for name in ("data", "indices", "indptr"):
            check_same(getattr(found, name), getattr(expected, name))
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            check_same(found[name], expected[name])
    elif hasattr(expected, "__dataclass_fields__"):
        for field in fields(expected):
            check_same(getattr(found, field.name), getattr(expected, field.name))
    else:
        assert found == expected


@pytest.mark.parametrize("kind", ["dense", "texts"])
def test_mapped_data_is_what_was_written_also_when_the_files_are_gone(tmp_path: Path, kind: str) -> None:
    data = made(kind)
    write_data(data, tmp_path)
    found = map_data(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    check_same(found, data)
    assert fingerprint(found) == fingerprint(data)


def test_what_one_rank_changes_the_others_do_not_see(tmp_path: Path) -> None:
    write_data(made("texts"), tmp_path)
    one, other = map_data(tmp_path), map_data(tmp_path)
    before = other.inputs.data.copy()
    one.inputs.data[:] = -1
    np.testing.assert_array_equal(other.inputs.data, before)


def test_files_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="another rank of its machine has written there"):
        map_data(tmp_path / "elsewhere")
