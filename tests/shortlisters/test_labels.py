"""Nearest labels against a plain search, text by text."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from torch.nn import functional

from laconic.errors import ConfigError, ModelError
from laconic.models.shortlisters.centres import k_means
from laconic.models.shortlisters.labels import NearestLabels, Nearness
from laconic.models.shortlisters.selection import largest
from laconic.types import NO_LABEL

TEXTS, LABELS, DIM = 40, 15, 6


def planted(seed=0):
    generator = np.random.default_rng(seed)
    labels = csr_array((generator.random((TEXTS, LABELS)) < 0.15).astype(np.float32))
    return torch.from_numpy(generator.random((TEXTS, DIM), dtype=np.float32)), labels


def plainly(vectors, labels, nearness, query):
    """One text's shortlist as the paper says it."""
    units = functional.normalize(vectors, dim=1).numpy()
    query = functional.normalize(query, dim=0).numpy()
    dense = labels.toarray()
    centroids = dense.T @ units
    centroids /= np.maximum(np.linalg.norm(centroids, axis=1, keepdims=True), 1e-12)
    cosines = centroids @ query
    total = np.zeros(LABELS)
    for label in np.argsort(-cosines)[: nearness.centroids]:
        total[label] += (1 - nearness.neighbour_weight) * cosines[label]
    votes = np.zeros(LABELS)
    for text in np.argsort(-(units @ query))[: nearness.neighbours]:
        votes += dense[text] * (units[text] @ query) ** nearness.neighbour_power
    return total + nearness.neighbour_weight * votes / max(votes.max(), 1e-12)


@pytest.mark.parametrize("size", [1, 5, LABELS, LABELS + 4])
@pytest.mark.parametrize("power", [1.0, 3.0])
def test_the_shortlist_is_the_plain_one(size, power):
    vectors, labels = planted()
    nearness = Nearness(size=5, centroids=7, neighbours=9, neighbour_weight=0.2, neighbour_power=power)
    shortlister = NearestLabels.of(vectors, labels, nearness, seed=0)
    queries = torch.rand(8, DIM)
    found = shortlister(queries, queries, size)
    assert found.labels.shape == (8, size)
    for row, query in enumerate(queries):
        expected = plainly(vectors, labels, nearness, query)
        kept = found.labels[row] != NO_LABEL
        assert int(kept.sum()) == min(size, LABELS)
        np.testing.assert_allclose(found.scores[row][kept], np.sort(expected)[::-1][:size], atol=1e-6)
        np.testing.assert_allclose(found.scores[row][kept], expected[found.labels[row][kept]], atol=1e-6)


def test_of_several_centres_the_nearest_counts():
    vectors, labels = planted()
    vectors[:10] = torch.eye(DIM)[0] * 3 + 0.01 * torch.rand(10, DIM)
    vectors[10:20] = torch.eye(DIM)[1] * 3 + 0.01 * torch.rand(10, DIM)
    dense = labels.toarray()
    dense[:, 0] = 0
    dense[:20, 0] = 1  # a label of two quite different kinds of text
    nearness = Nearness(neighbours=0, centres=2, frequent=0.4)
    one = NearestLabels.of(vectors, csr_array(dense), nearness, seed=1)
    query = torch.eye(DIM)[:1]
    found = one(query, query, LABELS)
    assert float(found.scores[0, found.labels[0].tolist().index(0)]) > 0.99
    assert sorted(found.labels[0].tolist()) == list(range(LABELS))
    assert len(one.centres) == LABELS + 2
    plain = NearestLabels.of(vectors, csr_array(dense), replace(nearness, centres=0), seed=1)
    found = plain(query, query, LABELS)
    assert float(found.scores[0, found.labels[0].tolist().index(0)]) < 0.8


def test_a_text_that_points_away_has_no_vote():
    vectors, labels = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), csr_array(np.eye(2, dtype=np.float32))
    nearness = Nearness(centroids=1, neighbours=2, neighbour_weight=0.5)
    found = NearestLabels.of(vectors, labels, nearness, seed=0)(vectors[:1], vectors[:1], 2)
    assert found.labels.tolist() == [[0, 1]]
    torch.testing.assert_close(found.scores, torch.tensor([[1.0, 0.0]]))


def test_labels_without_a_text_can_be_found_and_are_last():
    vectors, labels = planted()
    dense = labels.toarray()
    dense[:, 3] = 0
    shortlister = NearestLabels.of(vectors, csr_array(dense), Nearness(), seed=0)
    queries = torch.rand(5, DIM)
    assert (shortlister(queries, queries, LABELS).labels[:, -1] == 3).all()


def test_a_short_list_is_filled_with_the_next_nearest():
    vectors, labels = planted()
    queries = torch.rand(5, DIM)
    few = NearestLabels.of(vectors, labels, Nearness(centroids=4, neighbours=0), seed=0)(queries, queries, 8)
    many = NearestLabels.of(vectors, labels, Nearness(centroids=8, neighbours=0), seed=0)(queries, queries, 8)
    assert torch.equal(few.labels, many.labels)
    assert (few.scores[:, 4:] == 0).all()


def test_a_text_that_says_nothing_has_a_full_shortlist():
    vectors, labels = planted()
    shortlister = NearestLabels.of(vectors, labels, Nearness(centroids=4), seed=0)
    found = shortlister(torch.zeros(2, DIM), torch.zeros(2, DIM), LABELS)
    assert found.labels.sort(dim=1).values.tolist() == [list(range(LABELS))] * 2
    assert shortlister(torch.zeros(0, DIM), torch.zeros(0, DIM), 3).labels.shape == (0, 3)


def test_k_means_finds_planted_centres():
    torch.manual_seed(0)
    points = functional.normalize(torch.eye(4).repeat_interleave(20, 0) + 0.05 * torch.rand(80, 4), dim=1)
    cosines = torch.eye(4) @ max((k_means(points, 4, seed) for seed in range(5)), key=lambda m: m.max(0).values.sum()).T
    assert (cosines.max(1).values > 0.98).all()


@given(st.integers(0, 10_000), st.integers(1, 40), st.sampled_from([50, 5000, 9000]))
def test_the_largest_of_rows_are_torchs(seed, k, size):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(3, size, generator=generator)
    scores[1] = (scores[1] * 5).round()  # ties
    scores[2, 20:] = 0  # nearly all alike
    found, expected = largest(scores, k), scores.topk(k)
    assert torch.equal(found.scores, expected.values)
    assert torch.equal(scores.gather(1, found.labels), found.scores)
    assert all(len(set(row)) == k for row in found.labels.tolist())


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 0},
        {"centroids": 0},
        {"neighbours": -1},
        {"neighbour_weight": 1.5},
        {"neighbour_power": -1.0},
        {"search": "guess"},
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Nearness(**wrong)


def tensors_of(shortlister):
    return {f"s.{name}": tensor for name, tensor in shortlister.state_dict().items()}


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("centre_labels", lambda tensor: tensor.flip(0)),
        ("centre_labels", lambda tensor: tensor[:-1]),
        ("text_starts", lambda tensor: tensor + 1),
        ("text_starts", lambda tensor: tensor.flip(0)),
        ("text_labels", lambda tensor: tensor + LABELS),
        ("text_labels", lambda tensor: tensor - LABELS),
        ("texts", lambda tensor: tensor[:-1]),
        ("texts", lambda tensor: tensor[0]),
        ("centres", lambda tensor: tensor.double()),
    ],
)
def test_a_damaged_file_is_refused(part, change):
    vectors, labels = planted()
    tensors = tensors_of(NearestLabels.of(vectors, labels, Nearness(), 0))
    NearestLabels.of_tensors(tensors, "s", Nearness(), LABELS)
    with pytest.raises(ModelError, match=r"s\b"):
        NearestLabels.of_tensors(tensors | {f"s.{part}": change(tensors[f"s.{part}"])}, "s", Nearness(), LABELS)
