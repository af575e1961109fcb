"""Predicts label names and scores from a model folder, with torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from scipy.sparse import csr_array
from torch import Tensor

from laconic.config import Settings
from laconic.data.catalogue import Propensity
from laconic.data.corpus import Corpus
from laconic.data.dataset import Rows
from laconic.data.evaluation_texts import EvaluationTexts
from laconic.errors import ConfigError, ModelError
from laconic.evaluation.dataset_view import DatasetView
from laconic.evaluation.evaluate import Evaluation, kept_figures, rank_all
from laconic.methods.restore import restore_ranker, with_settings
from laconic.models.rankers import Ranker
from laconic.packed.engine.texts import Ranked
from laconic.predict.explain import Explained
from laconic.predict.gpu import optimise_ranker
from laconic.predict.interface import TextPredictor
from laconic.predict.label_filter import Rankable, rank_among
from laconic.predict.prediction import Prediction, known_words
from laconic.storage.model_folder import SavedModel, read_model
from laconic.training.run import device_named
from laconic.types import Inputs, Ranking, Tokens

# A forked process has none of the threads of its parent's pools, for which torch's operations would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


class Predictor(TextPredictor):
    """A finished model, ready to predict."""

    def __init__(self, model: SavedModel, device: str = "auto") -> None:
        super().__init__(model)
        self.labels, self.view = model.labels, DatasetView.of(model)
        where = device_named(device)
        self.ranker = restore_ranker(model, where)
        if self.ranker.num_labels != len(model.labels):
            raise ModelError(f"the model ranks {self.ranker.num_labels} labels, but names {len(model.labels)}")
        if model.vocabulary is not None and self.ranker.num_ids not in (0, model.vocabulary.num_ids):
            raise ModelError(f"the model knows {self.ranker.num_ids} token ids, but has {model.vocabulary.num_ids}")
        self._quick = optimise_ranker(self.ranker) if where.type == "cuda" else self.ranker
        self._label_texts = dict(zip(model.labels.names, model.labels.texts or (), strict=False))

    @staticmethod
    def open(
        folder: Path | str, *, device: str = "auto", verify: bool = True, settings: Settings | None = None
    ) -> Predictor:
        """Open a model folder; `settings` override how it predicts, `verify` checks the content of its files."""
        model = read_model(Path(folder), verify=verify)
        return Predictor(model if not settings else with_settings(model, settings), device)

    def _rank_texts(
        self, texts: Sequence[str], k: int, permitted: Bool[np.ndarray, "labels"] | None
    ) -> tuple[Ranked, Int[np.ndarray, "texts"]]:
        rows, counts = self._read(texts)
        ranker = self._quick if permitted is None else RankerAmong(self._quick, permitted)
        return Ranked(*map(_plain, rank_all(ranker, rows, k))), counts

    def _known_words(self, texts: Sequence[str]) -> Int[np.ndarray, "texts"]:
        return self._read(texts)[1]

    def _read(self, texts: Sequence[str]) -> tuple[csr_array, Int[np.ndarray, "texts"]]:
        """Return the rows of texts, and how many words of each the model knows."""
        assert self.view.tokenizer is not None
        rows = self.view.tokenizer.rows(texts)
        return rows, known_words(rows.indices, rows.indptr, self.view.tokenizer.vocabulary)

    def rank_rows(self, rows: Rows, k: int, on_batch: Callable[[int], None] = lambda done: None) -> Ranked:
        """Return the best k labels of tokenised rows."""
        return Ranked(*map(_plain, rank_all(self._quick, rows, k, on_batch)))

    def text_of(self, label: str) -> str:
        return self._label_texts.get(label, "")

    def explained(self, text: str, predictions: Sequence[Prediction]) -> list[Explained]:
        """Refuse: words are left out one by one, for which only packed models are fast enough."""
        raise ConfigError("--explain is for a packed model, which answers on a CPU; `laconic pack` packs one")

    def constants(self, corpus: Corpus) -> Propensity | None:
        """Return the propensity constants for evaluating the model on this data."""
        return self.view.constants(corpus)


class RankerAmong(Ranker):
    """Ranks the permitted labels only; k is at most their number."""

    def __init__(self, ranker: Ranker, permitted: Bool[np.ndarray, "labels"]) -> None:
        super().__init__()
        self.ranker, self.permitted, self.num_labels = ranker, permitted, ranker.num_labels

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        size = len(inputs.ids if isinstance(inputs, Tokens) else inputs)
        ranked = rank_among(_numbered(self.ranker, inputs), size, self.permitted, k)
        return Ranking(*(torch.from_numpy(part).to(inputs[0].device) for part in ranked))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        return self.ranker.score(inputs, labels)


def _numbered(ranker: Ranker, inputs: Inputs) -> Rankable:
    device = inputs[0].device

    def chosen(texts: Int[np.ndarray, "n"]) -> Inputs:
        rows = torch.from_numpy(texts).to(device)
        return Tokens(*(part[rows] for part in inputs)) if isinstance(inputs, Tokens) else inputs[rows]

    return Rankable(
        lambda texts, k: Ranked(*map(_plain, ranker.rank(chosen(texts), k))),
        lambda texts, labels: _plain(ranker.score(chosen(texts), torch.from_numpy(labels).to(device))),
    )


def _plain(tensor: Shaped[Tensor, "n m"]) -> Shaped[np.ndarray, "n m"]:
    return tensor.detach().cpu().numpy()


def scored(
    model: SavedModel, texts: EvaluationTexts, device: str, on_batch: Callable[[int], None] = lambda done: None
) -> tuple[SavedModel, Evaluation]:
    """Evaluate a model on texts; return it with its metrics stored, and the metrics."""
    evaluation = Predictor(model, device).evaluate(texts.corpus, texts.split, on_batch)
    return replace(model, facts={**model.facts, "metrics": kept_figures(evaluation, texts.name)}), evaluation
