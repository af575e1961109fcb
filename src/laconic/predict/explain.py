"""Explain a label: the score lost without each word of the text, and the nearest training texts with the label.

Every model is asked the same way, so the answer is about the model as it is, not about one of its parts: each word is
left out once, and the text is scored again. Texts are near by their words alone, whatever the model has learnt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.packed.engine.texts import Texts
from laconic.packed.kept_texts import KeptTexts, NearText
from laconic.packed.tokenizer import Reader

log = logging.getLogger(__name__)
_MOST_SCORED = 100_000  # words, in all texts with a word left out: a text of 316 different words is explained whole
_NEAR = 3  # texts a label
Score = Callable[[Texts, Int[np.ndarray, "texts n"]], Float[np.ndarray, "texts n"]]


class WordContribution(NamedTuple):
    """A word of the text and its contribution to a label's score."""

    word: str
    share: float  # of the label's score: what is lost without the word; below 0 where it speaks against the label


class Explained(NamedTuple):
    """A prediction with the text's words by contribution, largest first, and near training texts, nearest first."""

    label: str
    score: float
    words: list[WordContribution]
    texts: Sequence[NearText] = ()  # of training, with this label; none where the model keeps none


def word_contributions(
    reader: Reader, score: Score, text: str, labels: Int[np.ndarray, "n"]
) -> list[list[WordContribution]]:
    """Return the contribution of each word of a text to each of these labels; of a long text, of its first words."""
    words = reader.words(text)
    different = _explainable(words)
    without = [[word for word in words if word != left_out] for left_out in different]
    wanted = np.tile(labels, (len(different) + 1, 1))
    scores = score(reader.read_words([words, *without]), wanted)
    return [_in_order(different, scores[0, place] - scores[1:, place]) for place in range(len(labels))]


def _explainable(words: Sequence[str]) -> list[str]:
    """Return the different words that are explained: as many as a limit of words to score leaves, and one at least."""
    different = list(dict.fromkeys(words))
    most = max(1, _MOST_SCORED // max(len(words), 1))
    if len(different) > most:
        log.warning("a text has %d different words, of which the first %d are explained", len(different), most)
    return different[:most]


def near_texts(reader: Reader, kept: KeptTexts | None, text: str, labels: Int[np.ndarray, "n"]) -> list[list[NearText]]:
    """Return the nearest training texts of each of these labels."""
    return [[] for _ in labels] if kept is None else kept.nearest(reader.read([text]), labels, _NEAR)


def _in_order(words: list[str], lost: Float[np.ndarray, "words"]) -> list[WordContribution]:
    return [WordContribution(words[place], round(float(lost[place]), 6)) for place in np.argsort(-lost, kind="stable")]
