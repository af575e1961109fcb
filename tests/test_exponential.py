"""The exponential of what is below zero."""

from __future__ import annotations

import numpy as np

from laconic.kernels.exponential import exp_below_zero
from laconic.kernels.jit import compiled


@compiled
def of_each(numbers, into):  # type: ignore[no-untyped-def]
    for i in range(len(numbers)):
        into[i] = exp_below_zero(numbers[i])


def exponentials(numbers: np.ndarray) -> np.ndarray:
    found = np.empty_like(numbers)
    of_each(numbers, found)
    return found


def test_it_is_that_of_numpy() -> None:
    numbers = -np.concatenate([np.linspace(0, 87, 100_001), np.geomspace(1e-12, 1, 1000)]).astype(np.float32)
    np.testing.assert_allclose(exponentials(numbers), np.exp(numbers.astype(np.float64)), rtol=4e-6)


def test_at_zero_it_is_one_and_far_below_hardly_anything() -> None:
    assert exponentials(np.array([0, -0.0, -200, -3e38, -np.inf], np.float32)).tolist()[:2] == [1, 1]
    assert (exponentials(np.array([-200, -3e38, -np.inf], np.float32)) < 1e-37).all()


def test_one_number_is_computed_as_it_is_among_many() -> None:
    numbers = -np.random.default_rng(0).exponential(5, 100).astype(np.float32)
    assert np.array_equal([exp_below_zero(number) for number in numbers], exponentials(numbers))
