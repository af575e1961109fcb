"""The training texts that a packed model keeps, if asked to, for explaining labels by the nearest of them.

texts.utf8           the texts, one after another, each once
arrays.safetensors   texts.starts, where each begins; texts.words.*, its words as the model weighs them, so that nothing
                     is cut into words again; texts.labels.*, the texts of each label
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.kernels.checks import check_array, check_numbers, check_starts, for_kernels
from laconic.kernels.csr import Lists, take_best
from laconic.kernels.jit import compiled
from laconic.packed.arrays import named_array
from laconic.packed.engine.pairs import Pairs
from laconic.packed.engine.texts import Texts
from laconic.packed.strings import Strings, write_strings
from laconic.system.sparse import csr_array
from laconic.types import NO_LABEL

FILE = "texts.utf8"
_MOST = 20_000  # texts of a label: so many are compared within a few milliseconds, be they read with sub-words


class NearText(NamedTuple):
    """A training text and its similarity."""

    text: str
    similarity: float  # cosine of tf-idf; 1 where both have the same words


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptTexts:
    """Training texts with words and labels. Validated, because files are untrusted and kernels check no bounds."""

    texts: Sequence[str]
    words: Pairs  # of each text: token ids and their weights, of length 1
    starts: np.ndarray  # int64, one more than labels: where each label's texts begin
    numbers: np.ndarray  # int32: the texts of each label, in order
    num_ids: int  # token ids that there are

    def __post_init__(self) -> None:
        check_array(self.words.starts, "bounds of kept texts' words", np.int64, (len(self.texts) + 1,))
        check_numbers(self.words.numbers, "words of kept texts", 0, self.num_ids)
        check_array(self.starts, "bounds of labels' texts", np.int64, (None,))
        check_array(self.numbers, "texts of labels", np.int32, (None,))
        check_starts(self.starts, "bounds of labels' texts", len(self.numbers))
        check_numbers(self.numbers, "texts of labels", 0, len(self.texts))

    @staticmethod
    def of(texts: Sequence[str], words: csr_array, labels: csr_array) -> KeptTexts:
        """Keep the texts that have a label; duplicates are merged with the labels of both.

        `words` and `labels` have a row for each text. Of a label with very many texts, chance keeps some.
        """
        first: dict[str, int] = {}
        same = np.array([first.setdefault(text, row) for row, text in enumerate(texts)], dtype=np.int64)
        starts, rows = _texts_of_labels(labels, same)
        kept, numbers = np.unique(rows, return_inverse=True)
        return KeptTexts(
            texts=[texts[row] for row in kept],
            words=Pairs.of(Lists.of(csr_array(words[kept]))),
            starts=starts,
            numbers=numbers.astype(np.int32),
            num_ids=int(words.shape[1]),
        )

    @property
    def num_labels(self) -> int:
        return len(self.starts) - 1

    def nearest(self, text: Texts, labels: Int[np.ndarray, "n"], count: int) -> list[list[NearText]]:
        """Return for each label its texts that are most similar to a text; none that share no word."""
        query = np.bincount(text.ids, text.weights, minlength=self.num_ids).astype(np.float32)
        return [[] if label == NO_LABEL else self._nearest(query, label, count) for label in labels.tolist()]

    def _nearest(self, query: Float[np.ndarray, "ids"], label: int, count: int) -> list[NearText]:
        listed = for_kernels(self.numbers[self.starts[label] : self.starts[label + 1]])
        best, cosines = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.float32)
        found = _nearest(self.words.lists, listed, query, best, cosines)
        near = zip(best[:found].tolist(), cosines[:found].tolist(), strict=True)
        return [NearText(self.texts[text], round(min(cosine, 1.0), 6)) for text, cosine in near]


def write_texts(kept: KeptTexts, folder: Path) -> dict[str, np.ndarray]:
    """Write the texts, and return the arrays that belong to them."""
    return {
        "texts.starts": write_strings(folder / FILE, kept.texts),
        "texts.words.starts": kept.words.starts,
        "texts.words.numbers": kept.words.numbers,
        "texts.words.values": kept.words.values,
        "texts.labels.starts": kept.starts,
        "texts.labels.numbers": kept.numbers,
    }


def open_texts(folder: Path, arrays: Mapping[str, np.ndarray], num_ids: int) -> KeptTexts | None:
    """Open the texts of a packed folder; None if it has none."""
    if "texts.starts" not in arrays:
        return None
    return KeptTexts(
        texts=Strings(folder / FILE, named_array("texts.starts", arrays)),
        words=Pairs(
            starts=named_array("texts.words.starts", arrays),
            numbers=named_array("texts.words.numbers", arrays),
            values=named_array("texts.words.values", arrays),
        ),
        starts=named_array("texts.labels.starts", arrays),
        numbers=named_array("texts.labels.numbers", arrays),
        num_ids=num_ids,
    )


def _texts_of_labels(
    labels: csr_array, same: Int[np.ndarray, "texts"]
) -> tuple[Int[np.ndarray, "bounds"], Int[np.ndarray, "pairs"]]:
    """Return each label's texts in order, at most _MOST; `same` is the first text with equal words."""
    rows, own = labels.nonzero()
    pairs = np.unique(own.astype(np.int64) * len(same) + same[rows])  # one number for each pair, rising by label
    label, text = pairs // len(same), pairs % len(same)
    counts = np.bincount(label, minlength=labels.shape[1])
    drawn = np.lexsort((np.random.default_rng(0).random(len(pairs)), label))
    place = np.arange(len(pairs)) - np.repeat(counts.cumsum() - counts, counts)
    starts = np.concatenate([[0], np.minimum(counts, _MOST).cumsum()])
    return starts, text[np.sort(drawn[place < _MOST])]


@compiled
def _nearest(words, listed, query, best, cosines):  # type: ignore[no-untyped-def]
    """Write the listed texts of largest cosine, best first; return how many share a word."""
    totals, touched, count = np.empty(len(listed), np.float32), np.empty(len(listed), np.int32), 0
    for place in range(len(listed)):
        total = np.float32(0)
        for i in range(words.starts[listed[place]], words.starts[listed[place] + 1]):
            total += words.values[i] * query[words.numbers[i]]
        totals[place] = total
        if total > 0:
            touched[count] = place
            count += 1
    found = take_best(totals, touched, count, best, cosines)
    for i in range(found):
        best[i] = listed[best[i]]
    return found
