"""Describe a dataset: the figures of the InceptionXML paper's Table 1, and what may surprise a model."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Shaped

from laconic.data.attributes import AttributeSummary
from laconic.data.corpus import Corpus, Labels, Split, TableFacts
from laconic.data.dataset import label_counts
from laconic.data.hashes import folded
from laconic.data.text import Splitter, word_table

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
TAIL = 5  # a label with at most so many training texts is in the tail
SAMPLES = 5  # rows that are shown as they were read
FREQUENT, LONGEST, ALIKE = 10, 5, 3  # labels that are named


@dataclass(frozen=True, kw_only=True)
class Words:
    """Lengths of a split's texts, in words between spaces and in the tokens that a model reads."""

    vocabulary: int  # different words after cleaning
    mean: float
    at_most_4: float
    at_most_8: float
    longest: int
    usual_tokens: int  # that 99.5 % of texts do not exceed
    cut: float  # fraction of texts with more tokens than the sequence length


@dataclass(frozen=True, kw_only=True)
class SplitFacts:
    """Figures of one split."""

    texts: int
    pairs: int  # of a text and a label
    labels_per_text: float
    without_labels: int
    empty_texts: int
    repeated_texts: int  # texts that are the same as an earlier one, but for case and spaces; empty ones aside
    also_in_training: int  # texts that stand in the training split too
    left_out_pairs: int
    weighted_labels: bool
    weighted_texts: bool
    words: Words | None  # None: there are no texts


@dataclass(frozen=True)
class Sample:
    """A row as it was read."""

    text: str | None  # None: the source has no texts
    labels: list[str]


@dataclass(frozen=True)
class LabelCount:
    """A label with the number of its texts."""

    label: str
    texts: int  # of training


@dataclass(frozen=True, kw_only=True)
class LabelFacts:
    """Figures of the labels."""

    labels: int
    with_text: int
    attributes: dict[str, AttributeSummary]  # by name
    texts_per_label: float  # training texts alone
    texts_per_label_all: float  # all splits together, as the paper's table counts
    frequency_quantiles: dict[str, int]  # training texts of a label
    without_training_text: int
    tail: int  # with at most TAIL training texts, none included
    unseen_in_training: int  # different labels of other splits that no training text has
    unseen_occurrences: int  # and how often they occur there
    frequent: list[LabelCount]  # most frequent first
    longest: list[LabelCount]  # by name, longest first: what was cut wrongly shows here
    alike: int  # labels whose name is that of an earlier one, but for case and spaces
    alike_examples: list[list[str]]  # an earlier name and the later one


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """Figures of a whole dataset."""

    source: str
    features: int | None  # how many; None: the inputs are texts alone
    length: int  # the sequence length that `cut` speaks of
    labels: LabelFacts
    splits: dict[str, SplitFacts]
    notes: list[str]
    table: TableFacts | None  # where the source is CSV, TSV or Parquet
    samples: list[Sample]  # the first rows of the training split


def describe(corpus: Corpus, *, splitter: Splitter | None = None, length: int = 32) -> DataFacts:
    splitter = splitter or Splitter()
    training = next(iter(corpus.splits.values()))
    known = set(_folded(training))
    splits = {
        name: _split_facts(split, splitter, length, set() if split is training else known)
        for name, split in corpus.splits.items()
    }
    features = training.features
    return DataFacts(
        source=corpus.source,
        features=None if features is None else int(features.shape[1]),
        length=length,
        labels=_label_facts(corpus),
        splits=splits,
        notes=list(corpus.notes),
        table=corpus.table,
        samples=_samples(training, corpus.labels),
    )


def text_lengths(split: Split, splitter: Splitter) -> Int[np.ndarray, "texts"]:
    """Return the number of tokens of each text after cleaning."""
    return word_table(split.texts or (), splitter).lengths


def _split_facts(split: Split, splitter: Splitter, length: int, known: set[str]) -> SplitFacts:
    folded = _folded(split)
    per_text = np.diff(split.labels.indptr)
    return SplitFacts(
        texts=len(split),
        pairs=int(split.labels.nnz),
        labels_per_text=_mean(per_text),
        without_labels=int((per_text == 0).sum()),
        empty_texts=sum(1 for text in folded if not text),
        repeated_texts=sum(map(bool, folded)) - len(set(folded) - {""}),
        also_in_training=sum(1 for text in folded if text and text in known),
        left_out_pairs=0 if split.leave_out is None else int(split.leave_out.nnz),
        weighted_labels=bool((split.labels.data != 1).any()),
        weighted_texts=split.weights is not None,
        words=None if split.texts is None else _words(split, splitter, length),
    )


def _words(split: Split, splitter: Splitter, length: int) -> Words:
    assert split.texts is not None
    between_spaces = np.array([len(text.split()) for text in split.texts], dtype=np.int64)
    table = word_table(split.texts, splitter)
    return Words(
        vocabulary=len(table.words),
        mean=_mean(between_spaces),
        at_most_4=_mean(between_spaces <= 4),
        at_most_8=_mean(between_spaces <= 8),
        longest=int(between_spaces.max(initial=0)),
        usual_tokens=int(np.quantile(table.lengths, 0.995, method="inverted_cdf")) if len(split) else 0,
        cut=_mean(table.lengths > length),
    )


def _label_facts(corpus: Corpus) -> LabelFacts:
    training, *others = corpus.splits.values()
    counts = label_counts(training.labels)
    elsewhere = sum((label_counts(split.labels) for split in others), np.zeros_like(counts))
    unseen = (counts == 0) & (elsewhere > 0)
    number = max(len(corpus.labels), 1)
    alike = _alike(corpus.labels.names)
    return LabelFacts(
        labels=len(corpus.labels),
        with_text=sum(1 for text in corpus.labels.texts or () if text.strip()),
        attributes={} if corpus.labels.attributes is None else corpus.labels.attributes.summary(),
        texts_per_label=float(counts.sum() / number),
        texts_per_label_all=float((counts.sum() + elsewhere.sum()) / number),
        frequency_quantiles=_quantiles(counts),
        without_training_text=int((counts == 0).sum()),
        tail=int((counts <= TAIL).sum()),
        unseen_in_training=int(unseen.sum()),
        unseen_occurrences=int(elsewhere[unseen].sum()),
        frequent=_counted_labels(np.argsort(-counts, kind="stable")[:FREQUENT].tolist(), corpus.labels, counts),
        longest=_counted_labels(_longest(corpus.labels.names), corpus.labels, counts),
        alike=len(alike),
        alike_examples=alike[:ALIKE],
    )


def _counted_labels(which: Sequence[int], labels: Labels, counts: Int[np.ndarray, "labels"]) -> list[LabelCount]:
    return [LabelCount(labels.names[label], int(counts[label])) for label in which]


def _longest(names: Sequence[str]) -> list[int]:
    return heapq.nsmallest(LONGEST, range(len(names)), key=lambda label: (-len(names[label]), names[label]))


def _alike(names: Sequence[str]) -> list[list[str]]:
    """Return the names that differ from an earlier one in case and spaces alone, each behind the earlier one."""
    first: dict[str, str] = {}
    pairs = ((first.setdefault(folded(name), name), name) for name in names)
    return [[earlier, name] for earlier, name in pairs if earlier != name]


def _samples(split: Split, labels: Labels) -> list[Sample]:
    return [
        Sample(
            None if split.texts is None else split.texts[row],
            [labels.names[label] for label in split.labels[[row]].indices],
        )
        for row in range(min(SAMPLES, len(split)))
    ]


def _quantiles(counts: Int[np.ndarray, "labels"]) -> dict[str, int]:
    if not len(counts):
        return {}
    values = np.quantile(counts, QUANTILES, method="inverted_cdf")
    return {f"{quantile:.0%}": int(value) for quantile, value in zip(QUANTILES, values, strict=True)}


def _folded(split: Split) -> list[str]:
    return [folded(text) for text in split.texts or ()]


def _mean(values: Shaped[np.ndarray, "n"]) -> float:
    return float(np.mean(values)) if len(values) else 0.0
