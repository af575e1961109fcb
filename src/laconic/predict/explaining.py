"""Why a label: what its score would lose without each of a text's words.

Every model is asked the same way, so the answer is about the model as it is, not about one of its parts: each word is
left out once, and the text is scored again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laconic.engine.ranking import PackedRanker
from laconic.predict.reading import Reader
from laconic.types import NO_LABEL


class WordShare(NamedTuple):
    word: str
    share: float  # of the label's score: what is lost without the word, less than 0 where it speaks against the label


class Reason(NamedTuple):
    """A label's number and score, and the text's words, those that speak most for it first."""

    label: int
    score: float
    words: list[WordShare]


def reasons(reader: Reader, ranker: PackedRanker, text: str, k: int) -> list[Reason]:
    """The best k labels of a text, each with what its words are worth."""
    words = reader.words(text)
    different = list(dict.fromkeys(words))
    without = [[word for word in words if word != left_out] for left_out in different]
    labels, scores = ranker.rank(reader.read_words([words]), k)
    lost = scores - ranker.score(reader.read_words(without), np.repeat(labels, len(without), axis=0))
    return [
        Reason(int(label), float(scores[0, place]), _in_order(different, lost[:, place]))
        for place, label in enumerate(labels[0])
        if label != NO_LABEL
    ]


def _in_order(words: list[str], lost: np.ndarray) -> list[WordShare]:
    order = np.argsort(-lost, kind="stable")
    return [WordShare(words[place], float(lost[place])) for place in order]
