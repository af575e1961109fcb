"""Data with a known answer: a text holds words that only its labels have, among words that say nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus, Labels, Split
from laconic.data.formats.assemble import LabelRow, Row, corpus_of

WORDS_OF_A_LABEL = 3
COMMON_WORDS = 20
SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ha", "ke", "li", "mo", "nu")


def word(number: int) -> str:
    """The number as a word that no cleaning changes and no list of stop words has: 307 is fobali."""
    return "".join(SYLLABLES[int(digit)] for digit in f"{number:03}")


def words_of(label: int) -> list[str]:
    first = COMMON_WORDS + label * WORDS_OF_A_LABEL
    return [word(number) for number in range(first, first + WORDS_OF_A_LABEL)]


def planted_texts(
    *, num_labels: int = 12, num_texts: int = 240, seed: int = 0, with_label_texts: bool = False
) -> Corpus:
    """Splits train and test. A text has one or two labels and two words of each; low label numbers are frequent."""
    generator = np.random.default_rng(seed)
    return corpus_of(
        {
            "train": _rows(num_labels, num_texts, generator),
            "test": _rows(num_labels, max(num_texts // 4, 1), generator),
        },
        [
            LabelRow("planted", f"L{label}", " ".join(words_of(label)) if with_label_texts else None)
            for label in range(num_labels)
        ],
        source="planted",
    )


def planted_rare_labels(*, num_labels: int = 400, each: int = 16, seed: int = 0) -> Corpus:
    """Splits train and test, in which every label is equally rare: it has `each` training texts of its own."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(num_labels), each)
    return corpus_of(
        {
            "train": _rows_of([[int(one)] for one in generator.permutation(labels)], generator),
            "test": _rows_of([[int(one)] for one in generator.permutation(num_labels)], generator),
        },
        [LabelRow("planted", f"L{label}", None) for label in range(num_labels)],
        source="planted",
    )


def planted_vectors(*, num_labels: int = 8, num_texts: int = 120, dim: int = 16, seed: int = 0) -> Corpus:
    """Plant labels in dense features: a label is a direction, a text the sum of its labels' directions and noise."""
    generator = np.random.default_rng(seed)
    directions = generator.normal(size=(num_labels, dim))

    def split(size: int) -> Split:
        labels = np.zeros((size, num_labels), dtype=np.float32)
        for row in range(size):
            labels[row, _labels_of(row, num_labels, generator)] = 1
        features = labels @ directions + 0.1 * generator.normal(size=(size, dim))
        return Split(labels=csr_array(labels), features=features.astype(np.float32))

    names = [f"L{label}" for label in range(num_labels)]
    splits = {"train": split(num_texts), "test": split(max(num_texts // 4, 1))}
    return Corpus(splits=splits, labels=Labels(names=names), source="planted")


def share_of_right_first_labels(labels: Int[np.ndarray, "batch k"], truth: csr_array) -> float:
    """P@1, counted the plain way."""
    return float(np.mean([truth[row, best] > 0 for row, best in enumerate(labels[:, 0])]))


def bags_in_full(rows: csr_array, num_ids: int) -> Float[np.ndarray, "texts ids"]:
    """Token rows as one plain table, a column per token id."""
    full = np.zeros((rows.shape[0], num_ids))
    for row in range(rows.shape[0]):
        for place in range(rows.indptr[row], rows.indptr[row + 1]):
            full[row, rows.indices[place]] += rows.data[place]
    return full


def _rows(num_labels: int, num_texts: int, generator: np.random.Generator) -> Iterator[Row]:
    yield from _rows_of((_labels_of(row, num_labels, generator) for row in range(num_texts)), generator)


def _rows_of(labels_of_rows: Iterable[list[int]], generator: np.random.Generator) -> Iterator[Row]:
    for row, labels in enumerate(labels_of_rows):
        words = [str(one) for label in labels for one in generator.choice(words_of(label), 2, replace=False)]
        words += [word(int(number)) for number in generator.integers(COMMON_WORDS, size=2)]
        generator.shuffle(words)
        yield Row(f"planted:{row + 1}", " ".join(words), [f"L{label}" for label in labels])


def _labels_of(row: int, num_labels: int, generator: np.random.Generator) -> list[int]:
    """One or two labels; every label is the first one of some row, and the others are drawn by a law of 1 / rank."""
    chances = 1 / np.arange(1, num_labels + 1)
    drawn = generator.choice(num_labels, size=2, p=chances / chances.sum())
    first = row if row < num_labels else int(drawn[0])
    return sorted({first, int(drawn[1])} if generator.random() < 0.5 else {first})
