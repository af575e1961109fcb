"""Names in a mapped file."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.errors import ModelError
from laconic.packed import strings as module
from laconic.packed.strings import LabelNames, NameIndex, Strings, write_strings
from laconic.types import NO_LABEL

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), unique=True)


def label_names(folder, names):
    return LabelNames(folder / "names", write_strings(folder / "names", names), NameIndex.of(names))


@given(NAMES, st.lists(st.text(), max_size=3))
def test_names_have_numbers_and_numbers_have_names(names, others):
    with tempfile.TemporaryDirectory() as temporary:
        there = label_names(Path(temporary), names)
        assert len(there) == len(names)
        assert list(there) == list(there[:]) == names
        assert there[1:] == names[1:]
        assert there.numbers_of(names).tolist() == list(range(len(names)))
        unknown = [other for other in others if other not in names]
        assert there.numbers_of(unknown).tolist() == [NO_LABEL] * len(unknown)


def test_names_are_counted_from_the_end_too_and_end(tmp_path):
    names = label_names(tmp_path, ["red", "größe"])
    assert names[-1] == "größe"
    for outside in (2, -3):
        with pytest.raises(IndexError):
            names[outside]


def test_names_that_share_a_hash_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_hashes", lambda names: np.array([len(name) for name in names], dtype=np.uint64))
    names = label_names(tmp_path, ["red", "blue", "tan", "sea"])
    assert names.numbers_of(["sea", "blue", "red", "tan", "fog", "blues"]).tolist() == [3, 1, 0, 2, NO_LABEL, NO_LABEL]


def test_all_strings_at_once_are_the_strings(tmp_path):
    words = ["", "c++", "größe", "日本"]
    assert Strings(tmp_path / "words", write_strings(tmp_path / "words", words)).all() == words


@pytest.mark.parametrize("starts", [[0, 3], [0, 99], [1, 6], [0, 5, 3, 6], [], [[0, 6]], [0.0, 6.0]], ids=str)
def test_bounds_that_are_none_are_refused(tmp_path, starts):
    (tmp_path / "names").write_bytes(b"redtan")
    with pytest.raises(ModelError, match="bounds of names"):
        Strings(tmp_path / "names", np.array(starts))


def test_what_is_not_utf_8_is_refused_when_it_is_asked_for(tmp_path):
    (tmp_path / "names").write_bytes("aöb".encode())
    names = Strings(tmp_path / "names", np.array([0, 1, 2, 4]))
    assert names[0] == "a"
    for ask in (lambda: names[1], lambda: names[2], names.all):
        with pytest.raises(ModelError, match=r"names: .* is not UTF-8 .* copy the model again"):
            ask()


@pytest.mark.parametrize("order", [[0, 2], [-1, 0], [0]])
def test_an_index_that_points_outside_is_refused(tmp_path, order):
    names = ["red", "tan"]
    starts, index = write_strings(tmp_path / "names", names), NameIndex.of(names)
    with pytest.raises(ModelError, match="order of names"):
        LabelNames(tmp_path / "names", starts, NameIndex(index.hashes, np.array(order, dtype=np.int32)))
