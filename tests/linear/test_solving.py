"""The solver against an optimiser that knows nothing of duals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

from laconic.kernels.csr import Lists
from laconic.models.label_trees.solver import BIAS, TOGETHER, SolverSettings, solve

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
    weights, biases = solved_together(rows, (signs * costs)[:, None], solving)
    return weights[:, 0], float(biases[0])


def solved_together(
    rows: np.ndarray, some: np.ndarray, solving: SolverSettings, kind: type = np.float64
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights and biases of classifiers with these targets, a column each; the others have none."""
    targets = np.zeros((len(rows), TOGETHER), dtype=np.float32)
    targets[:, : some.shape[1]] = some
    weights, biases = np.zeros((rows.shape[1], TOGETHER), dtype=kind), np.zeros(TOGETHER, dtype=kind)
    solve(Lists.of(csr_array(rows)), targets, solving, weights, biases)
    return weights, biases


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
    weights, biases = solved_together(np.ones((1, 1), dtype=np.float32), np.ones((1, 1)), EXACT)
    assert [weights[0, 0], biases[0]] == pytest.approx([1 / (1.5 + BIAS**2), BIAS**2 / (1.5 + BIAS**2)])
    assert not weights[:, 1:].any()
    assert not biases[1:].any()


def test_classifiers_that_are_solved_together_do_not_disturb_each_other() -> None:
    rows, _, _ = problem(3)
    targets = np.stack([np.multiply(*problem(seed)[1:]) for seed in range(TOGETHER)], axis=1)
    weights, biases = solved_together(rows, targets, EXACT)
    for one in range(TOGETHER):
        alone, bias = solved_together(rows, targets[:, [one]], EXACT)
        np.testing.assert_allclose(weights[:, one], alone[:, 0], atol=1e-6)
        assert biases[one] == pytest.approx(bias[0], abs=1e-6)


def test_single_precision_is_near_enough() -> None:
    rows, signs, costs = problem(5, texts=300)
    targets = (signs * costs)[:, None]
    usual = SolverSettings(tolerance=0.1, epochs=3)
    for one, other in zip(
        solved_together(rows, targets, usual, np.float32), solved_together(rows, targets, usual), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-4)
