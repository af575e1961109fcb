"""A sketch tells how many of some texts a model was trained on, whatever their order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from laconic.data import sketch as module
from laconic.data.corpus import Split
from laconic.data.hashes import feature_hashes, text_hashes
from laconic.data.sketch import Overlap, TextSketch, seen_words


def texts(first: int, last: int) -> list[str]:
    return [f"text number {number}" for number in range(first, last)]


def test_texts_are_found_in_any_order_and_case_and_however_often() -> None:
    trained = TextSketch.of(text_hashes([*texts(0, 50), *texts(0, 50)]))
    asked = [*reversed(texts(40, 60)), "  TEXT  Number\t7 "]
    assert trained.overlap(text_hashes(asked)) == Overlap(11, 11 / 21, exact=True)
    assert trained.overlap(text_hashes(texts(50, 60))).texts == 0
    assert trained.overlap(text_hashes([])) == Overlap(0, 0.0, exact=True)


def test_hashes_are_the_same_on_every_machine() -> None:
    assert text_hashes(["Red  Rose"]).tolist() == text_hashes(["red rose"]).tolist() == [5997383688017197057]


def test_a_sketch_is_bounded_and_estimates_what_it_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT", 1000)
    trained = TextSketch.of(text_hashes(texts(0, 20_000)))
    assert (len(trained.hashes), trained.complete) == (1000, False)
    found = trained.overlap(text_hashes(texts(10_000, 30_000)))
    assert found.share == pytest.approx(0.5, abs=0.05)
    assert (found.texts, found.exact) == (round(found.share * 20_000), False)
    assert trained.overlap(text_hashes(texts(0, 20_000))).share == 1
    assert trained.overlap(text_hashes(texts(20_000, 40_000))).share == 0


@given(st.integers(1, 30), st.lists(st.integers(0, 40)), st.lists(st.integers(0, 40)))
def test_merged_sketches_are_the_sketch_of_both(limit: int, one: list[int], other: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LIMIT", limit)
        first, second = (text_hashes([str(number) for number in numbers]) for numbers in (one, other))
        merged = TextSketch.of(first).merged(TextSketch.of(second))
        whole = TextSketch.of(np.concatenate([first, second]))
        assert merged.complete == whole.complete
        assert merged.hashes.tolist() == whole.hashes.tolist()


def test_rows_of_features_are_hashed_where_there_are_no_texts() -> None:
    dense = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0]], dtype=np.float32)
    labels = csr_array((3, 1), dtype=np.float32)
    for features in (dense, csr_array(dense)):
        first, second, third = feature_hashes(features).tolist()
        assert first == third != second
        hashes = Split(labels=labels, features=features).hashes()
        assert hashes is not None
        assert hashes.tolist() == [first, second, third]
    assert Split(labels=labels).hashes() is None
    unordered = csr_array((np.array([2.0, 1.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    ordered = csr_array((np.array([1.0, 2.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    assert feature_hashes(unordered).tolist() == feature_hashes(ordered).tolist()


@pytest.mark.parametrize(
    ("share", "exact", "words"),
    [
        (1.0, True, ", all of them seen in training"),
        (0.5, True, ", 50 % of them seen in training"),
        (0.5, False, ", about 50 % of them seen in training"),
        (0.2, True, ", 20 % of them seen in training"),
        (0.19, True, ""),
    ],
)
def test_a_title_speaks_of_training_texts_where_they_are_many(share: float, exact: bool, words: str) -> None:
    assert seen_words(Overlap(10, share, exact)) == words
    assert seen_words(Overlap(10, share, exact), "m") == (words and f"{words} by m")
    assert seen_words(None) == ""


@pytest.mark.parametrize(
    ("hashes", "facts"),
    [
        ([1, 3, 2], {"hashes": 3, "complete": True}),
        ([1, 1], {"hashes": 2, "complete": True}),
        ([1, 2], {"hashes": 3, "complete": True}),
        ([1, 2], {"hashes": 2, "complete": "yes"}),
        ([1, 2], {"hashes": "2"}),
        ([], {"hashes": 0, "complete": False}),
    ],
)
def test_hashes_that_do_not_fit_what_is_said_of_them_are_found_out(hashes: list[int], facts: object) -> None:
    assert not TextSketch.fits(np.array(hashes, dtype=np.uint64), facts)
    assert TextSketch.fits(np.array([1, 2], dtype=np.uint64), {"hashes": 2, "complete": True})
    assert not TextSketch.fits(np.array([1, 2], dtype=np.int64), {"hashes": 2, "complete": True})
