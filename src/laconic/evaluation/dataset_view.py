"""Labelled data in a model's terms: texts as the model tokenises them, labels in its numbering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int
from scipy.sparse import csr_array

from laconic.data.attributes import LabelAttributes
from laconic.data.corpus import Corpus
from laconic.data.dataset import Rows
from laconic.data.evaluation_texts import TrainedOn
from laconic.data.prepare import input_rows
from laconic.data.sketch import TextSketch
from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer, shuffled
from laconic.data.vocabulary import Vocabulary
from laconic.errors import DataError, ModelError
from laconic.evaluation.evaluate import Truth, truth_in_numbers_of
from laconic.evaluation.metrics import Propensity, TrainingCounts
from laconic.evaluation.row_check import check_rows


@runtime_checkable
class Evaluable(Protocol):
    """The parts of a trained or packed model that evaluation needs."""

    @property
    def facts(self) -> Mapping[str, Any]: ...
    @property
    def label_names(self) -> Sequence[str]: ...
    @property
    def label_attributes(self) -> LabelAttributes | None: ...
    @property
    def label_counts(self) -> Int[np.ndarray, "labels"] | None: ...
    @property
    def splitter(self) -> Splitter: ...
    @property
    def vocabulary(self) -> Vocabulary | None: ...
    @property
    def sketch(self) -> TextSketch | None: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class DatasetView:
    """What evaluation needs to know of a model before it ranks."""

    facts: Mapping[str, Any]
    labels: Sequence[str]
    tokenizer: Tokenizer | None  # None: it reads features
    training: TrainingCounts | None  # None: what rare labels are is not known
    trained_on: TrainedOn

    @staticmethod
    def of(model: Evaluable) -> DatasetView:
        counts = model.label_counts
        return DatasetView(
            facts=model.facts,
            labels=model.label_names,
            tokenizer=None if model.vocabulary is None else Tokenizer(model.splitter, model.vocabulary),
            training=None if counts is None else _training(model.facts, counts),
            trained_on=TrainedOn.of(model.facts, model.sketch),
        )

    def rows_and_truth(self, corpus: Corpus, split_name: str, *, shuffle: int | None = None) -> tuple[Rows, Truth]:
        """Return a split's rows and its truth in the model's numbering.

        `shuffle` is a seed: words are put in random order, to see how much the model depends on it.
        """
        split, training = corpus.split(split_name), self._training(corpus)
        names, broader = corpus.labels.names, corpus.labels.broader
        truth = truth_in_numbers_of(self.labels, names, split.labels, split.leave_out, training, broader)
        rows = input_rows(split, self.tokenizer)
        check_rows(rows, self.facts, reads_texts=self.tokenizer is not None)
        return rows if shuffle is None else self._shuffled(rows, shuffle), truth

    def constants(self, corpus: Corpus) -> Propensity | None:
        """Return the propensity constants for this data: those that the user gave, or else the model's own."""
        training = self._training(corpus)
        return None if training is None else training.propensity

    def _training(self, corpus: Corpus) -> TrainingCounts | None:
        if self.training is None or corpus.propensity is None:
            return self.training
        return replace(self.training, propensity=corpus.propensity)

    def _shuffled(self, rows: Rows, seed: int) -> csr_array:
        if self.tokenizer is None or not isinstance(rows, csr_array):
            raise DataError("the words of features cannot be shuffled: they have no order")
        return shuffled(rows, seed)


def _training(facts: Mapping[str, Any], label_counts: Int[np.ndarray, "labels"]) -> TrainingCounts:
    match facts:
        case {
            "inputs": str(),
            "sizes": {"texts": int(texts), "inputs": int()},
            "propensity": {"a": float(a), "b": float(b)},
        }:
            return TrainingCounts(per_label=label_counts, texts=texts, propensity=Propensity(a=a, b=b))
    raise ModelError("the model lacks the number of training texts or the propensity's constants; copy the model again")
