"""Predictions, and the checks of requests that all predictors share. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.data.vocabulary import Vocabulary
from laconic.errors import ConfigError, DataError
from laconic.kernels.jit import compiled
from laconic.types import FIRST_WORD, NO_LABEL


class Prediction(NamedTuple):
    """A label and its score."""

    label: str
    """Name of the label."""
    score: float
    """Score of the label: a probability where the model is calibrated."""


class Answer(NamedTuple):
    """The labels of a text, best first, and the number of words they are based on."""

    predictions: list[Prediction]
    """Labels of the text with their scores, best first."""
    known_words: int
    """Words of the text that the model knows. 0: the labels say nothing about the text."""


class RankedTexts(NamedTuple):
    """The labels of texts as arrays, best first; where a text has fewer, the rest are NO_LABEL."""

    labels: Int[np.ndarray, "texts k"]
    scores: Float[np.ndarray, "texts k"]  # probabilities where the model is calibrated
    known_words: Int[np.ndarray, "texts"]


def known_words(
    ids: Int[np.ndarray, "total"], bounds: Int[np.ndarray, "bounds"], vocabulary: Vocabulary
) -> Int[np.ndarray, "texts"]:
    """Count the known words of each text; text t is `ids[bounds[t]:bounds[t + 1]]`."""
    counts: Int[np.ndarray, "texts"] = np.zeros(len(bounds) - 1, dtype=np.int64)
    _count_between(ids, bounds, FIRST_WORD, FIRST_WORD + len(vocabulary.words), counts)
    return counts


@compiled
def _count_between(ids, bounds, first, last, counts):  # type: ignore[no-untyped-def]
    for text in range(len(counts)):
        for i in range(bounds[text], bounds[text + 1]):
            counts[text] += first <= ids[i] < last


def named(
    labels: Int[np.ndarray, "texts k"], scores: Float[np.ndarray, "texts k"], names: Sequence[str]
) -> list[list[Prediction]]:
    """Replace the label numbers of a ranking by names."""
    return [
        [Prediction(names[label], score) for label, score in zip(*row, strict=True) if label != NO_LABEL]
        for row in zip(labels.tolist(), scores.tolist(), strict=True)
    ]


def check_question(k: int, *, reads_texts: bool) -> None:
    """Refuse k below 1, and texts if the model reads features."""
    if not reads_texts:
        raise DataError("this model was trained on features, not on texts; `laconic evaluate` reads feature files")
    if k < 1:
        raise ConfigError(f"k must be 1 or more, but is {k}")
