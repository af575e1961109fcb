"""Data with known labels as a model sees it: its texts as the model reads them, their labels in the model's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int
from scipy.sparse import csr_array

from laconic.storage.model_folder import SavedModel
from laconic.data.corpus import Corpus
from laconic.data.dataset import Rows
from laconic.data.evaluation_texts import TrainedOn
from laconic.data.prepare import input_rows
from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer, shuffled
from laconic.data.vocabulary import Vocabulary
from laconic.errors import DataError, ModelError
from laconic.evaluation.evaluate import Truth, truth_in_numbers_of
from laconic.methods import restore_config
from laconic.evaluation.metrics import Propensity, TrainingCounts
from laconic.predict.prediction import check_rows
from laconic.packed.folder import PackedModel


@dataclass(frozen=True, kw_only=True, eq=False)
class Judging:
    """What is to be known of a model before its answers can be judged."""

    facts: Mapping[str, Any]
    labels: Sequence[str]
    tokenizer: Tokenizer | None  # None: it reads features
    training: TrainingCounts | None  # None: what rare labels are is not known
    trained_on: TrainedOn

    @staticmethod
    def of_model(model: SavedModel) -> Judging:
        return Judging(
            facts=model.facts,
            labels=model.labels.names,
            tokenizer=_tokenizer(restore_config(model).text, model.vocabulary),
            training=_training(model.facts, model.label_counts),
            trained_on=TrainedOn.of(model.facts, model.sketch),
        )

    @staticmethod
    def of_packed(model: PackedModel) -> Judging:
        return Judging(
            facts=model.facts,
            labels=model.labels,
            tokenizer=_tokenizer(model.splitter, model.vocabulary),
            training=None if model.label_counts is None else _training(model.facts, model.label_counts),
            trained_on=TrainedOn.of(model.facts, model.sketch),
        )

    def judged(self, corpus: Corpus, split_name: str, *, shuffle: int | None = None) -> tuple[Rows, Truth]:
        """A split of the data, which may number its labels in its own way.

        `shuffle` is a seed: words come in another order, to see how much of it a model needs.
        """
        split, training = corpus.split(split_name), self._training(corpus)
        truth = truth_in_numbers_of(self.labels, corpus.labels.names, split.labels, split.leave_out, training)
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


def _tokenizer(splitter: Splitter, vocabulary: Vocabulary | None) -> Tokenizer | None:
    return None if vocabulary is None else Tokenizer(splitter, vocabulary)


def _training(facts: Mapping[str, Any], label_counts: Int[np.ndarray, "labels"]) -> TrainingCounts:
    match facts:
        case {
            "inputs": str(),
            "sizes": {"texts": int(texts), "inputs": int()},
            "propensity": {"a": float(a), "b": float(b)},
        }:
            return TrainingCounts(per_label=label_counts, texts=texts, propensity=Propensity(a=a, b=b))
    raise ModelError("the model lacks the number of training texts or the propensity's constants; copy the model again")
