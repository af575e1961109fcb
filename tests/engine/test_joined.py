"""Rankers made of rankers against torch's, over the same members and bases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from laconic.models import rankers
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Identity
from laconic.packed.engine.composite import Averaged, Reranked, each_once, in_order, largest_of
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.rows import Rows
from laconic.types import NO_LABEL, Inputs, Ranking
from tests.engine.making import DIM, in_two_bytes, mapped, numbers
from tests.engine.making import given as given_vectors
from tests.engine.test_candidates import candidates
from tests.engine.test_cells import LABELS
from tests.engine.test_search import searched

TABLES = arrays(np.int64, st.tuples(st.integers(0, 5), st.integers(1, 9)), elements=st.integers(NO_LABEL, 6))


class Answering(rankers.Ranker):
    """Torch's contract, kept by a packed ranker."""

    def __init__(self, part: PackedRanker) -> None:
        super().__init__()
        self.part, self.num_labels = part, part.num_labels
        self.register_buffer("somewhere", torch.zeros(1))

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        assert isinstance(inputs, Tensor)
        return Ranking(*map(torch.from_numpy, self.part.rank(inputs.numpy(), k)))

    def score(self, inputs: Inputs, labels: Tensor) -> Tensor:
        assert isinstance(inputs, Tensor)
        return torch.from_numpy(self.part.score(inputs.numpy(), labels.numpy()))


def members(*seeds: int) -> tuple[PackedRanker, ...]:
    """Rankers of the same 50 labels, of several kinds."""
    return tuple(searched([9, 14, 3, 8, 16], always=0, beam=2 + seed) if seed % 2 else candidates() for seed in seeds)


@torch.no_grad()
def check_same(part: PackedRanker, ranker: rankers.Ranker) -> None:
    vectors = numbers(7, DIM, seed=9)
    inputs = torch.from_numpy(vectors)
    for k in (0, 1, 5, LABELS, LABELS + 4):
        found, expected = part.rank(vectors, k), ranker.rank(inputs, k)
        assert np.array_equal(found.labels, expected.labels.numpy())
        np.testing.assert_allclose(found.scores, expected.scores.numpy(), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(part.score(vectors, found.labels), found.scores, rtol=1e-5, atol=1e-7)
    labels = np.tile([3, NO_LABEL, 49, 3, *range(9)], (7, 1))
    expected_scores = ranker.score(inputs, torch.from_numpy(labels)).numpy()
    np.testing.assert_allclose(part.score(vectors, labels), expected_scores, rtol=1e-4, atol=1e-6)
    assert part.rank(vectors[:0], 5).labels.shape == (0, 5)
    assert part.score(vectors[:0], labels[:0]).shape == (0, labels.shape[1])


@pytest.mark.parametrize("width", [1, 4, 100])
@pytest.mark.parametrize("seeds", [(1,), (0, 1), (1, 3, 5)])
def test_the_mean_of_several_is_torch_s(seeds: tuple[int, ...], width: int) -> None:
    of = members(*seeds)
    check_same(Averaged(members=of, width=width), rankers.Ensemble([Answering(one) for one in of], width=width))


def reranked(base: PackedRanker, *, size: int, alpha: float) -> tuple[Reranked, rankers.Reranker]:
    classifier = LinearClassifier(DIM, LABELS)
    own, biases = in_two_bytes(numbers(LABELS, DIM, seed=3)), numbers(LABELS, seed=4)
    with torch.no_grad():
        classifier.weight.copy_(torch.from_numpy(own))
        classifier.bias.copy_(torch.from_numpy(biases))  # type: ignore[union-attr] # it has one
    part = Reranked(base=base, **given_vectors(), rows=Rows.of(own, biases), size=size, alpha=alpha)
    return part, rankers.Reranker(Answering(base), Identity(DIM), classifier, size=size, alpha=alpha)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("size", [1, 8, LABELS, 99])
def test_what_is_scored_again_is_torch_s(size: int, alpha: float) -> None:
    check_same(*reranked(members(1)[0].exact(), size=size, alpha=alpha))


def test_dials_reach_members_and_bases() -> None:
    for part in (Averaged(members=members(0, 1), width=4), reranked(members(1)[0], size=8, alpha=0.4)[0]):
        inner: Any = part.members[1] if isinstance(part, Averaged) else part.base
        opened: Any = part.with_beam(4)
        opened_inner: Any = opened.members[1] if isinstance(part, Averaged) else opened.base
        assert (inner.beam, opened_inner.beam) == (3, 4)
        exact: Any = part.exact()
        assert (exact.members[1] if isinstance(part, Averaged) else exact.base).beam == 5


@given(TABLES, st.data())
def test_labels_in_order_are_torch_s(labels: np.ndarray, data: st.DataObject) -> None:
    scores = data.draw(arrays(np.float32, labels.shape, elements=st.sampled_from([-1.0, 0.0, 0.25, 0.5, 2.0])))
    k = data.draw(st.integers(0, 12))
    found, expected = in_order(labels, scores, k), rankers.in_order(*map(torch.from_numpy, (labels, scores)), k)
    assert np.array_equal(found.labels, expected.labels.numpy())
    assert np.array_equal(found.scores, expected.scores.numpy())
    assert found.scores.dtype == np.float32


@given(TABLES)
def test_every_label_of_a_row_once_is_plain_python_s(labels: np.ndarray) -> None:
    found = each_once(labels).tolist()
    expected = [sorted(set(row) - {NO_LABEL}) for row in labels.tolist()]
    width = max(map(len, expected), default=0)
    assert found == [[*row, *[NO_LABEL] * (width - len(row))] for row in expected]


def test_what_rows_are_divided_by_is_never_nothing() -> None:
    found = largest_of(np.array([[0.5, 2.0], [0.0, 0.0], [-1.0, -2.0]], dtype=np.float32))
    assert found.tolist() == [[2.0], [np.float32(1e-12)], [np.float32(1e-12)]]


def test_mapped_arrays_answer_the_same(folder: Path) -> None:
    part, _ = reranked(Averaged(members=members(0, 1), width=4), size=8, alpha=0.4)
    back, vectors = mapped(part, folder), numbers(5, DIM)
    assert np.array_equal(back.rank(vectors, 7).labels, part.rank(vectors, 7).labels)
    assert np.array_equal(back.rank(vectors, 7).scores, part.rank(vectors, 7).scores)
