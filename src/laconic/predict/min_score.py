"""Leave out labels with a low score: below a number, or below the threshold that is stored in the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from laconic.errors import ConfigError, ModelError
from laconic.evaluation.thresholds import Threshold
from laconic.predict.label_filter import Find
from laconic.predict.prediction import Prediction, RankedTexts

STORED = "stored"
USUAL_K = 5  # labels per text
MinScore: TypeAlias = float | str | None  # None: all labels are kept


def parse_min_score(text: str) -> MinScore:
    """Read a number, or the word that stands for the stored threshold; nothing is no limit."""
    if text in ("", STORED):
        return text or None
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"a lowest score must be a number or {STORED!r}, but is {text!r}") from None


def reaching(predictions: Iterable[Prediction], min_score: MinScore, stored: Threshold | None) -> list[Prediction]:
    """Return the predictions whose score is not lower; labels with a stored threshold of their own are held to it."""
    if min_score is None:
        return list(predictions)
    if isinstance(min_score, str):
        threshold = _stored(min_score, stored)
        return [one for one in predictions if threshold.reached(one.label, one.score)]
    return [one for one in predictions if one.score >= min_score]


class Limits(NamedTuple):
    """The scores that labels must reach, by their numbers."""

    score: float
    own: Int[np.ndarray, "n"]  # labels with a limit of their own, the smallest number first
    own_scores: Float[np.ndarray, "n"]

    @staticmethod
    def of(min_score: MinScore, stored: Threshold | None, find: Find) -> Limits | None:
        """Return the limits that a lowest score stands for; None: all labels are kept."""
        if min_score is None:
            return None
        if not isinstance(min_score, str):
            return Limits(min_score, np.zeros(0, dtype=np.int64), np.zeros(0))
        threshold = _stored(min_score, stored)
        numbers, scores = find([*threshold.labels]), np.array([*threshold.labels.values()], dtype=np.float64)
        order = numbers.argsort()
        return Limits(threshold.score, numbers[order], scores[order])

    def reached(self, ranked: RankedTexts) -> Bool[np.ndarray, "texts k"]:
        """Return which places of a ranking have a score that is not lower."""
        needed = np.full(ranked.labels.shape, self.score)
        if len(self.own):
            places = self.own.searchsorted(ranked.labels).clip(max=len(self.own) - 1)
            needed = np.where(self.own[places] == ranked.labels, self.own_scores[places], needed)
        enough: Bool[np.ndarray, "texts k"] = ranked.scores.astype(np.float64) >= needed
        return enough


def places(k: int | None, min_score: MinScore, stored: Threshold | None) -> int:
    """Return the labels per text that are asked for; by default as many as a stored threshold was chosen for, or 5."""
    if k is None and isinstance(min_score, str):
        return _stored(min_score, stored).k
    return USUAL_K if k is None else k


def _stored(word: str, stored: Threshold | None) -> Threshold:
    if word != STORED:
        raise ConfigError(f"a lowest score must be a number or {STORED!r}, but is {word!r}")
    if stored is None:
        raise ModelError(
            "the model has no stored threshold; `laconic threshold MODEL DATA` chooses one (in Python, "
            "`choose_threshold`), or give a number"
        )
    return stored
