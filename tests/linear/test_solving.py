"""The solver against an optimiser that knows nothing of duals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

from laconic.kernels.csr import Lists
from laconic.models.label_trees.learn import BIAS, SolverSettings, solve

FEATURES = 12
EXACT = SolverSettings(tolerance=1e-9, epochs=5000)


def problem(seed: int, texts: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of length 1, signs of which few are positive, and costs of which some are 0."""
    generator = np.random.default_rng(seed)
    rows = generator.random((texts, FEATURES)) * (generator.random((texts, FEATURES)) < 0.4) + 1e-3
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    signs = np.where(generator.random(texts) < 0.2, 1.0, -1.0)
    return rows, signs, generator.choice([0.0, 0.3, 1.0, 4.0], texts)


def objective(rows: np.ndarray, signs: np.ndarray, costs: np.ndarray, weights: np.ndarray, bias: float) -> float:
    """What is to be as small as it can."""
    losses = np.maximum(0, 1 - signs * (rows.astype(np.float64) @ weights + bias)) ** 2
    return float((weights @ weights + (bias / BIAS) ** 2) / 2 + costs @ losses)


def solved(rows: np.ndarray, signs: np.ndarray, costs: np.ndarray, solving: SolverSettings) -> tuple[np.ndarray, float]:
    weights = np.zeros(FEATURES)
    bias = solve(Lists.of(csr_array(rows)), signs, costs, solving, weights)
    return weights, bias


@pytest.mark.parametrize("seed", range(5))
def test_no_other_weights_have_a_smaller_objective(seed: int) -> None:
    rows, signs, costs = problem(seed)
    weights, bias = solved(rows, signs, costs, EXACT)

    def value(numbers: np.ndarray) -> float:
        return objective(rows, signs, costs, numbers[:-1], float(numbers[-1]))

    found = value(np.append(weights, bias))
    best = minimize(value, np.zeros(FEATURES + 1), method="L-BFGS-B", options={"maxiter": 2000, "maxfun": 10**6})
    assert found <= best.fun + 1e-6
    assert found == pytest.approx(best.fun, rel=1e-4)


def test_the_usual_tolerance_comes_near() -> None:
    for seed in range(5):
        rows, signs, costs = problem(seed, texts=300)
        exact, rough = (
            objective(rows, signs, costs, *solved(rows, signs, costs, solving))
            for solving in (EXACT, SolverSettings(tolerance=0.1, epochs=20))
        )
        assert exact <= rough + 1e-9
        assert rough <= 1.02 * exact


def test_texts_of_cost_zero_are_not_there() -> None:
    rows, signs, costs = problem(7)
    there = costs > 0
    weights, bias = solved(rows, signs, costs, EXACT)
    alone, bias_alone = solved(rows[there], signs[there], costs[there], EXACT)
    np.testing.assert_allclose(weights, alone, atol=1e-6)
    assert bias == pytest.approx(bias_alone, abs=1e-6)


def test_a_weight_by_hand() -> None:
    # One text [1], sign 1, cost 1: a = 1 / (1 + BIAS² + 1/2), w = a, and the bias is a · BIAS².
    weights = np.zeros(1)
    bias = solve(Lists.of(csr_array(np.ones((1, 1)))), np.ones(1), np.ones(1), EXACT, weights)
    assert [*weights, bias] == pytest.approx([1 / (1.5 + BIAS**2), BIAS**2 / (1.5 + BIAS**2)])
