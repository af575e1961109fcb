"""The search of a tree of clusters: with all of them opened it is brute force, and with some it is plain numpy's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.errors import ModelError
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.search import Searched
from laconic.packed.engine.search_kernels import score_labels, search
from laconic.types import NO_LABEL
from tests.engine.making import DIM, by_upper_bits, exactly, layer, mapped, numbers, rows
from tests.engine.making import given as given_vectors
from tests.variants import examples

SIZES = [7, 1, 0, 12, 5, 9, 3, 0, 8]


def searched(sizes: Sequence[int] = SIZES, *, always: int = 4, groups: Sequence[int] = (), **changes: Any) -> Searched:
    """Labels in an order of their own; a cluster's row is the mean of its labels' rows."""
    starts = always + np.cumsum([0, *sizes])
    labels, own = int(starts[-1]), NibbleRows.from_bytes(rows(int(starts[-1])))
    parts = [own.coarse[first:last] * own.scales[first:last, None] for first, last in pairwise(starts)]
    means = np.stack([part.mean(0) if len(part) else np.zeros(DIM) for part in parts]).astype(np.float32)
    return Searched(
        **{
            **given_vectors(),
            "rows": own,
            "order": np.random.default_rng(1).permutation(labels).astype(np.int32),
            "starts": starts.astype(np.int32),
            "clusters": NibbleRows.of(means, numbers(len(sizes), seed=2) / 9, with_exact=False),
            "cluster_transform": None,
            "group_starts": np.cumsum([0, *(groups or [len(sizes)])]).astype(np.int32),
            "groups": NibbleRows.from_bytes(rows(len(groups), seed=5, with_exact=False)) if groups else None,
            "open_groups": 1,
            "beam": 3,
            **changes,
        }
    )


def logs(scores: np.ndarray) -> np.ndarray:
    return -np.logaddexp(0, -scores)


def best_of(scores: np.ndarray, count: int) -> set[int]:
    return set(np.argsort(-scores, kind="stable")[:count].tolist())


def enough(sizes: np.ndarray, wanted: int) -> int:
    """How many of them have so much together, whichever they are; one at least, and all where that is too little."""
    counts = range(1, len(sizes) + 1)
    return next((count for count in counts if np.sort(sizes)[:count].sum() >= wanted), len(sizes))


def plainly(part: Searched, vectors: np.ndarray, k: int = 1) -> np.ndarray:
    """The logarithms of all labels' scores; -inf for labels that are passed over where k are wanted."""
    for_clusters = (part.cluster_transform or part.transform).apply(vectors)
    by_cluster, by_row = by_upper_bits(part.clusters, for_clusters), exactly(part.rows, part.transform.apply(vectors))
    shares = logs(exactly(part.clusters, for_clusters))
    found = np.full((len(vectors), part.num_labels), -np.inf)
    bounds = [(0, part.starts[0]), *pairwise(part.starts)]
    for text in range(len(vectors)):
        for number, cluster in enumerate([-1, *sorted(opened(part, for_clusters[text], by_cluster[text], k))]):
            first, last = bounds[cluster + 1]
            share = shares[text, cluster] if part.product and number else 0
            found[text, part.order[first:last]] = logs(by_row[text, first:last]) + share
    return found


def opened(part: Searched, vector: np.ndarray, by_cluster: np.ndarray, k: int) -> set[int]:
    beam = min(max(part.beam, enough(np.diff(part.starts), k - int(part.starts[0]))), part.clusters.size)
    inside = set(range(part.clusters.size))
    if part.groups is not None:
        open_groups = max(part.open_groups, enough(np.diff(part.group_starts), beam))
        groups = best_of(by_upper_bits(part.groups, vector[None])[0], open_groups)
        inside = {one for group in groups for one in range(*part.group_starts[group : group + 2])}
    scores = np.where([one in inside for one in range(part.clusters.size)], by_cluster, -np.inf)
    if not (part.trained or part.probed):
        return best_of(scores, beam)
    is_exact = part.rescored >= part.num_labels
    spare = part.clusters.size if is_exact else max(16, beam // 8)  # few are surely among them
    again = best_of(scores, beam + spare) & inside
    sure = best_of(scores, max(0, beam - spare)) & inside
    exact = exactly(part.clusters, vector[None])[0]
    exact[list(sure)] = np.inf
    return best_of(np.where([one in again for one in range(part.clusters.size)], exact, -np.inf), beam)


def check(part: Searched, vectors: np.ndarray, k: int) -> None:
    """That the best k are the best of plain numpy, and that their scores are right and are those of `score`."""
    labels, scores = part.rank(vectors, k)
    expected = plainly(part, vectors, k)
    for text in range(len(vectors)):
        there = int(np.isfinite(expected[text]).sum())
        wanted = np.argsort(-expected[text], kind="stable")[: min(k, there)]
        assert labels[text].tolist() == [*wanted.tolist(), *[NO_LABEL] * (k - len(wanted))]
        np.testing.assert_allclose(scores[text, : len(wanted)], np.exp(expected[text, wanted]), rtol=1e-4, atol=1e-6)
        assert (scores[text, len(wanted) :] == 0).all()
    np.testing.assert_allclose(part.score(vectors, labels), scores, rtol=1e-6)


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("always", [0, 4])
def test_with_everything_opened_the_search_is_brute_force(product: bool, always: int) -> None:
    part, vectors = searched(product=product, always=always).exact(), numbers(20, DIM, seed=9)
    for k in (1, 5, part.num_labels, part.num_labels + 3):
        check(part, vectors, k)
    assert np.isfinite(plainly(part, vectors)).all()


@examples(60)
@given(st.data())
def test_the_labels_of_the_best_clusters_are_found(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(sizes) - 1), max_size=3))) if len(sizes) > 1 else []
    part = searched(
        sizes,
        always=data.draw(st.integers(0, 5)),
        groups=np.diff([0, *cuts, len(sizes)]).tolist() if data.draw(st.booleans()) else (),
        product=data.draw(st.booleans()),
        probed=data.draw(st.sampled_from([0, 5])),
        cluster_transform=layer() if data.draw(st.booleans()) else None,
        transform=layer(seed=4) if data.draw(st.booleans()) else given_vectors()["transform"],
    ).with_beam(data.draw(st.integers(1, 13)))
    check(part, numbers(3, DIM, seed=data.draw(st.integers(0, 9))), data.draw(st.integers(1, 20)))


@pytest.mark.parametrize("beam", [20, 64, 150])
@pytest.mark.parametrize("product", [False, True])
def test_of_a_model_s_own_clusters_those_near_the_last_are_scored_again(beam: int, product: bool) -> None:
    sizes = np.random.default_rng(3).integers(0, 4, 200).tolist()
    part = searched(sizes, always=0, probed=beam, product=product, rescored=sum(sizes) - 1, beam=beam)
    vectors = numbers(8, DIM, seed=9)
    check(part, vectors, 20)
    exact = exactly(part.clusters, vectors)
    by_four_bits = by_upper_bits(part.clusters, vectors)
    wanted, without = ([best_of(scores, beam) for scores in every] for every in (exact, by_four_bits))
    found = [opened(part, vector, own, 20) for vector, own in zip(vectors, by_four_bits, strict=True)]
    overlap = [len(one & other) for one, other in zip(found, wanted, strict=True)]
    assert sum(overlap) > sum(len(one & other) for one, other in zip(without, wanted, strict=True))
    assert sum(overlap) >= 0.97 * beam * len(vectors)


@pytest.mark.parametrize("product", [False, True])
def test_an_exact_search_chooses_a_model_s_own_clusters_by_all_bits(product: bool) -> None:
    middles = numbers(300, DIM, seed=2)
    middles[:, 3] += 30  # so that four bits say little of the others
    clusters = NibbleRows.of(middles, np.zeros(300, np.float32), with_exact=False)
    part = searched([1] * 300, always=0, probed=9, beam=9, clusters=clusters, product=product)
    vectors = numbers(8, DIM, seed=9)
    check(part.exact(), vectors, 5)
    wanted, found = part.exact().rank(vectors, 5).labels, part.rank(vectors, 5).labels
    assert any(set(one) != set(other) for one, other in zip(wanted.tolist(), found.tolist(), strict=True))


def test_groups_that_are_not_opened_are_passed_over() -> None:
    part, vectors = searched(groups=[3, 2, 4], beam=2, always=0), numbers(30, DIM, seed=9)
    check(part, vectors, 1)
    without = replace(part, groups=None, group_starts=np.array([0, 9], np.int32))
    check(without, vectors, 1)
    assert (part.rank(vectors, 1).labels != without.rank(vectors, 1).labels).any()


def test_more_clusters_and_groups_are_opened_where_k_labels_want_more() -> None:
    part = searched(groups=[3, 2, 4], beam=1, always=2)
    for k in (5, 20, part.num_labels):
        labels, _ = part.rank(numbers(10, DIM, seed=9), k)
        assert (labels != NO_LABEL).all()
        assert all(len(set(row)) == k for row in labels.tolist())


def test_one_label_is_found() -> None:
    for part in (searched([1], always=0), searched([1], always=0, product=True), searched([0], always=1)):
        labels, scores = part.rank(numbers(3, DIM), 2)
        assert labels.tolist() == [[0, NO_LABEL]] * 3
        assert ((scores[:, 0] > 0) & (scores[:, 1] == 0)).all()


@pytest.mark.parametrize("product", [False, True])
def test_of_many_labels_the_best_are_scored_again(product: bool) -> None:
    likely = NibbleRows.of(
        numbers(16, DIM) / 9, np.full(16, 5, np.float32), with_exact=False
    )  # so that any label may win
    part = searched([50] * 16, always=200, clusters=likely, product=product).exact()
    few, vectors = replace(part, rescored=32), numbers(40, DIM, seed=9)
    check(replace(part, rescored=1000), vectors, 5)
    wanted = np.argsort(-plainly(part, vectors), axis=1)[:, :5]
    found = few.rank(vectors, 5).labels
    assert (wanted[:, :, None] == found[:, None]).any(2).mean() > 0.99


def test_an_exact_search_scores_every_label_by_all_bits() -> None:
    plain_rows = numbers(800, DIM) / 4
    plain_rows[:, 3] += 9  # by which four bits say little of all else
    part = searched([50] * 16, always=0, rows=NibbleRows.of(plain_rows, np.zeros(800, np.float32)), rescored=8)
    vectors = numbers(30, DIM, seed=9)
    check(part.exact(), vectors, 5)
    wanted = np.argsort(-plainly(part.exact(), vectors), axis=1)[:, :5]
    assert (wanted[:, :, None] == replace(part, beam=16).rank(vectors, 5).labels[:, None]).any(2).mean() < 0.9


@pytest.mark.parametrize("product", [False, True])
def test_a_vector_of_zeros_has_the_labels_of_the_largest_biases(product: bool) -> None:
    part = searched(product=product).exact()
    labels, scores = part.rank(np.zeros((1, DIM), np.float32), 5)
    expected = plainly(part, np.zeros((1, DIM)))[0]
    np.testing.assert_allclose(scores[0], np.sort(np.exp(expected))[::-1][:5], rtol=1e-5)
    np.testing.assert_allclose(np.exp(expected[labels[0]]), scores[0], rtol=1e-5)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("product", [False, True])
def test_a_vector_that_is_not_finite_spoils_no_other(odd: float, product: bool) -> None:
    part = searched(product=product)
    vectors = numbers(3, DIM)
    expected = part.rank(vectors, 5)
    vectors[1, 3] = odd
    labels, scores = part.rank(vectors, 5)
    assert ((labels[1] >= NO_LABEL) & (labels[1] < part.num_labels)).all()
    assert np.array_equal(labels[[0, 2]], expected.labels[[0, 2]])
    assert np.array_equal(scores[[0, 2]], expected.scores[[0, 2]])


def test_scores_of_any_labels_are_plain_numpy_s() -> None:
    for product in (False, True):
        part, vectors = searched(product=product), numbers(2, DIM)
        labels = np.array([[3, NO_LABEL, 0, 3], [48, 7, 1, NO_LABEL]])
        expected = np.take_along_axis(np.exp(plainly(part.exact(), vectors)), labels.clip(0), 1)
        np.testing.assert_allclose(part.score(vectors, labels), np.where(labels < 0, 0, expected), rtol=1e-4)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 49])
def test_the_best_candidates_are_scored_by_all_bits_and_the_others_by_their_upper_ones(count: int) -> None:
    part, vectors = searched(transform=layer(seed=4)), numbers(3, DIM, seed=9)
    proposed = np.array([50, 20, 1])  # of the third text, one label is only requested
    labels = np.full((3, 50), NO_LABEL)
    labels[:, :count] = np.stack([np.random.default_rng(text).permutation(49)[:count] for text in range(3)])
    labels[2, 2:] = NO_LABEL
    own, there = part.vectors(vectors), labels != NO_LABEL
    by_upper = np.empty((3, part.num_labels))
    by_upper[:, part.order] = by_upper_bits(part.rows, own.for_labels)
    exact = np.exp(plainly(part.exact(), vectors))
    for wanted, rescored in ((1, 1), (20, 1), (1, 30)):
        found = replace(part, rescored=rescored).score_candidates(own, labels, proposed, wanted)
        assert (found[~there] == 0).all()
        for text in range(3):
            candidates = labels[text, there[text]]
            again = best_of(by_upper[text, candidates[: proposed[text]]], max(wanted + 16, rescored))
            again |= set(range(proposed[text], len(candidates)))
            expected = np.exp(logs(by_upper[text, candidates]))
            expected[list(again)] = exact[text, candidates[list(again)]]
            np.testing.assert_allclose(found[text, there[text]], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("outside", [-2, 49, 1 << 40])
def test_labels_that_are_not_there_are_refused(outside: int) -> None:
    with pytest.raises(ModelError, match="labels to be scored point outside of -1 to 48"):
        searched().score(numbers(1, DIM), np.array([[3, outside]]))


def test_no_texts_and_no_places_have_no_answers() -> None:
    part = searched()
    assert part.rank(numbers(0, DIM), 5).labels.shape == (0, 5)
    assert part.rank(numbers(2, DIM), 0).scores.shape == (2, 0)
    assert part.score(numbers(0, DIM), np.zeros((0, 2), np.int64)).shape == (0, 2)


def test_mapped_arrays_answer_the_same_and_compile_nothing_anew(folder: Path) -> None:
    part, vectors = searched(groups=[3, 2, 4], cluster_transform=layer()), numbers(5, DIM)
    labels, scores = part.rank(vectors, 7)
    part.score(vectors, labels)
    kernels: tuple[Any, ...] = (search, score_labels)
    compilations = [len(kernel.signatures) for kernel in kernels]
    back = mapped(part, folder)
    again = back.rank(vectors, 7)
    assert np.array_equal(again.labels, labels)
    assert np.array_equal(again.scores, scores)
    assert np.array_equal(back.score(vectors, labels), part.score(vectors, labels))
    assert [len(kernel.signatures) for kernel in kernels] == compilations  # which take seconds
