"""Calibrate scores: map them to probabilities by a rising curve, fitted on texts held out of training.

A calibration is a rising curve through a few points, so that the order of a text's labels stays as it was: equal scores
stay equal, others stay distinct. Scores are 0 or more, as every ranker's are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from laconic.errors import ModelError
from laconic.kernels.jit import compiled

_BINS = 50  # of equally many pairs, from which an isotonic curve is fitted
_POINTS = 50  # of a stored logistic curve
ERROR_BINS = 15  # of scores, equally wide, in which calibration errors are measured
_EQUAL = 1e-12  # fractions that differ by less are equal but for rounding


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Points of a piecewise linear curve, left to right, that starts at 0 for score 0 and tends to 1 after the last."""

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.probabilities) or not len(self.scores):
            raise _unsound(f"{len(self.scores)} scores and {len(self.probabilities)} probabilities")
        points = np.array([self.scores, self.probabilities])
        finite, rising = np.isfinite(points).all(), (np.diff(points) > 0).all()
        if not (finite and rising and points.min() >= 0 and points[1].max() <= 1):
            raise _unsound(f"{self.scores!r:.60} and {self.probabilities!r:.60}")

    @staticmethod
    def of_facts(facts: Mapping[str, Any]) -> Calibration | None:
        """Read the calibration of a model.json; None: scores stay as they are."""
        stored = facts.get("calibration")
        if stored is None:
            return None
        match stored:
            case {"scores": [*scores], "probabilities": [*probabilities]}:
                if all(isinstance(number, float) for number in (*scores, *probabilities)):
                    return Calibration(scores=tuple(scores), probabilities=tuple(probabilities))
        raise _unsound(f"{stored!r:.120}")

    def apply(self, scores: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Return the probability of each score."""
        found: Float[np.ndarray, "..."] = np.empty(scores.shape)
        _follow(*self._points, np.ascontiguousarray(scores).reshape(-1), found.reshape(-1))
        return found

    @cached_property
    def _points(self) -> tuple[Float[np.ndarray, "points"], Float[np.ndarray, "points"]]:
        """Return the curve's points with its start, so that small scores stay distinct."""
        first = (0.0,) if self.scores[0] > 0 else ()
        return np.array(first + self.scores), np.array(first + self.probabilities)


@compiled
def _follow(known, probabilities, scores, found):  # type: ignore[no-untyped-def]
    """Write the curve's value at each score: one call, where numpy would take six for the five labels of a text."""
    last = len(known) - 1
    for i in range(len(scores)):
        score = np.float64(scores[i])
        at = np.searchsorted(known, score, side="right") - 1
        if at < 0:
            found[i] = probabilities[0]
        elif at < last:
            rise = (probabilities[at + 1] - probabilities[at]) / (known[at + 1] - known[at])
            found[i] = rise * (score - known[at]) + probabilities[at]
        else:
            found[i] = 1 - (1 - probabilities[last]) / (1 + (score - known[last]))


def isotonic(scores: Float[np.ndarray, "pairs"], true: Bool[np.ndarray, "pairs"]) -> Calibration:
    """Fit the rising curve of least squared error; there must be at least one pair.

    Bins of equally many pairs are pooled where a higher one is true less often (pool adjacent violators). The means of
    pooled bins become points of a line, not steps: on a step, different scores would become equal.
    """
    order = np.argsort(scores, kind="stable")
    values, pairs = scores[order].astype(np.float64), len(order)
    # A bin begins where its score is first met, so that equal scores are in one.
    starts = np.unique(np.searchsorted(values, values[np.arange(_BINS) * pairs // _BINS]))
    sums = (np.add.reduceat(part.astype(np.float64), starts) for part in (true[order], values, np.ones(pairs)))
    hits, total, counts = pooled(np.stack(list(sums), axis=1)).T
    # Never quite 0 or 1: that would take infinitely many pairs.
    probabilities = np.clip(hits / counts, 0.5 / pairs, 1 - 0.5 / pairs)
    return Calibration(scores=tuple((total / counts).tolist()), probabilities=tuple(probabilities.tolist()))


def pooled(bins: Float[np.ndarray, "bins sums"]) -> Float[np.ndarray, "blocks sums"]:
    """Pool neighbouring bins until the first sum's fraction of the last rises."""
    from sklearn.isotonic import isotonic_regression  # training alone needs it

    fitted = isotonic_regression(bins[:, 0] / bins[:, -1], sample_weight=bins[:, -1])
    starts = np.flatnonzero(np.diff(fitted, prepend=-1.0) > _EQUAL)
    return np.add.reduceat(bins, starts, axis=0)


def platt(scores: Float[np.ndarray, "pairs"], true: Bool[np.ndarray, "pairs"]) -> Calibration | None:
    """Fit a logistic curve to scores; None if truth does not rise with them."""
    from scipy.special import expit

    line = logistic_line(scores, true)
    if line is None:
        return None
    slope, shift = line
    known = np.linspace(float(scores.min()), float(scores.max()), _POINTS)
    probabilities = expit(slope * known + shift)
    if not (np.diff(probabilities) > 0).all():
        return None
    return Calibration(scores=tuple(known.tolist()), probabilities=tuple(probabilities.tolist()))


def logistic_line(scores: Float[np.ndarray, "pairs"], true: Bool[np.ndarray, "pairs"]) -> tuple[float, float] | None:
    """Return slope and shift by which scores are logits of maximum likelihood; None if truth does not rise with them.

    The targets are Platt's, a little inside 0 and 1: scores that part all true labels from all wrong ones do not become
    certain.
    """
    values, positives = scores.astype(np.float64), int(true.sum())
    if positives in (0, len(true)):
        return None
    middle, spread = values.mean(), values.std()
    if not spread:
        return None
    targets = np.where(true, (positives + 1) / (positives + 2), 1 / (len(true) - positives + 2))
    slope, shift = _logistic_fit((values - middle) / spread, targets)
    return (slope / spread, shift - slope * middle / spread) if slope > 0 else None


def _logistic_fit(values: Float[np.ndarray, "n"], targets: Float[np.ndarray, "n"]) -> tuple[float, float]:
    """Fit slope and intercept to soft targets: each value counts as true and as false, by weight."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10, max_iter=200)
    twice, classes = np.tile(values, 2)[:, None], np.repeat([True, False], len(values))
    model.fit(twice, classes, sample_weight=np.concatenate([targets, 1 - targets]))
    return float(model.coef_[0, 0]), float(model.intercept_[0])


def expected_calibration_error(
    scores: Float[np.ndarray, "pairs"], true: Bool[np.ndarray, "pairs"], *, bins: int = ERROR_BINS
) -> float:
    """Return the mean distance, in percent over all pairs, of a bin's mean score from its fraction of true pairs.

    Scores below 0 or above 1 count in the first or the last bin, as they are.
    """
    if not len(scores):
        return 0.0
    bin_of = np.clip((scores * bins).astype(np.int64), 0, bins - 1)
    gaps = np.bincount(bin_of, weights=scores - true, minlength=bins)
    return 100 * float(np.abs(gaps).sum()) / len(scores)


def _unsound(found: str) -> ModelError:
    return ModelError(
        "the calibration in model.json must be points of a rising curve, scores from 0 on and probabilities of 0 to 1, "
        f"but is {found}; copy the model again"
    )
