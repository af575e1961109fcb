"""Why a label: what its score would lose without each of a text's words.

Every model is asked the same way, so the answer is about the model as it is, not about one of its parts: each word is
left out once, and the text is scored again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.engine.texts import Texts
from laconic.predict.reading import Reader

Score = Callable[[Texts, Int[np.ndarray, "texts n"]], Float[np.ndarray, "texts n"]]


class WordShare(NamedTuple):
    word: str
    share: float  # of the label's score: what is lost without the word; below 0 where it speaks against the label


class Explained(NamedTuple):
    """A prediction, and the text's words, those that speak most for the label first."""

    label: str
    score: float
    words: list[WordShare]


def word_shares(reader: Reader, score: Score, text: str, labels: Int[np.ndarray, "n"]) -> list[list[WordShare]]:
    """What a text's words are worth to each of these labels."""
    words = reader.words(text)
    different = list(dict.fromkeys(words))
    without = [[word for word in words if word != left_out] for left_out in different]
    wanted = np.tile(labels, (len(different) + 1, 1))
    scores = score(reader.read_words([words, *without]), wanted)
    return [_in_order(different, scores[0, place] - scores[1:, place]) for place in range(len(labels))]


def _in_order(words: list[str], lost: Float[np.ndarray, "words"]) -> list[WordShare]:
    return [WordShare(words[place], round(float(lost[place]), 6)) for place in np.argsort(-lost, kind="stable")]
