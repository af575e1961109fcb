"""Nearest labels against a plain search, text by text."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from torch.nn import functional

from laconic.errors import ConfigError, ModelError
from laconic.shortlisters.labels import NearestLabels, Nearness, k_means
from laconic.shortlisters.selection import largest
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
        votes += dense[text] * (units[text] @ query)
    return total + nearness.neighbour_weight * votes / max(votes.max(), 1e-12)


@pytest.mark.parametrize("size", [1, 5, LABELS, LABELS + 4])
def test_the_shortlist_is_the_plain_one(size):
    vectors, labels = planted()
    nearness = Nearness(size=5, centroids=7, neighbours=9, neighbour_weight=0.2)
    shortlister = NearestLabels.of(vectors, labels, nearness, seed=0)
    queries = torch.rand(8, DIM)
    found = shortlister(queries, size)
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
    place = one(query, LABELS).labels[0].tolist().index(0)
    assert float(one(query, LABELS).scores[0, place]) > 0.99
    assert len(one.centres) == LABELS + 2
    plain = NearestLabels.of(vectors, csr_array(dense), Nearness(neighbours=0), seed=1)
    place = plain(query, LABELS).labels[0].tolist().index(0)
    assert float(plain(query, LABELS).scores[0, place]) < 0.8


def test_labels_without_a_text_can_be_found_and_are_last():
    vectors, labels = planted()
    dense = labels.toarray()
    dense[:, 3] = 0
    shortlister = NearestLabels.of(vectors, csr_array(dense), Nearness(), seed=0)
    assert (shortlister(torch.rand(5, DIM), LABELS).labels[:, -1] == 3).all()


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


@pytest.mark.parametrize("wrong", [{"size": 0}, {"centroids": 0}, {"neighbours": -1}, {"neighbour_weight": 1.5}])
def test_a_wrong_setting_is_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Nearness(**wrong)


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
    tensors = {f"s.{n}": t for n, t in NearestLabels.of(vectors, labels, Nearness(), 0).state_dict().items()}
    NearestLabels.of_tensors(tensors, "s", Nearness(), LABELS)
    with pytest.raises(ModelError, match=r"s\b"):
        NearestLabels.of_tensors(tensors | {f"s.{part}": change(tensors[f"s.{part}"])}, "s", Nearness(), LABELS)
