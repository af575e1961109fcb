"""Astec's compiled walk against the plain way to the same answers."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.errors import ModelError
from laconic.packed.engine.blend import Blended
from laconic.packed.engine.candidate_kernels import rank_candidates, score_candidates
from laconic.packed.engine.candidates import Candidates
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.rows import Rows
from laconic.types import NO_LABEL
from tests.engine.making import DIM, layer, mapped, numbers, rows
from tests.engine.making import given as given_vectors
from tests.engine.test_cells import LABELS, NO_TEXTS, near
from tests.variants import examples


def candidates(**changes: Any) -> Candidates:
    of_labels = NibbleRows.from_bytes(rows(LABELS))
    return Candidates(**{**given_vectors(), "rows": of_labels, "near": near(), "beta": 0.6, "size": 20, **changes})


def whole(part: NibbleRows) -> Rows:
    return Rows(coarse=part.coarse, scales=part.scales, biases=part.biases, fine=part.fine)


def plainly(part: Candidates) -> Blended:
    return Blended(
        encoder=part.encoder,
        transform=part.transform,
        rows=whole(part.rows),
        shortlist=part.near,
        beta=part.beta,
        size=part.size,
    )


@examples(40)
@given(st.data())
def test_the_compiled_walk_is_the_plain_way(data: st.DataObject) -> None:
    ways: list[dict[str, Any]] = [{}, NO_TEXTS, {"counted": 7}, {"several": 30}]
    size, opened = data.draw(st.sampled_from([1, 12, 30, LABELS, 99])), data.draw(st.sampled_from([2, 8]))
    part = candidates(
        beta=data.draw(st.sampled_from([0.0, 0.3, 1.0])),
        size=size,
        near=near(**data.draw(st.sampled_from(ways))).with_beam(opened).enough_for(size),
        transform=data.draw(st.sampled_from([given_vectors()["transform"], layer()])),
    )
    vectors, k = numbers(4, DIM, seed=data.draw(st.integers(0, 9))), data.draw(st.integers(1, 25))
    plain = plainly(part)
    labels, scores = part.rank(vectors, k)
    np.testing.assert_allclose(scores, plain.rank(vectors, k).scores, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scores, plain.score(vectors, labels), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scores, part.score(vectors, labels), rtol=1e-5)
    every = np.tile(np.append(np.arange(LABELS), NO_LABEL), (4, 1))
    np.testing.assert_allclose(part.score(vectors, every), plain.score(vectors, every), atol=5e-3)


def test_labels_come_best_first_and_none_of_them_twice() -> None:
    part, vectors = candidates(), numbers(6, DIM)
    for k in (1, 20, 33, LABELS, LABELS + 4):
        labels, scores = part.rank(vectors, k)
        there = min(k, LABELS)
        assert (np.diff(scores[:, :there]) <= 0).all()
        assert all(len(set(row[:there])) == there for row in labels.tolist())
        assert (labels[:, there:] == NO_LABEL).all()
        assert (scores[:, there:] == 0).all()


def test_of_many_candidates_the_best_are_scored_again() -> None:
    part, vectors = candidates(size=LABELS, rescored=3), numbers(20, DIM)
    few, all_of_them = part.rank(vectors, 1), replace(part, rescored=LABELS).rank(vectors, 1)
    assert (few.labels == all_of_them.labels).mean() > 0.9
    assert part.exact().rescored == LABELS


@pytest.mark.parametrize("odd", [np.nan, np.inf, 3e38])
def test_a_vector_that_is_not_finite_spoils_no_other(odd: float) -> None:
    part, vectors = candidates(transform=layer()), numbers(3, DIM)
    expected = part.rank(vectors, 5)
    vectors[1, 3] = odd
    labels, scores = part.rank(vectors, 5)
    assert ((labels[1] >= NO_LABEL) & (labels[1] < LABELS)).all()
    assert np.array_equal(labels[[0, 2]], expected.labels[[0, 2]])
    assert np.array_equal(scores[[0, 2]], expected.scores[[0, 2]])


def test_a_vector_of_zeros_is_answered() -> None:
    labels, scores = candidates().rank(np.zeros((1, DIM), np.float32), 5)
    assert len(set(labels[0].tolist()) - {NO_LABEL}) == 5
    assert np.isfinite(scores).all()


def test_labels_that_are_not_there_are_refused() -> None:
    for part in (candidates(), plainly(candidates())):
        with pytest.raises(ModelError, match="labels to be scored point outside of -1 to 49"):
            part.score(numbers(1, DIM), np.array([[3, LABELS]]))


def test_no_texts_have_no_answers() -> None:
    for part in (candidates(), plainly(candidates())):
        assert part.rank(numbers(0, DIM), 5).labels.shape == (0, 5)
        assert part.rank(numbers(2, DIM), 0).labels.shape == (2, 0)
        assert part.score(numbers(0, DIM), np.zeros((0, 2), np.int64)).shape == (0, 2)


def test_mapped_arrays_answer_the_same_and_compile_nothing_anew(folder: Path) -> None:
    part, vectors = candidates(), numbers(5, DIM)
    labels, scores = part.rank(vectors, 7)
    part.score(vectors, labels)
    kernels: tuple[Any, ...] = (rank_candidates, score_candidates)
    compilations = [len(kernel.signatures) for kernel in kernels]
    back = mapped(part, folder)
    assert np.array_equal(back.rank(vectors, 7).labels, labels)
    assert np.array_equal(back.rank(vectors, 7).scores, scores)
    assert np.array_equal(back.score(vectors, labels), part.score(vectors, labels))
    assert [len(kernel.signatures) for kernel in kernels] == compilations  # which take seconds


def test_an_old_ranker_had_rows_of_whole_bytes_and_answers_the_same() -> None:
    part, vectors = candidates(), numbers(6, DIM)
    old = {field.name: getattr(part, field.name) for field in fields(part)} | {"rows": whole(part.rows)}
    again = Candidates(**Candidates.upgraded(old))
    for one, other in zip(again.rank(vectors, 7), part.rank(vectors, 7), strict=True):
        assert np.array_equal(one, other)
