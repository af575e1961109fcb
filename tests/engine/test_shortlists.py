"""Shortlists of clusters and of words against plain numpy, and what is blended with them against torch's ranker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Identity
from laconic.models.rankers import CandidatesRanker
from laconic.models.shortlisters.base import Shortlister
from laconic.packed.engine.blend import Blended
from laconic.packed.engine.pairs import bags_of
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.shortlists import ClusterLabels, WordLabels
from laconic.packed.engine.transforms import Unchanged
from laconic.types import NO_LABEL, Inputs, Ranking
from tests.engine.making import DIM, exactly, in_two_bytes, layer, mapped, numbers, pairs, rows, texts
from tests.engine.making import given as given_vectors
from tests.variants import examples

SIZES = [9, 0, 14, 3, 8, 1, 15]
LABELS, WORDS = 50, 30


def clusters(sizes: Sequence[int] = SIZES, **changes: Any) -> ClusterLabels:
    labels = sum(sizes)
    return ClusterLabels(
        **{
            "num_labels": labels,
            "transform": layer(),
            "clusters": rows(len(sizes)),
            "order": np.random.default_rng(0).permutation(labels).astype(np.int32),
            "starts": np.cumsum([0, *sizes]).astype(np.int32),
            **changes,
        }
    )


@examples(40)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=40).filter(any), st.integers(1, 50))
def test_clusters_follow_one_another_best_first_until_a_list_is_full(sizes: list[int], size: int) -> None:
    part, vectors = clusters(sizes), numbers(3, DIM)
    scores = exactly(part.clusters, part.transform.apply(vectors))
    found = part.listed(vectors, vectors, size)
    for text in range(len(vectors)):
        expected = [
            (part.order[place], scores[text, cluster])
            for cluster in np.argsort(-scores[text])
            for place in range(*part.starts[cluster : cluster + 2])
        ][:size]
        there = len(expected)
        assert found.labels[text].tolist() == [*(label for label, _ in expected), *[NO_LABEL] * (size - there)]
        np.testing.assert_allclose(found.scores[text, :there], [score for _, score in expected], rtol=1e-4, atol=1e-5)
        assert (found.scores[text, there:] == 0).all()


def test_of_many_clusters_coarse_scores_do_not_lose_the_best() -> None:
    part, vectors = clusters([2] * 300), numbers(20, DIM)
    scores = exactly(part.clusters, part.transform.apply(vectors))
    found = part.listed(vectors, vectors, 10)
    np.testing.assert_allclose(found.scores[:, ::2], np.sort(scores, axis=1)[:, :-6:-1], rtol=1e-4, atol=1e-5)


BAGS = [[3, 4, 3], [], [29], [1, 2, 7, 8, 9, 20], [5]]


def label_texts() -> np.ndarray:
    """A few words of each label; the last ten labels have none."""
    table = np.maximum(numbers(WORDS, LABELS, seed=6) - 0.8, 0)
    table[:, -10:] = 0
    return table


def worded(count: int = 5) -> WordLabels:
    return WordLabels(num_labels=LABELS, others=clusters(), count=count, label_texts=pairs(label_texts()))


@pytest.mark.parametrize("size", [1, 2, 12, LABELS, LABELS + 9])
@pytest.mark.parametrize("count", [0, 5, 30])
def test_some_places_go_to_the_labels_whose_words_are_nearest(count: int, size: int) -> None:
    part, inputs, vectors = worded(count), texts(BAGS), numbers(len(BAGS), DIM)
    labels, scores = part.listed(inputs, vectors, size)
    others, own = part.others.listed(inputs, vectors, size - min(count, size - 1)), label_texts()
    assert np.array_equal(labels[:, : others.labels.shape[1]], others.labels)
    assert np.array_equal(scores[:, : others.labels.shape[1]], others.scores)
    further, cosines = labels[:, others.labels.shape[1] :], scores[:, others.labels.shape[1] :]
    for text, bag in enumerate(BAGS):
        expected = sum((own[word] * word / 10 for word in bag), np.zeros(LABELS))
        expected[others.labels[text][others.labels[text] != NO_LABEL]] = 0
        best = [label for label in np.argsort(-expected, kind="stable") if expected[label] > 0][: further.shape[1]]
        assert further[text].tolist() == [*best, *[NO_LABEL] * (further.shape[1] - len(best))]
        np.testing.assert_allclose(cosines[text, : len(best)], 1e-3 * expected[best], rtol=1e-5)
        assert (cosines[text, len(best) :] == 0).all()


def test_words_are_forgotten_after_every_text() -> None:
    part, vectors = worded(), numbers(len(BAGS), DIM)
    together = part.listed(texts(BAGS), vectors, 12)
    for text in (4, 0, 3, 1, 2):
        alone = part.listed(texts(BAGS[text : text + 1]), vectors[text : text + 1], 12)
        assert np.array_equal(alone.labels[0], together.labels[text])


def test_dense_features_have_no_words() -> None:
    vectors = numbers(3, DIM)
    assert len(bags_of(vectors).numbers) == 0
    assert (worded().listed(vectors, vectors, 12).labels[:, -5:] == NO_LABEL).all()


class Listed(Shortlister):
    """Answers as a packed shortlist does."""

    def __init__(self, part: ClusterLabels, size: int) -> None:
        super().__init__()
        self.part, self.num_labels, self.size = part, part.num_labels, size

    def forward(self, inputs: Inputs, vectors: torch.Tensor, size: int) -> Ranking:
        found = self.part.listed(vectors.numpy(), vectors.numpy(), size)
        return Ranking(torch.from_numpy(found.labels), torch.from_numpy(found.scores))


def both(beta: float, size: int) -> tuple[Blended, CandidatesRanker]:
    """The packed ranker and torch's, with the same rows of half precision."""
    classifier = LinearClassifier(DIM, LABELS)
    own, biases = in_two_bytes(numbers(LABELS, DIM, seed=3)), numbers(LABELS, seed=4)
    with torch.no_grad():
        classifier.weight.copy_(torch.from_numpy(own))
        classifier.bias.copy_(torch.from_numpy(biases))  # type: ignore[union-attr] # it has one
    ranker = CandidatesRanker(Identity(DIM), Listed(clusters(), size), classifier, beta=beta)
    part = Blended(**given_vectors(), rows=Rows.of(own, biases), shortlist=clusters(), beta=beta, size=size)
    return part, ranker.eval()


@torch.no_grad()
@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("size", [1, 12, LABELS, LABELS + 9])
def test_what_is_blended_is_torch_s(beta: float, size: int) -> None:
    part, ranker = both(beta, size)
    vectors = numbers(6, DIM, seed=9)
    for k in (0, 1, 5, 30, LABELS, LABELS + 3):
        found, expected = part.rank(vectors, k), ranker.rank(torch.from_numpy(vectors), k)
        np.testing.assert_allclose(found.scores, expected.scores.numpy(), rtol=1e-4, atol=1e-6)
        again = ranker.score(torch.from_numpy(vectors), torch.from_numpy(found.labels))
        np.testing.assert_allclose(found.scores, again.numpy(), rtol=1e-4, atol=1e-6)
    every = np.tile([*range(LABELS), NO_LABEL, 3], (6, 1))
    expected_scores = ranker.score(torch.from_numpy(vectors), torch.from_numpy(every))
    np.testing.assert_allclose(part.score(vectors, every), expected_scores.numpy(), rtol=1e-4, atol=1e-6)


def test_mapped_arrays_answer_the_same(folder: Path) -> None:
    inputs = texts(BAGS)
    part, vectors = worded(), numbers(len(BAGS), DIM)
    expected = part.listed(inputs, vectors, 12)
    for back in (mapped(part, folder), mapped(part, folder).exact().with_beam(3)):
        assert np.array_equal(back.listed(inputs, vectors, 12).labels, expected.labels)
        assert np.array_equal(back.listed(inputs, vectors, 12).scores, expected.scores)
    assert replace(part, others=clusters(transform=Unchanged(inputs=DIM))).dim == DIM
