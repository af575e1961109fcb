"""Predicts label names and scores from a packed model, without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from jaxtyping import Float, Int

from laconic.data.corpus import Corpus
from laconic.data.dataset import Rows
from laconic.data.evaluation_texts import TrainedOn
from laconic.errors import ConfigError
from laconic.evaluation.calibration import Calibration
from laconic.packed.engine.texts import Inputs, Ranked, Some, Texts, inputs_of, size_of, some
from laconic.packed.folder import PackedModel, Ranks, open_packed
from laconic.packed.strings import LabelNames
from laconic.packed.tokenizer import Reader
from laconic.predict.explain import Explained, near_texts, word_contributions
from laconic.predict.label_filter import Find, joined, make_finder, permitted_labels, rank_among
from laconic.predict.prediction import Answer, Prediction, check_question, known_words, named
from laconic.types import NO_LABEL

if TYPE_CHECKING:
    from laconic.evaluation.evaluate import Evaluation

A = TypeVar("A")
_AT_ONCE = 256  # texts that a thread answers together: their vectors stay in its cache
_FEW = 16  # texts that are not worth a second thread


class PackedPredictor:
    """A packed model, ready to predict; safe to call from several threads."""

    def __init__(self, model: PackedModel, threads: int = 1) -> None:
        if threads < 1:
            raise ConfigError(f"threads must be 1 or more, but is {threads}")
        self.facts, self.labels, self.version, self.threads = model.facts, model.labels, model.version, threads
        self.ranker = model.ranker
        self.model, self._calibration = model, Calibration.of_facts(model.facts)
        self._reader = None if model.vocabulary is None else Reader(model.splitter, model.vocabulary)
        self._label_texts = model.label_texts

    @staticmethod
    def open(folder: Path | str, *, threads: int = 1, verify: bool = False) -> PackedPredictor:
        """Open a packed folder; large batches are divided among `threads`."""
        return PackedPredictor(open_packed(Path(folder), verify=verify), threads)

    @property
    def calibrated(self) -> bool:
        """Return whether scores are probabilities."""
        return self._calibration is not None

    @property
    def packed(self) -> PackedModel | None:
        """Return the packed model that it runs; None if it runs the model itself."""
        return self.model

    @property
    def trained_on(self) -> TrainedOn:
        """Return what is recorded about the training texts."""
        return TrainedOn.of(self.facts, self.model.sketch)

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
        reader, rank = self._reads_texts(k), self._rank_among(k, allow, block)

        def part(first: int, last: int) -> list[Answer]:
            read = reader.read(texts[first:last])
            return [Answer(*one) for one in zip(self._named(rank(read)), self._known(read), strict=True)]

        return list(chain.from_iterable(self._in_parts(len(texts), part)))

    def known_words(self, texts: Sequence[str]) -> list[int]:
        """Count the words of each text that the model knows."""
        return self._known(self._reads_texts().read(texts))

    def _known(self, texts: Texts) -> list[int]:
        assert self.model.vocabulary is not None
        return known_words(texts.ids, texts.starts, self.model.vocabulary)

    def _reads_texts(self, k: int = 1) -> Reader:
        check_question(k, reads_texts=self._reader is not None)
        assert self._reader is not None
        return self._reader

    def evaluate(
        self,
        corpus: Corpus,
        split_name: str,
        on_batch: Callable[[int], None] = lambda done: None,
        *,
        shuffle: int | None = None,
    ) -> Evaluation:
        """Evaluate all metrics on a split of the data."""
        import torch  # which answers do without

        from laconic.evaluation.dataset_view import DatasetView
        from laconic.evaluation.evaluate import evaluate, places_needed
        from laconic.types import Ranking

        rows, truth = DatasetView.of(self.model).rows_and_truth(corpus, split_name, shuffle=shuffle)
        ranked = self.rank_rows(rows, places_needed(truth), on_batch)
        ranking, seen = Ranking(*map(torch.from_numpy, ranked)), self.trained_on.overlap(corpus.split(split_name))
        return evaluate(ranking, truth, calibration=self._calibration, seen=seen)

    def rank_rows(self, rows: Rows, k: int, on_batch: Callable[[int], None] = lambda done: None) -> Ranked:
        """Return the best k labels of tokenised rows."""
        from laconic.evaluation.dataset_view import check_rows

        check_rows(rows, self.facts, reads_texts=self._reader is not None)
        inputs = inputs_of(rows)

        def rank(first: int, last: int) -> Ranked:
            ranked = self.ranker.rank(some(inputs, first, last), k)
            on_batch(last - first)
            return ranked

        return joined(self._in_parts(rows.shape[0], rank), k)

    def explained(self, text: str, predictions: Sequence[Prediction]) -> list[Explained]:
        """Explain predictions by the text's words and by the nearest training texts that were kept."""
        reader = self._reads_texts()
        labels = self._find([prediction.label for prediction in predictions])
        words = word_contributions(reader, self._probabilities, text, labels) if predictions else []
        texts = near_texts(reader, self.model.kept_texts, text, labels)
        return [Explained(*one, own, near) for one, own, near in zip(predictions, words, texts, strict=True)]

    def _probabilities(self, texts: Texts, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        scores = self.ranker.score(texts, labels)
        return scores if self._calibration is None else self._calibration.apply(scores)

    def text_of(self, label: str) -> str:
        """Return a label's own text; empty if it has none."""
        return self.texts_of([label])[0]

    def texts_of(self, labels: Sequence[str]) -> list[str]:
        """Return the own texts of several labels in one lookup."""
        own = self._label_texts
        if own is None:
            return [""] * len(labels)
        return ["" if number == NO_LABEL else own[number] for number in self._find(labels).tolist()]

    def _rank_among(
        self, k: int, allow: Iterable[str] | None, block: Iterable[str] | None
    ) -> Callable[[Inputs], Ranked]:
        """Return a function that ranks inputs among the permitted labels; k is at most their number."""
        if allow is None and block is None:
            k = min(k, len(self.labels))
            return lambda inputs: self.ranker.rank(inputs, k)
        permitted = permitted_labels(allow, block, self._find, len(self.labels))
        k = min(k, int(np.count_nonzero(permitted)))
        return lambda inputs: rank_among(_Numbered(self.ranker, inputs), size_of(inputs), permitted, k)

    def _named(self, ranked: Ranked) -> list[list[Prediction]]:
        scores = ranked.scores if self._calibration is None else self._calibration.apply(ranked.scores)
        return named(ranked.labels, scores, self.labels)

    @cached_property
    def _find(self) -> Find:
        return self.labels.numbers_of if isinstance(self.labels, LabelNames) else make_finder(self.labels)

    def _in_parts(self, count: int, work: Callable[[int, int], A]) -> list[A]:
        """Return the results of work(first, last) on consecutive parts of 0..count."""
        threads = self.threads if count > _FEW else 1
        size = max(1, min(_AT_ONCE, -(-count // threads)))
        if count == size:
            return [work(0, count)]
        firsts = range(0, count, size)
        lasts = [min(first + size, count) for first in firsts]
        if threads == 1:
            return list(map(work, firsts, lasts))
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, firsts, lasts))


class _Numbered:
    """Inputs of a ranker, selected by row number."""

    def __init__(self, ranker: Ranks, inputs: Inputs) -> None:
        self.ranker, self.inputs = ranker, inputs

    def rank(self, texts: Int[np.ndarray, "n"], k: int) -> Ranked:
        return self.ranker.rank(_chosen(self.inputs, texts), k)

    def score(self, texts: Int[np.ndarray, "n"], labels: Int[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        return self.ranker.score(_chosen(self.inputs, texts), labels)


def _chosen(inputs: Inputs, which: Int[np.ndarray, "n"]) -> Some:
    """Select texts by row number, in that order."""
    if not isinstance(inputs, Texts):
        features: Some = inputs[which]
        return features
    lengths = np.diff(inputs.starts)[which]
    starts = np.concatenate([[0], lengths.cumsum()])
    places = np.arange(starts[-1]) + np.repeat(inputs.starts[:-1][which] - starts[:-1], lengths)
    return Texts(inputs.ids[places], inputs.weights[places], starts)
