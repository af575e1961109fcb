"""Rows in planes of four bits: what they hold, and every loop over them against plain numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.errors import ModelError
from laconic.packed.engine import nibble_kernels
from laconic.packed.engine.nibble_kernels import both_dot, in_bytes, padded, plain_nibbles, plain_run, score_nibbles
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.row_kernels import MOST_DIM
from laconic.packed.engine.rows import Rows
from tests.engine.making import both_bytes, by_upper_bits, exactly, numbers
from tests.variants import examples

DIMS = [1, 24, 63, 64, 65, 128, 300, 480]


def every_byte(dim: int) -> Rows:
    table = np.arange(-128, 128, dtype=np.int8)[:, None].repeat(dim, 1)
    ones = np.ones(256, dtype=np.float32)
    return Rows(coarse=table, scales=ones, biases=0 * ones, fine=table[::-1])


def in_planes(count: int, dim: int, *, seed: int = 0, with_exact: bool = True) -> NibbleRows:
    table, biases = numbers(count, dim, seed=seed) / 4, numbers(count, seed=seed + 1) / 4
    return NibbleRows.of(table, biases, with_exact=with_exact)


def read(part: NibbleRows, vector: np.ndarray) -> tuple[np.ndarray, np.int32, np.float32]:
    """Return a vector as the kernels read it: its bytes, what the rows' numbers lack times their sum, half a scale."""
    whole = padded(vector, part.upper.shape[1])
    into = np.full(len(whole), 99, dtype=np.int8)
    scale, lacking = in_bytes(whole, into)
    return into, np.int32(lacking), np.float32(scale)


def scores_of(part: NibbleRows, vector: np.ndarray, first: int, last: int) -> np.ndarray:
    into, (own, lacking, scale) = np.full(last - first + 2, -7, np.float32), read(part, vector)
    assert score_nibbles(part.grid, first, last, own, lacking, scale, into, 1) == 1 + last - first
    assert into[0] == into[-1] == -7, "nothing else is written"
    return into[1:-1]


@pytest.mark.parametrize("dim", DIMS)
def test_bytes_are_split_and_joined_again(dim: int) -> None:
    whole = every_byte(dim)
    part = NibbleRows.from_bytes(whole)
    assert np.array_equal(part.coarse, whole.coarse)
    assert np.array_equal(part.coarse_of(slice(3, 9)), whole.coarse[3:9])
    assert (part.size, part.dim) == (256, dim)
    assert part.upper.nbytes == part.lower.nbytes == 256 * 32 * -(-dim // 64)


@pytest.mark.parametrize("dim", DIMS)
def test_runs_of_any_length_are_scored_by_their_upper_bits(dim: int) -> None:
    part, vector = in_planes(9, dim), numbers(dim, seed=3)
    expected = by_upper_bits(part, vector[None])[0]
    for first in range(9):
        for last in range(first, 10):
            np.testing.assert_allclose(scores_of(part, vector, first, last), expected[first:last], rtol=1e-4, atol=1e-4)


@examples(40)
@given(st.sampled_from([*DIMS, MOST_DIM]), st.integers(0, 99), st.booleans())
def test_instructions_of_the_processor_give_what_plain_loops_give(dim: int, seed: int, extreme: bool) -> None:
    part, vector = in_planes(7, dim, seed=seed), numbers(dim, seed=seed + 7)
    if extreme:
        part, vector = replace(part, upper=np.full_like(part.upper, 255)), np.ones(dim, np.float32)
    own, lacking, scale = read(part, vector)
    expected = np.empty(7, np.float32)
    plain_run(part.grid, 0, 7, own, lacking, scale, expected, 0)
    assert np.array_equal(scores_of(part, vector, 0, 7), expected)
    by_hand = (part.upper[2] & 15).astype(int).reshape(-1, 32), (part.upper[2] >> 4).astype(int).reshape(-1, 32)
    halves = own.astype(int).reshape(-1, 2, 32)
    assert nibble_kernels._product(part.upper, 2, own) == plain_nibbles(part.upper, 2, own)
    assert plain_nibbles(part.upper, 2, own) == (by_hand[0] * halves[:, 0] + by_hand[1] * halves[:, 1]).sum()


@pytest.mark.parametrize("with_exact", [False, True])
@pytest.mark.parametrize("dim", DIMS)
def test_a_row_is_scored_again_by_all_its_bits(dim: int, with_exact: bool) -> None:
    part, vector = in_planes(5, dim, with_exact=with_exact), numbers(dim, seed=3)
    whole = padded(vector, part.upper.shape[1])
    found = [both_dot(part.grid, row, whole) + part.biases[row] for row in range(5)]
    np.testing.assert_allclose(found, exactly(part, vector[None])[0], rtol=1e-4, atol=1e-4)


def test_upper_bits_are_off_by_a_thirtieth_of_the_largest_number_on_average() -> None:
    part = in_planes(50, 128)
    error = np.floor(part.coarse / 16) * 16 + 7.5 - part.coarse
    assert np.abs(error).max() == 7.5
    assert abs(error.mean()) < 0.2
    assert 0.028 < np.abs(error).mean() / 127 < 0.036
    assert np.abs(both_bytes(part) - numbers(50, 128) / 4).max() < part.scales.max() / 254


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e-38])
def test_a_vector_without_a_scale_is_nothing(odd: float) -> None:
    part, vector = in_planes(6, 24), np.full(24, odd, np.float32)
    assert np.array_equal(scores_of(part, vector, 0, 6), part.biases)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 0}, "width of rows must be 1 or more"),
        ({"dim": MOST_DIM + 1}, "at most 8,000 numbers, but are of 8,001"),
        ({"dim": 65}, "upper bits must be uint8 any × 64"),
        ({"upper": np.zeros((3, 32), np.int8)}, "upper bits must be uint8"),
        ({"lower": np.zeros((2, 32), np.uint8)}, "lower bits must be uint8 3 × 32"),
        ({"scales": np.full(3, np.nan, np.float32)}, "scales are not all finite"),
        ({"biases": np.zeros(2, np.float32)}, "biases must be"),
        ({"fine": np.zeros((3, 25), np.int8)}, "second bytes must be int8 3 × 24"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        replace(in_planes(3, 24), **changes)  # type: ignore[arg-type]


def test_no_rows_are_refused() -> None:
    none = {"upper": np.zeros((0, 32), np.uint8), "lower": np.zeros((0, 32), np.uint8)}
    with pytest.raises(ModelError, match="rows must be 1 or more"):
        replace(in_planes(3, 24), **none, scales=np.zeros(0, np.float32), biases=np.zeros(0, np.float32), fine=None)
