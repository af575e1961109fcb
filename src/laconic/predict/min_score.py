"""Leave out labels with a low score: below a number, or below the threshold that is stored in the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from laconic.errors import ConfigError, ModelError
from laconic.evaluation.thresholds import Threshold
from laconic.predict.prediction import Prediction

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
