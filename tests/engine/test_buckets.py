"""Labels in buckets: the mean of their buckets' probabilities, as plain numpy has it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laconic.errors import ModelError
from laconic.packed.engine.buckets import Buckets, add_up, score_labels
from laconic.packed.engine.encoders import Given
from laconic.types import NO_LABEL
from tests.engine.making import DIM, exactly, layer, mapped, numbers, rows, sigmoid

LABELS, SIZES = 200, [6, 9, 7]


def buckets(labels: int = LABELS, **changes: Any) -> Buckets:
    """Three members; labels 7 and 70 share every bucket."""
    starts, chance = np.cumsum([0, *SIZES]), np.random.default_rng(0)
    numbers_of = np.stack([chance.integers(*bounds, size=labels) for bounds in pairwise(starts)], axis=1)
    if labels > 70:
        numbers_of[70] = numbers_of[7]
    return Buckets(
        **{
            "encoders": tuple(Given(features=DIM) for _ in SIZES),
            "transforms": tuple(layer(seed=5 * member) for member in range(len(SIZES))),
            "rows": rows(sum(SIZES)),
            "starts": starts.astype(np.int32),
            "buckets": numbers_of.astype(np.int32),
            **changes,
        }
    )


def plainly(part: Buckets, vectors: np.ndarray) -> np.ndarray:
    members = [sigmoid(exactly(part.rows, transform.apply(vectors))) for transform in part.transforms]
    return np.mean([member[:, part.buckets[:, number]] for number, member in enumerate(members)], axis=0)


@pytest.mark.parametrize("k", [0, 1, 5, LABELS, LABELS + 3])
def test_the_best_labels_are_those_of_the_likeliest_buckets(k: int) -> None:
    part, vectors = buckets(rescored=LABELS), numbers(10, DIM, seed=9)
    labels, scores = part.rank(vectors, k)
    expected = plainly(part, vectors)
    there = min(k, LABELS)
    np.testing.assert_allclose(scores[:, :there], -np.sort(-expected, axis=1)[:, :k], rtol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(expected, labels[:, :there], 1), scores[:, :there], rtol=1e-5)
    assert all(len(set(row[:there])) == there for row in labels.tolist())
    assert (labels[:, there:] == NO_LABEL).all()
    assert (scores[:, there:] == 0).all()


def test_of_equals_the_smaller_label_is_first() -> None:
    labels, scores = buckets(rescored=LABELS).rank(numbers(10, DIM, seed=9), LABELS)
    for row, of_row in zip(labels.tolist(), scores, strict=True):
        assert row.index(70) == row.index(7) + 1
        assert of_row[row.index(7)] == of_row[row.index(70)]
        assert all(one < other for one, other, gap in zip(row, row[1:], np.diff(of_row), strict=False) if gap == 0)


def test_what_is_scored_again_is_what_coarse_rows_find_best() -> None:
    part, vectors = buckets(rescored=20), numbers(30, DIM, seed=9)
    few, every = part.rank(vectors, 5), part.exact().rank(vectors, 5)
    assert part.exact().rescored == 256
    assert (every.labels[:, :, None] == few.labels[:, None]).any(2).mean() > 0.98
    np.testing.assert_allclose(part.score(vectors, few.labels), few.scores, rtol=1e-6)


def test_scores_of_any_labels_are_plain_numpy_s() -> None:
    part, vectors = buckets(), numbers(2, DIM)
    labels = np.array([[3, NO_LABEL, 0, 3], [199, 7, 70, NO_LABEL]])
    expected = np.take_along_axis(plainly(part, vectors), labels.clip(0), 1)
    np.testing.assert_allclose(part.score(vectors, labels), np.where(labels < 0, 0, expected), rtol=1e-5)
    with pytest.raises(ModelError, match="labels to be scored point outside of -1 to 199"):
        part.score(vectors, np.array([[200], [0]]))


def test_one_label_and_no_texts_are_answered() -> None:
    assert buckets(1).rank(numbers(2, DIM), 2).labels.tolist() == [[0, NO_LABEL]] * 2
    assert buckets().rank(numbers(0, DIM), 5).labels.shape == (0, 5)


@pytest.mark.parametrize("odd", [np.nan, np.inf, 0.0])
def test_a_vector_that_says_nothing_spoils_no_other(odd: float) -> None:
    part, vectors = buckets(), numbers(3, DIM)
    expected = part.rank(vectors, 5)
    vectors[1] = odd
    labels, scores = part.rank(vectors, 5)
    assert ((labels[1] >= NO_LABEL) & (labels[1] < LABELS)).all()
    assert np.array_equal(labels[[0, 2]], expected.labels[[0, 2]])
    assert np.array_equal(scores[[0, 2]], expected.scores[[0, 2]])


def test_mapped_arrays_answer_the_same_and_compile_nothing_anew(folder: Path) -> None:
    part, vectors = buckets(), numbers(5, DIM)
    labels = part.rank(vectors, 7).labels
    part.score(vectors, labels)
    kernels: tuple[Any, ...] = (add_up, score_labels)
    compilations = [len(kernel.signatures) for kernel in kernels]
    back = mapped(replace(part, rescored=65), folder).with_beam(3)
    assert np.array_equal(back.rank(vectors, 7).labels, labels)
    assert np.array_equal(back.score(vectors, labels), part.score(vectors, labels))
    assert [len(kernel.signatures) for kernel in kernels] == compilations  # which take seconds
