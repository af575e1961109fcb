"""Scores become probabilities, and nothing else changes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Bool, Float

from laconic.errors import ModelError
from laconic.evaluation.calibration import Calibration, isotonic, platt, pooled
from laconic.evaluation.metrics import expected_calibration_error
from tests.variants import examples

CURVES: dict[str, Callable[..., Calibration | None]] = {"isotonic": isotonic, "platt": platt}


def pairs(
    count: int, truth: Callable[[Any], Any], seed: int = 0
) -> tuple[Float[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
    """Scores of 0 to 1, and which are true where that happens as often as `truth` says."""
    generator = np.random.default_rng(seed)
    scores = generator.random(count).astype(np.float32)
    return scores, generator.random(count) < truth(scores.astype(np.float64))


def curve(name: str, *, seed: int = 0) -> Calibration:
    found = CURVES[name](*pairs(5000, lambda scores: scores**2, seed))
    assert found is not None
    return found


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("truth", [lambda scores: scores**2, lambda scores: 0.02 + 0.3 * scores])
def test_scores_become_what_is_true_of_them(name: str, truth: Callable[[Any], Any]) -> None:
    found = CURVES[name](*pairs(20_000, truth))
    assert found is not None
    scores = np.linspace(0.05, 0.95, 19)
    assert np.abs(found.apply(scores) - truth(scores)).max() < (0.05 if name == "isotonic" else 0.12)
    others, true = pairs(20_000, truth, seed=1)
    before, after = (expected_calibration_error(values, true) for values in (others, found.apply(others)))
    assert after < min(before / 4, 4)


@pytest.mark.parametrize("name", CURVES)
@examples(60)
@given(
    scores=st.lists(
        st.floats(0, 3, width=32) | st.floats(0, 2.0**-100, width=32) | st.sampled_from([0.0, 0.5, 1.0]), min_size=1
    )
)
def test_order_stays_and_so_do_ties(name: str, scores: list[float]) -> None:
    raw = np.array(scores, dtype=np.float32)
    found = curve(name).apply(raw)
    assert ((found >= 0) & (found <= 1)).all()
    for one, other in ((0, -1), *zip(range(len(raw)), range(1, len(raw)), strict=False)):
        assert np.sign(found[one] - found[other]) == np.sign(raw[one].astype(float) - raw[other].astype(float))


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_curve_is_numpy_s_interpolation(name: str, kind: type[Any]) -> None:
    found, chance = curve(name), np.random.default_rng(3)
    scores = np.concatenate([chance.random(300) * 1.4, found.scores, [0.0, 1e-30, 9.0]]).astype(kind)
    known, probabilities = (np.concatenate([[0.0], part]) for part in (found.scores, found.probabilities))
    expected = np.interp(scores.astype(np.float64), known, probabilities)
    over = np.maximum(scores.astype(np.float64) - known[-1], 0)
    expected = np.where(over > 0, 1 - (1 - probabilities[-1]) / (1 + over), expected)
    np.testing.assert_allclose(found.apply(scores), expected, rtol=1e-12)
    assert np.array_equal(found.apply(scores[None, ::2])[0], found.apply(scores)[::2])


@pytest.mark.parametrize("name", CURVES)
def test_neighbouring_scores_stay_apart_all_along_the_curve(name: str) -> None:
    found = curve(name)
    for at in (*found.scores, 0.01, 0.3, 0.999, 1.6):
        near = np.float32(at) * np.array([1 - 1e-6, 1, 1 + 1e-6])
        assert (np.diff(found.apply(near)) > 0).all()


def pooled_by_definition(bins: Float[np.ndarray, "bins 2"]) -> list[float]:
    """Of every bin: the largest, over where a stretch begins, of the smallest share, over where it ends."""

    def share(first: int, last: int) -> float:
        hits, count = bins[first : last + 1].sum(axis=0)
        return float(hits / count)

    size = range(len(bins))
    return [max(min(share(a, b) for b in size[i:]) for a in size[: i + 1]) for i in size]


@examples(80)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=12))
def test_pooling_is_what_isotonic_regression_is_defined_as(bins: list[tuple[int, int]]) -> None:
    table = np.array([(min(hits, count), count) for hits, count in bins], dtype=np.float64)
    blocks = pooled(table)
    shares = blocks[:, 0] / blocks[:, 1]
    assert (np.diff(shares) > 0).all()
    np.testing.assert_allclose(blocks.sum(axis=0), table.sum(axis=0))
    # A block has as many pairs as its bins, so each bin finds its own.
    block_of = np.searchsorted(blocks[:, 1].cumsum(), table[:, 1].cumsum() - 0.5)
    np.testing.assert_allclose(shares[block_of], pooled_by_definition(table))


def test_an_isotonic_curve_worked_by_hand() -> None:
    # Fewer pairs than bins, so that each score is a bin: 0.2 is true once in two, 0.4 never, which is pooled to 1/3.
    scores = np.array([0.4, 0.2, 0.9, 0.2, 0.1])
    found = isotonic(scores, np.array([False, True, True, False, False]))
    assert found.scores == pytest.approx((0.1, 0.8 / 3, 0.9))
    assert found.probabilities == pytest.approx((0.1, 1 / 3, 0.9))  # half a pair of five away from 0 and 1
    assert found.apply(np.array([0.05, 0.1, (0.1 + 0.8 / 3) / 2, 0.9, 1.9])) == pytest.approx(
        [0.05, 0.1, (0.1 + 1 / 3) / 2, 0.9, 0.95]
    )


def test_a_logistic_curve_is_the_likeliest() -> None:
    """No curve beside it gives Platt's targets a smaller log loss."""
    scores, true = pairs(200, lambda scores: 0.8 * scores)
    positives = true.sum()
    targets = np.where(true, (positives + 1) / (positives + 2), 1 / (len(true) - positives + 2))
    found = platt(scores, true)
    assert found is not None

    def loss(slope: float, shift: float) -> float:
        shares = 1 / (1 + np.exp(-(slope * scores + shift)))
        return float(-(targets * np.log(shares) + (1 - targets) * np.log(1 - shares)).mean())

    ends = [
        math.log(probability / (1 - probability)) for probability in (found.probabilities[0], found.probabilities[-1])
    ]
    slope = (ends[1] - ends[0]) / (found.scores[-1] - found.scores[0])
    shift = ends[0] - slope * found.scores[0]
    best = loss(slope, shift)
    assert all(
        best < loss(slope + more, shift + higher)
        for more in (-0.1, 0, 0.1)
        for higher in (-0.05, 0, 0.05)
        if more or higher
    )


@pytest.mark.parametrize("name", CURVES)
def test_scores_that_all_are_right_or_wrong_are_no_trouble(name: str) -> None:
    scores = np.linspace(0, 1, 100)
    for true in (scores > 0.5, scores > 2, scores > -1, scores < 0.5):
        found = CURVES[name](scores, true)
        if found is not None:
            assert np.isfinite(found.apply(scores)).all()
    found = CURVES[name](scores, scores > 0.5)
    assert found is not None
    assert found.apply(np.array([0.25, 0.75])) == pytest.approx([0, 1], abs=0.05)


def test_no_logistic_curve_goes_through_scores_that_say_nothing() -> None:
    scores = np.linspace(0, 1, 100)
    assert platt(scores, scores < 0.5) is None
    assert platt(np.ones(10), np.arange(10) > 4) is None


def test_equal_scores_are_one_point() -> None:
    found = isotonic(np.ones(10), np.arange(10) > 3)
    assert (found.scores, found.probabilities) == ((1.0,), (0.6,))
    assert found.apply(np.array([[0.5, 1.0]])) == pytest.approx(np.array([[0.3, 0.6]]))


@pytest.mark.parametrize("name", CURVES)
def test_a_calibration_comes_back_from_json(name: str) -> None:
    found = curve(name)
    facts = {"calibration": {"how": name, "scores": found.scores, "probabilities": found.probabilities}}
    assert Calibration.of_facts(json.loads(json.dumps(facts))) == Calibration.of_facts(facts) == found
    assert len(found.scores) <= 50


def test_a_model_without_calibration_has_none() -> None:
    assert Calibration.of_facts({"method": "nearest"}) is None


@pytest.mark.parametrize(
    "told",
    [
        {},
        [],
        "isotonic",
        {"scores": [0.1], "probabilities": []},
        {"scores": [], "probabilities": []},
        {"scores": [0.1, 0.2], "probabilities": [0.2, 0.1]},
        {"scores": [0.2, 0.1], "probabilities": [0.1, 0.2]},
        {"scores": [0.1, 0.2], "probabilities": [0.2, 0.2]},
        {"scores": [0.1, 0.2], "probabilities": [0.2, 1.1]},
        {"scores": [0.1, 0.2], "probabilities": [-0.2, 0.1]},
        {"scores": [-0.1, 0.2], "probabilities": [0.1, 0.2]},
        {"scores": [0.1, math.nan], "probabilities": [0.1, 0.2]},
        {"scores": [0.1, math.inf], "probabilities": [0.1, 0.2]},
        {"scores": [0.1, "0.2"], "probabilities": [0.1, 0.2]},
        {"scores": [0.1, 10**400], "probabilities": [0.1, 0.2]},
        {"scores": [0.1, [0.2]], "probabilities": [0.1, 0.2]},
        {"scores": [0.1, None], "probabilities": [False, True]},
    ],
)
def test_what_is_no_rising_curve_is_refused(told: Any) -> None:
    with pytest.raises(ModelError, match=r"the calibration in model\.json must be .* copy the model again"):
        Calibration.of_facts({"calibration": told})
