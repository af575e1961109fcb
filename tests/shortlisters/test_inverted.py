"""Search over an inverted index, against plain matrix products; and its kernels, against plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from laconic.errors import ModelError
from laconic.kernels import csr as inverted
from laconic.kernels.csr import Lists, clear, in_threads, search, take_best
from tests.variants import examples

# Few values, so that totals are exact, often equal, and often cancel.
VALUES = st.sampled_from([0, 0, 0, 0, 1, 1, 2, 0.5, -1, -2])
WORDS = st.integers(0, 7)


@st.composite
def rows_and_queries(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Two tables of numbers; the queries may have more words than the rows, or fewer."""
    rows = draw(arrays(np.float32, (draw(st.integers(0, 9)), draw(WORDS)), elements=VALUES))
    queries = draw(arrays(np.float32, (draw(st.integers(0, 4)), draw(WORDS)), elements=VALUES))
    return rows, queries


def slow_search(rows: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    words = min(rows.shape[1], queries.shape[1])
    products = queries[:, :words] @ rows[:, :words].T
    in_common = (queries[:, :words] != 0).astype(int) @ (rows[:, :words] != 0).astype(int).T > 0
    found, scores = np.full((len(queries), k), -1), np.zeros((len(queries), k))
    for query in range(len(queries)):
        best = sorted(np.flatnonzero(in_common[query]), key=lambda row: (-products[query, row], row))[:k]
        found[query, : len(best)], scores[query, : len(best)] = best, products[query, best]
    return found, scores


@contextmanager
def interpreted() -> Iterator[None]:
    """Runs the kernels as plain Python, where numpy looks at every index."""
    with pytest.MonkeyPatch.context() as patch:
        for name, kernel in vars(inverted).items():
            if hasattr(kernel, "py_func"):
                patch.setattr(inverted, name, kernel.py_func)
        yield


@examples(200)
@given(tables=rows_and_queries(), k=st.integers(0, 12))
def test_search_finds_what_a_matrix_product_ranks_first(tables: tuple[np.ndarray, np.ndarray], k: int) -> None:
    rows, queries = tables
    index, wanted = Lists.inverted(csr_array(rows)), Lists.of(csr_array(queries))
    expected_rows, expected_scores = slow_search(rows, queries, k)
    found, scores = search(index, wanted, len(rows), k)
    np.testing.assert_array_equal(found, expected_rows)
    np.testing.assert_allclose(scores, expected_scores, atol=1e-20)  # where weights cancel a trace stays
    with interpreted():
        plain_found, plain_scores = search(index, wanted, len(rows), k)
    np.testing.assert_array_equal(found, plain_found)
    np.testing.assert_array_equal(scores, plain_scores)


@given(seed=st.integers(0, 10**6))
def test_search_agrees_with_a_matrix_product_on_real_numbers(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(60, 20)).astype(np.float32) * (generator.random((60, 20)) < 0.2)
    queries = generator.normal(size=(7, 20)).astype(np.float32) * (generator.random((7, 20)) < 0.2)
    found, scores = search(Lists.inverted(csr_array(rows)), Lists.of(csr_array(queries)), 60, 10)
    products = queries.astype(np.float64) @ rows.T
    _, expected = slow_search(rows, queries, 10)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    for query, row in zip(*np.nonzero(found >= 0), strict=True):
        assert scores[query, row] == pytest.approx(products[query, found[query, row]], abs=1e-5)


def test_equal_rows_come_by_their_number() -> None:
    rows = np.ones((6, 1), dtype=np.float32)
    found, _ = search(Lists.inverted(csr_array(rows)), Lists.of(csr_array(rows[:1])), 6, 4)
    assert found.tolist() == [[0, 1, 2, 3]]


@given(
    totals=st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool) | st.sampled_from([1.0, 2.0]),
        max_size=20,
    ),
    k=st.integers(0, 22),
    order=st.randoms(use_true_random=False),
)
def test_the_best_are_those_that_sorting_puts_first(totals: list[float], k: int, order: Random) -> None:
    touched = list(range(len(totals)))
    order.shuffle(touched)
    expected = sorted(touched, key=lambda row: (-totals[row], row))[:k]
    for take in (take_best, take_best.py_func):
        rows, scores = np.full(k, -1, dtype=np.int64), np.zeros(k, dtype=np.float32)
        kept = take(np.array(totals, np.float32), np.array([*touched, 0], np.int32), len(touched), rows, scores)
        assert kept == len(expected)
        assert rows[:kept].tolist() == expected
        assert scores[:kept].tolist() == [totals[row] for row in expected]


@given(values=st.lists(st.tuples(st.integers(0, 4), VALUES), max_size=20), weight=VALUES)
def test_adding_touches_a_row_once_and_clearing_leaves_nothing(values: list[tuple[int, float]], weight: float) -> None:
    rows, amounts = np.array([row for row, _ in values], np.int32), np.array([value for _, value in values], np.float32)
    for add in (inverted.add, inverted.add.py_func):
        totals, touched = np.zeros(5, np.float32), np.empty(6, np.int32)
        count = add(rows, amounts, np.float32(weight), totals, touched, 0)
        assert sorted(touched[:count]) == sorted(set(rows.tolist()))
        expected = weight * np.bincount(rows, amounts, minlength=5)
        np.testing.assert_allclose(totals, expected, atol=1e-20)
        assert (totals[touched[:count]] != 0).all()
        clear(totals, touched, count)
        assert not totals.any()


@pytest.mark.parametrize("count", [0, 1, 2, 511, 1024, 1500])
def test_threads_share_the_work_without_gap_or_overlap(count: int) -> None:
    done = np.zeros(count, dtype=int)

    def work(first: int, last: int) -> None:
        done[first:last] += 1

    in_threads(count, work)
    assert (done == 1).all()


def test_an_error_in_a_thread_is_not_lost() -> None:
    def fail(first: int, last: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_threads(2000, fail)


EXTREME = st.sampled_from([-(2**63), -1, 2**31, 2**62, 2**63 - 1])
STARTS = arrays(np.int64, st.integers(0, 5), elements=st.integers(0, 4) | EXTREME)
NUMBERS = arrays(np.int32, st.integers(0, 4), elements=st.integers(0, 3) | st.sampled_from([-(2**31), -1, 2**31 - 1]))
NUMBER_VALUES = arrays(np.float32, st.integers(0, 4), elements=st.sampled_from([0, 1, -1, np.nan, np.inf]))


@examples(300)
@given(starts=STARTS.map(np.sort) | STARTS, numbers=NUMBERS, values=NUMBER_VALUES, begins_at_zero=st.booleans())
def test_lists_are_refused_unless_every_loop_over_them_stays_inside(
    starts: np.ndarray, numbers: np.ndarray, values: np.ndarray, begins_at_zero: bool
) -> None:
    if begins_at_zero and len(starts):
        starts[0], starts[-1] = 0, len(numbers)
    bounds = starts.tolist()
    walked = [place for a, b in pairwise(bounds) for place in range(a, min(b, a + 9))]
    sound = (
        walked == list(range(len(numbers)))  # all of them, in their order
        and bounds == sorted(bounds)
        and bounds[:1] == [0]
        and len(numbers) == len(values)
        and all(0 <= number < 3 for number in numbers)
        and all(np.isfinite(values))
    )
    lists = Lists(starts, numbers, values)
    if sound:
        assert lists.checked("votes", below=3) is lists
    else:
        with pytest.raises(ModelError, match=r"votes\.\* do not fit together; the file is damaged"):
            lists.checked("votes", below=3)


def test_starts_that_wrap_around_are_refused() -> None:
    # As differences of 64-bit numbers all of these are positive.
    starts = np.array([0, 2**63 - 1, -2, 1])
    with pytest.raises(ModelError):
        Lists(starts, np.zeros(1, np.int32), np.zeros(1, np.float32)).checked("votes", below=1)
