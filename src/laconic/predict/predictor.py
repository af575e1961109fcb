"""Predicts label names and scores from a model folder, with torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from scipy.sparse import csr_array
from torch import Tensor

from laconic.config import Settings
from laconic.data.catalogue import Propensity
from laconic.data.corpus import Corpus
from laconic.data.evaluation_texts import EvaluationTexts, TrainedOn
from laconic.data.tokenizer import Tokenizer
from laconic.errors import ConfigError, ModelError
from laconic.evaluation.calibration import Calibration
from laconic.evaluation.dataset_view import DatasetView
from laconic.evaluation.evaluate import Evaluation, evaluate, kept_figures, places_needed, rank_all
from laconic.methods.restore import restore_ranker, with_settings
from laconic.models.rankers import Ranker
from laconic.packed.engine.texts import Ranked
from laconic.packed.folder import PackedModel
from laconic.predict.explain import Explained
from laconic.predict.gpu import optimise_ranker
from laconic.predict.label_filter import Find, make_finder, permitted_labels, rank_among
from laconic.predict.prediction import Answer, Prediction, check_question, known_words, named
from laconic.storage.model_folder import SavedModel, read_model
from laconic.training.run import device_named
from laconic.types import Inputs, Ranking, Tokens


class Predictor:
    """A finished model, ready to predict."""

    def __init__(self, model: SavedModel, device: str = "auto") -> None:
        self.facts, self.labels = model.facts, model.labels
        where = device_named(device)
        self.ranker = restore_ranker(model, where)
        if self.ranker.num_labels != len(model.labels):
            raise ModelError(f"the model ranks {self.ranker.num_labels} labels, but names {len(model.labels)}")
        if model.vocabulary is not None and self.ranker.num_ids not in (0, model.vocabulary.num_ids):
            raise ModelError(f"the model knows {self.ranker.num_ids} token ids, but has {model.vocabulary.num_ids}")
        self._quick = optimise_ranker(self.ranker) if where.type == "cuda" else self.ranker
        self.view = DatasetView.of(model)
        self._tokenizer = self.view.tokenizer
        self._label_texts = dict(zip(model.labels.names, model.labels.texts or (), strict=False))
        self._calibration = Calibration.of_facts(model.facts)

    @staticmethod
    def open(
        folder: Path | str, *, device: str = "auto", verify: bool = False, settings: Settings | None = None
    ) -> Predictor:
        """Open a model folder; `settings` override how it predicts, not what it has learnt."""
        model = read_model(Path(folder), verify=verify)
        return Predictor(model if not settings else with_settings(model, settings), device)

    def predict(
        self,
        texts: Sequence[str],
        k: int = 5,
        *,
        allow: Iterable[str] | None = None,
        block: Iterable[str] | None = None,
    ) -> list[list[Prediction]]:
        """Return the best k labels of each text, best first: those in `allow` (None: all) without those in `block`."""
        return [answer.predictions for answer in self.answer(texts, k, allow=allow, block=block)]

    def answer(
        self,
        texts: Sequence[str],
        k: int = 5,
        *,
        allow: Iterable[str] | None = None,
        block: Iterable[str] | None = None,
    ) -> list[Answer]:
        """Return the predictions of each text with the number of words that the model knows."""
        tokenizer = self._reads_texts(k)
        rows = tokenizer.rows(texts)
        found = self._predicted(rows, k, allow, block)
        counts = known_words(rows.indices, rows.indptr, tokenizer.vocabulary)
        return [Answer(*one) for one in zip(found, counts, strict=True)]

    def known_words(self, texts: Sequence[str]) -> list[int]:
        """Count the words of each text that the model knows."""
        tokenizer = self._reads_texts()
        rows = tokenizer.rows(texts)
        return known_words(rows.indices, rows.indptr, tokenizer.vocabulary)

    def _reads_texts(self, k: int = 1) -> Tokenizer:
        check_question(k, reads_texts=self._tokenizer is not None)
        assert self._tokenizer is not None
        return self._tokenizer

    def _predicted(
        self, rows: csr_array, k: int, allow: Iterable[str] | None, block: Iterable[str] | None
    ) -> list[list[Prediction]]:
        if allow is None and block is None:
            return self._named(rank_all(self._quick, rows, min(k, len(self.labels))))
        permitted = permitted_labels(allow, block, self._find, len(self.labels))
        count = int(permitted.sum())
        if not count:
            return [[] for _ in range(rows.shape[0])]
        return self._named(rank_all(RankerAmong(self._quick, permitted), rows, min(k, count)))

    def text_of(self, label: str) -> str:
        """Return a label's own text; empty if it has none."""
        return self._label_texts.get(label, "")

    def evaluate(
        self,
        corpus: Corpus,
        split_name: str,
        on_batch: Callable[[int], None] = lambda done: None,
        *,
        shuffle: int | None = None,
    ) -> Evaluation:
        """Evaluate all metrics on a split of the data, which may number its labels differently.

        `shuffle` is a seed for shuffling the words of each text.
        """
        rows, truth = self.view.rows_and_truth(corpus, split_name, shuffle=shuffle)
        ranking = rank_all(self._quick, rows, places_needed(truth), on_batch)
        seen = self.trained_on.overlap(corpus.split(split_name))
        return evaluate(ranking, truth, calibration=self._calibration, seen=seen)

    def explained(self, text: str, predictions: Sequence[Prediction]) -> list[Explained]:
        """Refuse: words are left out one by one, for which only packed models are fast enough."""
        raise ConfigError("--explain is for a packed model, which answers on a CPU; `laconic pack` packs one")

    @property
    def packed(self) -> PackedModel | None:
        """Return the packed model that it runs; None if it runs the model itself."""
        return None

    @property
    def trained_on(self) -> TrainedOn:
        """Return what is recorded about the training texts."""
        return self.view.trained_on

    def constants(self, corpus: Corpus) -> Propensity | None:
        """Return the propensity constants for evaluating the model on this data."""
        return self.view.constants(corpus)

    @cached_property
    def _find(self) -> Find:
        return make_finder(self.labels.names)

    def _named(self, ranking: Ranking) -> list[list[Prediction]]:
        scores = ranking.scores.numpy()
        if self._calibration is not None:
            scores = self._calibration.apply(scores)
        return named(ranking.labels.numpy(), scores, self.labels.names)


class RankerAmong(Ranker):
    """Ranks the permitted labels only; k is at most their number."""

    def __init__(self, ranker: Ranker, permitted: Bool[np.ndarray, "labels"]) -> None:
        super().__init__()
        self.ranker, self.permitted, self.num_labels = ranker, permitted, ranker.num_labels

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        size = len(inputs.ids if isinstance(inputs, Tokens) else inputs)
        ranked = rank_among(_Numbered(self.ranker, inputs), size, self.permitted, k)
        return Ranking(*(torch.from_numpy(part).to(inputs[0].device) for part in ranked))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        return self.ranker.score(inputs, labels)


class _Numbered:
    """Inputs of a ranker, selected by row number."""

    def __init__(self, ranker: Ranker, inputs: Inputs) -> None:
        self.ranker, self.inputs, self.device = ranker, inputs, inputs[0].device

    def rank(self, texts: Int[np.ndarray, "n"], k: int) -> Ranked:
        return Ranked(*(_plain(part) for part in self.ranker.rank(self._chosen(texts), k)))

    def score(self, texts: Int[np.ndarray, "n"], labels: Int[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        return _plain(self.ranker.score(self._chosen(texts), torch.from_numpy(labels).to(self.device)))

    def _chosen(self, texts: Int[np.ndarray, "n"]) -> Inputs:
        rows = torch.from_numpy(texts).to(self.device)
        return Tokens(*(part[rows] for part in self.inputs)) if isinstance(self.inputs, Tokens) else self.inputs[rows]


def _plain(tensor: Shaped[Tensor, "n m"]) -> Shaped[np.ndarray, "n m"]:
    return tensor.detach().cpu().numpy()


def scored(model: SavedModel, texts: EvaluationTexts, device: str) -> tuple[SavedModel, Evaluation]:
    """Evaluate a model on texts; return it with its metrics stored, and the metrics."""
    evaluation = Predictor(model, device).evaluate(texts.corpus, texts.split)
    return replace(model, facts={**model.facts, "metrics": kept_figures(evaluation, texts.name)}), evaluation
