"""Label rows: what is lost by making them small, and every loop over them against plain numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from laconic.kernels.selection import ascending, choose
from laconic.packed.engine.dot_products import BYTES, HAS_DOT_PRODUCTS, has_dot_products
from laconic.packed.engine.row_kernels import (
    MOST_DIM,
    fetch_run,
    fine_dot,
    log_sigmoid,
    plain_product,
    probabilities,
    quantise,
    score_run,
    split,
    split_product,
)
from laconic.packed.engine.rows import Rows
from laconic.types import NO_LABEL
from tests.engine.making import both_bytes, coarsely, exactly, numbers, rows, sigmoid

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def whole(vector: np.ndarray) -> tuple[np.ndarray, np.float32]:
    into = np.full(len(vector), 99, dtype=np.int16)
    return into, quantise(vector, into)


def joined(numbers: np.ndarray) -> np.ndarray:
    """Undo the splitting of a vector into bytes."""
    high, low = numbers.view(np.int8).reshape(2, -1).astype(np.int16)
    return 32 * high + low


def test_every_number_of_twelve_bits_is_two_bytes() -> None:
    vector = np.arange(-2048, 2048, dtype=np.int16)
    found = vector.copy()
    split(found)
    assert (joined(found) == vector).all()
    vector = vector[:17]
    split(vector)
    assert (vector == np.arange(-2048, -2031)).all()


def extremes(count: int, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of bytes, a vector of 12 bits and their products, with numbers as large as they may be among them."""
    random = np.random.default_rng(dim)
    table = random.integers(-128, 128, (count, dim), dtype=np.int8)
    table[0] = -128
    vector = random.integers(-2047, 2048, dim).astype(np.int16)
    vector[: dim // 2] = 2047
    return table, vector, table.astype(np.int64) @ vector


@pytest.mark.skipif(not HAS_DOT_PRODUCTS, reason="needs an ARM processor with dot products")
@pytest.mark.parametrize("dim", [1, 16, 100, 128, 480, MOST_DIM])
def test_products_by_bytes_are_the_same_integers(dim: int) -> None:
    table, vector, expected = extremes(3, dim)
    halves = vector.copy()
    split(halves)
    assert [split_product(table, row, halves) for row in range(3)] == expected.tolist()
    assert [plain_product(table, row, vector) for row in range(3)] == expected.tolist()


@pytest.mark.parametrize("dim", [1, 15, 16, 17, 100, 480, MOST_DIM])
def test_runs_of_any_length_have_the_sums_of_whole_numbers(dim: int) -> None:
    table, vector, expected = extremes(9, dim)
    assert [plain_product(table, row, vector) for row in range(9)] == expected.tolist()
    part = Rows(coarse=table, scales=np.ones(9, dtype=np.float32), biases=np.zeros(9, dtype=np.float32))
    read = vector.copy()
    if HAS_DOT_PRODUCTS:
        split(read)
    for first in range(9):
        for last in range(first, 10):
            into = np.full(11, np.nan, dtype=np.float32)
            assert score_run(part.grid, first, last, read, np.float32(1), into, 1) == 1 + last - first
            assert into[1 : 1 + last - first].tolist() == expected[first:last].astype(np.float32).tolist()
            assert np.isnan(into[1 + last - first :]).all()


def test_dot_products_are_used_where_the_processor_is_known_to_have_them() -> None:
    assert has_dot_products("neoverse-n1")
    for name in ("", "generic", "cortex-a72", "skylake-avx512"):
        assert not has_dot_products(name)


@given(arrays(np.float32, st.integers(1, 40), elements=st.floats(-1e6, 1e6, width=32)))
def test_a_vector_in_whole_numbers_is_the_vector_to_twelve_bits(vector: np.ndarray) -> None:
    found, scale = whole(vector)
    if HAS_DOT_PRODUCTS and len(vector) % BYTES == 0:
        found = joined(found)
    assert np.abs(found).max() <= 2047
    # Vectors below 1e-30 are zeros.
    assert np.abs(found * np.float64(scale) - vector).max() <= max(0.5001 * np.abs(vector).max() / 2047, 1e-30)


@pytest.mark.parametrize("vector", [[0, 0, 0], [1e-40, 0, -1e-42], [np.inf, 1, 2], [1, -np.inf, 2]])
def test_a_vector_that_is_nothing_or_endless_is_zeros(vector: list[float]) -> None:
    found, scale = whole(np.array(vector, dtype=np.float32))
    assert (found.tolist(), scale) == ([0, 0, 0], 0)


@given(st.data())
def test_scores_of_a_run_are_products_of_whole_numbers(data: st.DataObject) -> None:
    count, dim = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 70))
    part, vector = rows(count, dim), numbers(dim, seed=3)
    first = data.draw(st.integers(0, count))
    last = data.draw(st.integers(first, count))
    into, (whole_vector, scale) = np.full(count + 5, -7, np.float32), whole(vector)
    end = score_run(part.grid, first, last, whole_vector, scale, into, 2)
    assert end == 2 + last - first
    np.testing.assert_allclose(into[2:end], coarsely(part, vector[None])[0, first:last], rtol=1e-5, atol=1e-5)
    assert (into[:2] == -7).all()
    assert (into[end:] == -7).all()


def test_the_widest_rows_do_not_overflow() -> None:
    part = Rows(
        coarse=np.full((2, MOST_DIM), [[-128], [127]], dtype=np.int8),
        scales=np.ones(2, dtype=np.float32),
        biases=np.zeros(2, dtype=np.float32),
    )
    into = np.empty(2, dtype=np.float32)
    score_run(part.grid, 0, 2, whole(np.ones(MOST_DIM, dtype=np.float32))[0], np.float32(1), into, 0)
    np.testing.assert_allclose(into, [-128 * 2047 * MOST_DIM, 127 * 2047 * MOST_DIM], rtol=1e-6)


@pytest.mark.parametrize("dim", [1, 7, 64, 301])
def test_a_product_by_two_bytes_is_that_of_the_rows(dim: int) -> None:
    table, vector = numbers(3, dim), numbers(dim, seed=1)
    part = Rows.of(table, numbers(3))
    found = [fine_dot(part.grid, part.second, row, vector) for row in range(3)]
    assert found == pytest.approx((both_bytes(part) @ vector).tolist(), rel=1e-4, abs=1e-5)
    assert found == pytest.approx((table @ vector).tolist(), rel=1e-3, abs=1e-4 * dim)


def chosen(scores: np.ndarray, wanted: int, count: int | None = None) -> np.ndarray:
    places, room = np.full(len(scores) + 1, -9, dtype=np.int32), np.empty(len(scores), dtype=np.float32)
    kept = choose(scores, len(scores) if count is None else count, wanted, room, places)
    assert (places[kept:] == -9).all()
    return places[:kept]


@given(arrays(np.float32, st.integers(1, 60), elements=FLOATS | st.sampled_from([0.0, 1.0, -1.0])), st.integers(1, 70))
def test_the_largest_are_chosen_in_the_order_of_places_and_of_equals_the_first(scores: np.ndarray, wanted: int) -> None:
    best = np.argsort(-scores.astype(np.float64), kind="stable")[:wanted]
    assert chosen(scores, wanted).tolist() == sorted(best.tolist())


@pytest.mark.parametrize("wanted", [1, 50, 999, 1000, 1001])
def test_of_many_scores_the_largest_are_chosen(wanted: int) -> None:
    scores = np.round(numbers(1000), 2)  # with many equals
    found = chosen(scores, wanted)
    assert len(found) == min(wanted, 1000)
    assert np.array_equal(np.sort(scores[found]), np.sort(scores)[-wanted:])


@pytest.mark.parametrize("wanted", [1, 5, 300, 599])
@pytest.mark.parametrize("kind", ["alike", "zeros", "tiny", "huge", "integers", "mixed"])
def test_of_scores_of_any_size_the_largest_are_chosen_and_of_equals_the_first(kind: str, wanted: int) -> None:
    random = np.random.default_rng(wanted)
    normal = random.normal(size=600)
    scores = {
        "alike": 5 + normal / 1e4,
        "zeros": random.choice([0.0, -0.0, 1.0, -1.0], 600),
        "tiny": normal * 1e-41,
        "huge": normal * 8e37,
        "integers": random.integers(-3, 4, 600),
        "mixed": normal * 10.0 ** random.integers(-30, 30, 600),
    }[kind].astype(np.float32)
    best = np.argsort(-scores.astype(np.float64), kind="stable")[:wanted]
    assert chosen(scores, wanted).tolist() == sorted(best.tolist())


@pytest.mark.parametrize("odd", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("wanted", [1, 5, 300, 599])
def test_among_many_scores_those_that_are_not_finite_do_no_harm(odd: float, wanted: int) -> None:
    scores = np.round(numbers(600), 2)
    scores[::7] = odd
    found = chosen(scores, wanted)
    assert np.array_equal(found, np.unique(found))
    if np.isnan(odd):
        assert len(found) == min(wanted, np.isfinite(scores).sum())
    else:
        assert np.array_equal(np.sort(scores[found]), np.sort(scores)[-wanted:])


def test_only_the_first_scores_count() -> None:
    assert chosen(np.array([3, 1, 2, 9, 9], np.float32), 2, count=3).tolist() == [0, 2]
    assert chosen(np.array([3, 1, 2], np.float32), 5).tolist() == [0, 1, 2]
    assert chosen(np.full(300, 2, np.float32), 7).tolist() == list(range(7))


ODD = st.floats(width=32) | st.sampled_from([np.nan, np.inf, -np.inf, *map(float, np.float32([3.4e38, -3.4e38]))])


@given(arrays(np.float32, st.integers(1, 40), elements=ODD), st.integers(1, 40))
def test_scores_that_are_not_finite_do_no_harm(scores: np.ndarray, wanted: int) -> None:
    found = chosen(scores, wanted)
    assert len(found) <= max(wanted, 0)
    assert np.array_equal(found, np.unique(found))
    if not np.isnan(scores).any():
        assert np.array_equal(np.sort(scores[found]), np.sort(scores)[-wanted:])


def test_log_sigmoid_is_the_logarithm_of_the_sigmoid() -> None:
    scores = np.concatenate([np.linspace(-100, 100, 4001), [-14, -13.999, 0, 1e-8]]).astype(np.float32)
    expected = -np.logaddexp(0, -scores.astype(np.float64))
    found = np.array([log_sigmoid(score) for score in scores])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_probabilities_are_those_of_the_rows_and_no_label_keeps_what_is_there() -> None:
    part, vectors = rows(20), numbers(3, 24, seed=7)
    labels = np.array([[3, NO_LABEL, 19], [0, 0, NO_LABEL], [NO_LABEL, 5, 7]])
    found = np.full(labels.shape, 9, dtype=np.float32)
    probabilities(part.grid, part.second, vectors, labels, found)
    expected = np.take_along_axis(sigmoid(exactly(part, vectors)), labels.clip(0), 1)
    np.testing.assert_allclose(found, np.where(labels == NO_LABEL, 9, expected), rtol=1e-5)


def test_asking_for_memory_changes_nothing() -> None:
    part = rows(9, 200)
    before = part.coarse.copy()
    for first, last in ((0, 9), (3, 3), (8, 9)):
        fetch_run(part.grid, first, last)
    assert np.array_equal(part.coarse, before)


def test_small_rows_are_the_rows_to_a_half_step() -> None:
    table, biases = numbers(50, 33), numbers(50)
    table[7] = 0
    part = Rows.of(table, biases)
    steps = np.abs(table).max(1, keepdims=True) / 127
    assert (np.abs(part.coarse * part.scales[:, None] - table) <= 0.5001 * steps).all()
    assert (np.abs(both_bytes(part) - table) <= 0.5001 * steps / 254).all()
    assert np.array_equal(part.biases, biases)
    assert (part.size, part.dim) == (50, 33)
    assert Rows.of(table, biases, with_exact=False).fine is None


def test_rows_in_half_precision_of_version_0_2_are_read() -> None:
    table, biases = numbers(50, 33), numbers(50)
    table[7] = 0
    part, coarse = Rows.of(table, biases), Rows.of(table, biases, with_exact=False)
    older = replace(coarse, exact=table.astype(np.float16))
    assert older.exact is None
    np.testing.assert_allclose(both_bytes(older), both_bytes(part), atol=2e-3)


@given(arrays(np.float32, st.integers(0, 100), elements=st.sampled_from([-1.5, 0.0, 2.0, 3.25, np.inf])))
def test_keys_are_ordered_as_by_a_stable_sort(keys: np.ndarray) -> None:
    assert np.array_equal(ascending(keys), np.argsort(keys, kind="stable"))


def test_keys_that_are_no_numbers_lose_none() -> None:
    keys = np.array([np.nan, 1.0, np.nan, 0.0] * 12, dtype=np.float32)
    assert np.array_equal(np.sort(ascending(keys)), np.arange(len(keys)))
