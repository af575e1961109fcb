"""Label clustering, against a plain twin that knows neither sparse rows nor threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from laconic.data.dataset import Dataset
from laconic.errors import ConfigError, ModelError
from laconic.kernels.csr import Lists, make_unit
from laconic.models.clustering import (
    Clustering,
    LabelTree,
    centroids,
    cluster_labels,
    cluster_together,
    cluster_vectors,
    levels,
    random_tree,
    rows,
    walks,
)
from laconic.models.clustering import bisection as halving
from laconic.models.clustering.bisection import GAIN, GRAIN, ROUNDS, pairs_of_each
from laconic.models.clustering.rows import largest, product
from laconic.models.clustering.walks import by_rows, label_graph, symmetric
from tests.variants import examples

PLAIN = Clustering()
SMOOTH = Clustering(walks=30, head=0.5)
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def random_data(seed: int, *, num_texts: int = 60, num_labels: int = 30, num_features: int = 40) -> Dataset:
    """Texts of a few features and labels at random; some labels have no text, and label 0 has nearly all."""
    generator = np.random.default_rng(seed)
    features = generator.random((num_texts, num_features)) * (generator.random((num_texts, num_features)) < 0.15)
    labels = generator.random((num_texts, num_labels)) < 1.5 / num_labels
    labels[:, 0] = generator.random(num_texts) < 0.9
    return Dataset(inputs=csr_array(features.astype(np.float32)), labels=csr_array(labels.astype(np.float32)))


def grouped_data(seed: int, *, depth: int, labels_a_group: int) -> tuple[Dataset, np.ndarray]:
    """Groups in a tree: a label's texts have words of its group and of all above. Label numbers say nothing of them."""
    generator = np.random.default_rng(seed)
    group_of = generator.permutation(np.repeat(np.arange(2**depth), labels_a_group))
    labels = np.repeat(np.arange(len(group_of)), 3)
    features = np.zeros((len(labels), 2 ** (depth + 1), 4), dtype=np.float32)
    for text, label in enumerate(labels):
        for level in range(1, depth + 1):
            node = 2**level + (group_of[label] >> (depth - level))
            features[text, node, generator.choice(4, 2, replace=False)] = 1
    truth = csr_array((np.ones(len(labels), np.float32), labels, np.arange(len(labels) + 1)))
    return Dataset(inputs=csr_array(features.reshape(len(labels), -1)), labels=truth), group_of


def same(one: LabelTree, other: LabelTree) -> bool:
    return torch.equal(one.order, other.order) and torch.equal(one.starts, other.starts)


def in_full(lists: Lists, num_columns: int) -> np.ndarray:
    matrix = csr_array((lists.values, lists.numbers, lists.starts), shape=(len(lists.starts) - 1, num_columns))
    return matrix.toarray().astype(np.float64)


def slow_halved(full: np.ndarray, labels: np.ndarray, bounds: np.ndarray, seed: int) -> np.ndarray:
    order = labels.copy()
    for level in range((len(bounds) - 1).bit_length() - 1):
        limits = bounds[:: (len(bounds) - 1) >> (level + 1)]
        pairs = pairs_of_each(np.diff(limits[::2]), np.random.default_rng([seed, level]))
        for node in range(len(pairs)):
            begin, middle, end = limits[2 * node : 2 * node + 3]
            if begin < middle < end:
                members = order[begin:end].copy()
                in_left = slow_cut(full[members], middle - begin, pairs[node])
                order[begin:middle], order[middle:end] = members[in_left], members[~in_left]
    return order


def slow_cut(full: np.ndarray, half: int, pairs: np.ndarray) -> np.ndarray:
    best, chosen = -1.0, np.zeros(len(full), bool)
    for left, right in full[pairs]:
        in_left, cosine = slow_two_means(full, half, left, right)
        if cosine > best + GAIN:
            best, chosen = cosine, in_left
    return chosen


def slow_two_means(full: np.ndarray, half: int, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float]:
    in_left, cosine = np.zeros(len(full), bool), -1.0
    for _ in range(ROUNDS):
        closeness = np.round((full @ left - full @ right) * GRAIN)
        in_left[:] = False
        in_left[np.argsort(-closeness, kind="stable")[:half]] = True
        left, right = full[in_left].mean(0), full[~in_left].mean(0)
        left, right = left / np.linalg.norm(left), right / np.linalg.norm(right)
        before, cosine = cosine, float(np.where(in_left, full @ left, full @ right).mean())
        if cosine < before + GAIN:
            break
    return in_left, cosine


@contextmanager
def interpreted() -> Iterator[None]:
    """Runs the kernels as plain Python, where numpy looks at every index."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (rows, walks, halving):
            for name, kernel in list(vars(module).items()):
                if hasattr(kernel, "py_func"):
                    patch.setattr(module, name, kernel.py_func)
        yield


@examples(60)
@given(seed=st.integers(0, 10**6), num_labels=st.integers(1, 45), depth=st.integers(0, 5))
def test_the_tree_is_that_of_the_plain_twin(seed: int, num_labels: int, depth: int) -> None:
    data, clusters = random_data(seed, num_labels=num_labels), min(2**depth, 2 ** (num_labels.bit_length() - 1))
    tree, lists = cluster_labels(data, clusters, PLAIN, seed), centroids(data, PLAIN, seed)
    described = make_unit(lists)
    order, starts = (tensor.numpy() for tensor in (tree.order, tree.starts))
    bounds = np.array([described[order[:start]].sum() for start in starts])
    expected = slow_halved(in_full(lists, 40), np.flatnonzero(described), bounds, seed)
    np.testing.assert_array_equal(order[described[order]], expected)


@pytest.mark.parametrize("config", [PLAIN, SMOOTH], ids=["plain", "smooth"])
def test_compiled_and_interpreted_kernels_agree(config: Clustering) -> None:
    data = random_data(4)
    with interpreted():
        expected = cluster_labels(data, 8, config, 7)
    assert same(cluster_labels(data, 8, config, 7), expected)


@examples(40)
@given(
    seed=st.integers(0, 10**6),
    num_texts=st.integers(0, 12),
    num_labels=st.integers(1, 40),
    depth=st.integers(0, 5),
    config=st.sampled_from([PLAIN, SMOOTH, Clustering(walks=5, neighbours=1, head=0.0, features=2)]),
)
def test_every_label_is_in_one_cluster_and_sizes_differ_by_at_most_one(
    seed: int, num_texts: int, num_labels: int, depth: int, config: Clustering
) -> None:
    clusters = min(2**depth, 2 ** (num_labels.bit_length() - 1))
    data = random_data(seed, num_texts=num_texts, num_labels=num_labels, num_features=7)
    tree = cluster_labels(data, clusters, config, seed)
    tree.check()
    assert tree.num_clusters == clusters
    assert tree.size == -(-num_labels // clusters)
    like_nothing = ~make_unit(centroids(data, config, seed))
    dealt = np.bincount(tree.cluster_of().numpy()[like_nothing], minlength=clusters)
    assert dealt.max() - dealt.min() <= 1


@pytest.mark.parametrize("seed", range(5))
def test_planted_clusters_are_found(seed: int) -> None:
    data, group_of = grouped_data(seed, depth=4, labels_a_group=6)
    tree = cluster_labels(data, 16, PLAIN, seed)
    groups = group_of[tree.order].reshape(16, 6)
    assert (groups == groups[:, :1]).all()
    # The tree above the clusters is the planted one: neighbours in it are neighbours there.
    assert (groups[::2, 0] // 2 == groups[1::2, 0] // 2).all()


def test_smoothing_brings_together_labels_that_share_texts_but_no_words() -> None:
    # Labels 2i and 2i + 1 stand together on a text without words; each has a text of its own with its own word.
    features = np.concatenate([np.eye(16), np.zeros((8, 16))]).astype(np.float32)
    labels = np.concatenate([np.eye(16), np.repeat(np.eye(8), 2, axis=1)]).astype(np.float32)
    data = Dataset(inputs=csr_array(features), labels=csr_array(labels))
    lists = centroids(data, Clustering(walks=200, head=1.0), 3)
    make_unit(lists)
    full = in_full(lists, 16)
    np.testing.assert_array_equal(full @ full.T > 0.5, np.repeat(labels[16:], 2, axis=0))


def test_smoothing_by_rows_is_a_mean_of_raw_sums_weighed_by_visits() -> None:
    """As DeepXML's code has it: rows of the graph add up to 1, and sums of texts are not brought to length 1."""
    data, config = random_data(2, num_texts=60, num_labels=12), Clustering(walks=50, restart=0.2, head=1.0)
    raw = in_full(centroids(data, PLAIN, 3), data.inputs.shape[1])
    texts_of = csr_array(data.labels.T)
    visits = label_graph(texts_of, steps=50, restart=0.2, neighbours=10, most=60.0, seed=3).toarray()
    np.testing.assert_allclose(by_rows(csr_array(visits)).sum(axis=1), 1, rtol=1e-6)
    found = in_full(centroids(data, replace(config, smoothing="rows"), 3), data.inputs.shape[1])
    np.testing.assert_allclose(found, visits / visits.sum(axis=1, keepdims=True) @ raw, rtol=1e-4, atol=1e-6)
    other = in_full(centroids(data, config, 3), data.inputs.shape[1])
    assert not np.allclose(found, other)


@pytest.mark.parametrize("config", [PLAIN, SMOOTH], ids=["plain", "smooth"])
def test_a_seed_decides_the_tree_and_threads_do_not(config: Clustering, monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_data(1, num_texts=400, num_labels=700)
    trees = []
    for cores in (1, 2, 7):
        monkeypatch.setattr("laconic.kernels.csr.usable_cores", lambda cores=cores: cores)
        trees.append(cluster_labels(data, 64, config, 5))
    assert all(same(tree, trees[0]) for tree in trees)
    assert not same(cluster_labels(data, 64, config, 6), trees[0])


def test_tokens_in_reading_order_count_as_their_bags() -> None:
    tokens = csr_array(([0.5, 0.2, 0.5, 1.0, 0.9], [4, 2, 4, 3, 1], [0, 3, 4, 5]), shape=(3, 5), dtype=np.float32)
    labels = csr_array(np.eye(3, dtype=np.float32))
    lists = centroids(Dataset(inputs=tokens, labels=labels, ordered=True), PLAIN, 0)
    bags = np.array([[0, 0, 0.2, 0, 1.0], [0, 0, 0, 1.0, 0], [0, 0.9, 0, 0, 0]])
    np.testing.assert_allclose(in_full(lists, 5), bags / np.linalg.norm(bags, axis=1, keepdims=True), rtol=1e-6)
    assert tokens.indices.tolist() == [4, 2, 4, 3, 1]


def test_dense_and_sparse_inputs_give_the_same_tree() -> None:
    generator = np.random.default_rng(0)
    dense = generator.normal(size=(80, 6)).astype(np.float32)
    labels = csr_array((generator.random((80, 24)) < 0.1).astype(np.float32))
    one = cluster_labels(Dataset(inputs=dense, labels=labels), 8, PLAIN, 2)
    one.check()
    assert same(one, cluster_labels(Dataset(inputs=csr_array(dense), labels=labels), 8, PLAIN, 2))


def test_a_centroid_is_the_weighted_sum_of_directions() -> None:
    features = np.array([[3, 4], [0, 2], [5, 0]], dtype=np.float32)
    labels = csr_array(np.array([[1, 0], [0.5, 0], [0, 1]], dtype=np.float32))
    weights = np.array([1, 2, 3], dtype=np.float32)
    lists = centroids(Dataset(inputs=csr_array(features), labels=labels, weights=weights), PLAIN, 0)
    np.testing.assert_allclose(in_full(lists, 2), [[0.6, 1.8], [3, 0]], rtol=1e-6)


@given(
    left=arrays(np.float32, (3, 5), elements=st.sampled_from([0, 0, 1, -2, 0.5])),
    seed=st.integers(0, 10**6),
    keep=st.integers(1, 7),
)
def test_a_product_keeps_the_largest_numbers_of_each_row(left: np.ndarray, seed: int, keep: int) -> None:
    generator = np.random.default_rng(seed)
    right = (generator.normal(size=(5, 6)) * (generator.random((5, 6)) < 0.6)).astype(np.float32)
    found = in_full(product(Lists.of(csr_array(left)), Lists.of(csr_array(right)), 6, keep), 6)
    expected = left.astype(np.float64) @ right
    for row in expected:
        row[np.argsort(-abs(row))[keep:]] = 0
    np.testing.assert_allclose(found, expected, atol=1e-6)


@given(values=arrays(np.float64, st.integers(1, 12), elements=st.sampled_from([-1.0, 0.0, 0.5, 2.0])), data=st.data())
def test_the_largest_are_those_that_a_stable_sort_puts_first(values: np.ndarray, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(values)))
    expected = np.sort(np.argsort(-values, kind="stable")[:count])
    assert np.flatnonzero(largest(values, count)).tolist() == expected.tolist()


def test_walks_find_labels_that_go_together_and_pass_by_head_labels() -> None:
    # Labels 0 and 1 share their only text, 2 is alone, 3 has every text, 4 has none.
    texts_of = csr_array(np.array([[1, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0]], dtype=np.float32))
    graph = symmetric(label_graph(texts_of, steps=4000, restart=0.8, neighbours=3, most=2.0, seed=0)).toarray()
    np.testing.assert_allclose(graph[:2, :2], 0.5, atol=0.03)
    np.testing.assert_allclose(graph[2:, 2:], np.eye(3))
    assert not graph[:2, 2:].any()
    assert not graph[2:, :2].any()


def test_a_walk_keeps_its_beginning_and_the_most_visited() -> None:
    # Label 0 stands once with each of the labels from 3 on, and on five texts each with labels 1 and 2.
    pairs = [(0, 1)] * 5 + [(0, 2)] * 5 + [(0, other) for other in range(3, 9)]
    texts_of = np.zeros((9, len(pairs)), dtype=np.float32)
    for text, labels in enumerate(pairs):
        texts_of[list(labels), text] = 1
    graph = label_graph(csr_array(texts_of), steps=2000, restart=0.9, neighbours=3, most=99.0, seed=1)
    assert sorted(graph[[0]].indices) == [0, 1, 2]
    assert all(graph[[label]].toarray()[0, label] > 0 for label in range(9))


@pytest.mark.parametrize(
    "options",
    [
        {"seed": -2},
        {"walks": -1},
        {"walks": 10**6},
        {"restart": 1.5},
        {"head": -0.1},
        {"neighbours": 0},
        {"features": 0},
        {"smoothing": "columns"},
    ],
)
def test_options_outside_their_range_are_refused(options: dict[str, int | float | str]) -> None:
    with pytest.raises(ConfigError, match=rf"clustering\.{next(iter(options))} must be .*, but is "):
        Clustering(**options)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("clusters", [-4, 0, 3, 6, 32])
def test_clusters_must_be_a_power_of_two_and_at_most_the_labels(clusters: int) -> None:
    with pytest.raises(ConfigError, match=r"clusters must be .*, but is"):
        cluster_labels(random_data(0), clusters, PLAIN, 0)
    with pytest.raises(ConfigError, match=r"clusters must be .*, but is"):
        random_tree(30, clusters, 0)


@given(num_labels=st.integers(1, 200), depth=st.integers(0, 7), seed=st.integers(0, 99))
def test_a_random_tree_is_balanced_and_its_views_agree(num_labels: int, depth: int, seed: int) -> None:
    tree = random_tree(num_labels, min(2**depth, 2 ** (num_labels.bit_length() - 1)), seed)
    tree.check()
    assert tree.order[tree.places()].tolist() == list(range(num_labels))
    bounds, clusters = tree.starts.tolist(), tree.cluster_of().tolist()
    for label, place in enumerate(tree.places().tolist()):
        assert bounds[clusters[label]] <= place < bounds[clusters[label] + 1]


@pytest.mark.parametrize(
    ("order", "starts", "problem"),
    [
        ([0, 1, 2, 2], [0, 2, 4], "every label once"),
        ([0, 1, 2, 4], [0, 2, 4], "every label once"),
        ([-1, 1, 2, 3], [0, 2, 4], "every label once"),
        ([0, 1, 2, 3], [0], "a cluster or more"),
        ([0, 1, 2, 3], [], "a cluster or more"),
        ([0, 1, 2, 3], [1, 2, 4], "rise from 0 to 4"),
        ([0, 1, 2, 3], [0, 2, 3], "rise from 0 to 4"),
        ([0, 1, 2, 3], [0, 3, 2, 3, 4], "rise from 0 to 4"),
        ([0, 1, 2, 3], [0, 2**63 - 1, 2, -(2**63), 4], "rise from 0 to 4"),
        ([], [0, 0], "rise from 0 to 0"),
    ],
)
def test_a_damaged_tree_is_refused(order: list[int], starts: list[int], problem: str) -> None:
    tree = LabelTree(order=torch.tensor(order, dtype=torch.int64), starts=torch.tensor(starts, dtype=torch.int64))
    with pytest.raises(ModelError, match=problem):
        tree.check()


def test_a_tree_of_other_numbers_is_refused() -> None:
    tree = random_tree(8, 4, 0)
    with pytest.raises(ModelError, match="order must be a list of int64"):
        LabelTree(order=tree.order.int(), starts=tree.starts).check()


@pytest.mark.parametrize(("labels", "dim", "clusters"), [(40, 3, 8), (500, 20, 32)])
def test_rows_of_every_feature_are_clustered_as_rows_of_some_are(
    labels: int, dim: int, clusters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(labels)
    vectors = generator.normal(size=(labels, dim)).astype(np.float32)
    vectors[::7] = 0  # labels that are like nothing
    found = cluster_vectors(torch.from_numpy(vectors), clusters, 1)
    monkeypatch.setattr(halving, "_without_numbers", lambda rows, num_features: rows)
    expected = cluster_vectors(torch.from_numpy(vectors), clusters, 1)
    assert torch.equal(found.order, expected.order)
    assert torch.equal(found.starts, expected.starts)


def topical(seed: int, *, labels: int, dim: int, topics: int) -> torch.Tensor:
    """Vectors around some topics; every hundredth label is like nothing, and some are alike."""
    chance = torch.Generator().manual_seed(seed)
    centres = torch.randn(topics, dim, generator=chance)
    vectors = centres[torch.randint(topics, (labels,), generator=chance)]
    vectors += 0.5 * torch.randn(labels, dim, generator=chance)
    vectors[::100], vectors[1::50] = 0, vectors[1].clone()
    return vectors


def mean_cosine(vectors: torch.Tensor, tree: LabelTree) -> float:
    """Return the mean cosine of the labels' vectors to the centre of their cluster."""
    units = torch.nn.functional.normalize(vectors.double(), dim=1)
    sums = torch.zeros(tree.num_clusters, vectors.shape[1], dtype=torch.float64)
    sums.index_add_(0, tree.cluster_of(), units)
    return float(sums.norm(dim=1).sum() / len(vectors))


@examples(60)
@given(
    seed=st.integers(0, 10**6),
    num_labels=st.integers(1, 300),
    depth=st.integers(0, 8),
    dim=st.integers(1, 5),
    numbers=st.sampled_from([1, 100, 10**6]),
)
def test_clusters_of_a_level_together_are_those_of_one_after_another(
    seed: int, num_labels: int, depth: int, dim: int, numbers: int
) -> None:
    clusters = min(2**depth, 2 ** (num_labels.bit_length() - 1))
    vectors = torch.from_numpy(np.random.default_rng(seed).integers(-2, 3, (num_labels, dim)).astype(np.float32))
    before = vectors.clone()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(levels, "_NUMBERS", numbers)  # so many are held at a time
        found = cluster_together(vectors, clusters, seed)
    assert torch.equal(vectors, before)
    assert same(found, cluster_vectors(vectors, clusters, seed))


def test_many_vectors_are_clustered_together_as_one_after_another() -> None:
    vectors = topical(3, labels=20_000, dim=16, topics=300)
    found, expected = cluster_together(vectors, 512, 5), cluster_vectors(vectors, 512, 5)
    found.check()
    assert torch.equal(found.starts, expected.starts)
    assert (found.cluster_of() == expected.cluster_of()).double().mean() > 0.99
    assert mean_cosine(vectors, found) == pytest.approx(mean_cosine(vectors, expected), rel=0.001)
    assert same(found, cluster_together(vectors, 512, 5))


@on_gpu
def test_many_vectors_are_clustered_on_a_gpu_as_on_the_cpu() -> None:
    vectors = topical(3, labels=20_000, dim=16, topics=300)
    found, expected = cluster_vectors(vectors.cuda(), 512, 5), cluster_vectors(vectors, 512, 5)
    found.check()
    assert found.order.device.type == found.starts.device.type == "cpu"
    assert torch.equal(found.starts, expected.starts)
    assert (found.cluster_of() == expected.cluster_of()).double().mean() > 0.99
    assert mean_cosine(vectors, found) == pytest.approx(mean_cosine(vectors, expected), rel=0.01)
    assert same(found, cluster_vectors(vectors.cuda(), 512, 5))
