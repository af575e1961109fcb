"""Texts in, label names and scores out, from a model folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from scipy.sparse import csr_array

from laconic.checkpoint import SavedModel, read_model
from laconic.data.corpus import Corpus
from laconic.data.dataset import Rows
from laconic.data.prepare import input_rows
from laconic.data.tokenizer import Tokenizer
from laconic.errors import ConfigError, DataError, ModelError
from laconic.evaluate import Evaluation, evaluate, places_needed, rank_all, truth_in_numbers_of
from laconic.methods import restore_config, restore_ranker
from laconic.metrics import Propensity, TrainingCounts
from laconic.run import device_named
from laconic.types import NO_LABEL, Ranking


class Prediction(NamedTuple):
    label: str
    score: float


class Predictor:
    """A finished model, ready to answer."""

    def __init__(self, model: SavedModel, device: str = "auto") -> None:
        self.facts, self.labels = model.facts, model.labels
        self._ranker = restore_ranker(model, device_named(device))
        if self._ranker.num_labels != len(model.labels):
            raise ModelError(f"the model ranks {self._ranker.num_labels} labels, but names {len(model.labels)}")
        config = restore_config(model)
        self._tokenizer = None if model.vocabulary is None else Tokenizer(config.text, model.vocabulary)
        self._label_texts = dict(zip(model.labels.names, model.labels.texts or (), strict=False))
        self._training = _training_counts(model)

    @staticmethod
    def open(folder: Path | str, *, device: str = "auto", verify: bool = False) -> Predictor:
        return Predictor(read_model(Path(folder), verify=verify), device)

    def predict(self, texts: Sequence[str], k: int = 5) -> list[list[Prediction]]:
        """The best k labels of each text, best first."""
        if self._tokenizer is None:
            raise DataError("this model was trained on features, not on texts; `laconic evaluate` reads feature files")
        if k < 1:
            raise ConfigError(f"k must be 1 or more, but is {k}")
        return self._named(rank_all(self._ranker, self._tokenizer.rows(texts), min(k, len(self.labels))))

    def text_of(self, label: str) -> str:
        """What a label says of itself, where it says more than its name."""
        return self._label_texts.get(label, "")

    def evaluate(
        self, corpus: Corpus, split_name: str, on_batch: Callable[[int], None] = lambda done: None
    ) -> Evaluation:
        """Every metric on a split of the data, which may number its labels in its own way."""
        split = corpus.split(split_name)
        names = corpus.labels.names
        truth = truth_in_numbers_of(self.labels.names, names, split.labels, split.leave_out, self._training)
        rows = input_rows(split, self._tokenizer)
        self._check_inputs(rows)
        return evaluate(rank_all(self._ranker, rows, places_needed(truth), on_batch), truth)

    def _check_inputs(self, rows: Rows) -> None:
        wanted = self.facts["inputs"], self.facts["sizes"]["inputs"]
        kind = "text" if self._tokenizer else "sparse" if isinstance(rows, csr_array) else "dense"
        if (kind, rows.shape[1]) != wanted:
            raise DataError(
                f"the model reads {wanted[1]} {wanted[0]} inputs, but this data has {rows.shape[1]} {kind} ones"
            )

    def _named(self, ranking: Ranking) -> list[list[Prediction]]:
        names = self.labels.names
        return [
            [Prediction(names[label], score) for label, score in zip(*row, strict=True) if label != NO_LABEL]
            for row in zip(ranking.labels.tolist(), ranking.scores.tolist(), strict=True)
        ]


def _training_counts(model: SavedModel) -> TrainingCounts:
    match model.facts:
        case {
            "inputs": str(),
            "sizes": {"texts": int(texts), "inputs": int()},
            "propensity": {"a": float(a), "b": float(b)},
        }:
            return TrainingCounts(per_label=model.label_counts, texts=texts, propensity=Propensity(a=a, b=b))
    raise ModelError(
        "model.json lacks the number of training texts or the propensity's constants; copy the model again"
    )
