"""Predicts label names and scores from a packed model, without torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

from laconic.data.dataset import Rows
from laconic.errors import ConfigError
from laconic.evaluation.row_check import check_rows
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.texts import Inputs, Ranked, Some, Texts, inputs_of, some
from laconic.packed.folder import PackedModel, open_packed
from laconic.packed.tokenizer import Reader
from laconic.predict.explain import Explained, near_texts, word_contributions
from laconic.predict.interface import TextPredictor
from laconic.predict.label_filter import Rankable, joined, rank_among
from laconic.predict.prediction import Prediction, check_question, known_words
from laconic.types import NO_LABEL

if TYPE_CHECKING:
    from laconic.evaluation.dataset_view import DatasetView

A = TypeVar("A")
_AT_ONCE = 256  # texts that a thread answers together: their vectors stay in its cache
_FEW = 16  # texts that are not worth a second thread


class PackedPredictor(TextPredictor):
    """A packed model, ready to predict; safe to call from several threads."""

    def __init__(self, model: PackedModel, threads: int = 1) -> None:
        if threads < 1:
            raise ConfigError(f"threads must be 1 or more, but is {threads}")
        super().__init__(model)
        self.labels, self.version, self.threads, self.ranker = model.labels, model.version, threads, model.ranker
        self.packed = self.model = model
        self._reader = None if model.vocabulary is None else Reader(model.splitter, model.vocabulary)

    @staticmethod
    def open(folder: Path | str, *, threads: int = 1, verify: bool = True) -> PackedPredictor:
        """Open a packed folder; large batches are divided among `threads`. `verify` checks the files' content."""
        return PackedPredictor(open_packed(Path(folder), verify=verify), threads)

    @property
    def calibrated(self) -> bool:
        """Return whether scores are probabilities."""
        return self.calibration is not None

    @cached_property
    def view(self) -> DatasetView:  # type: ignore[override] # it is made when it is first asked for
        from laconic.evaluation.dataset_view import DatasetView  # with torch, which answers do without

        return DatasetView.of(self.model)

    def _rank_texts(
        self, texts: Sequence[str], k: int, permitted: Bool[np.ndarray, "labels"] | None
    ) -> tuple[Ranked, Int[np.ndarray, "texts"]]:
        assert self._reader is not None
        reader = self._reader

        def part(first: int, last: int) -> tuple[Ranked, Int[np.ndarray, "texts"]]:
            read = reader.read(texts[first:last])
            if permitted is None:
                return self.ranker.rank(read, k), self._known(read)
            return rank_among(_numbered(self.ranker, read), read.size, permitted, k), self._known(read)

        parts = self._in_parts(len(texts), part)
        known = [counts for _, counts in parts] or [np.zeros(0, dtype=np.int64)]
        return joined([ranked for ranked, _ in parts], k), np.concatenate(known)

    def _known_words(self, texts: Sequence[str]) -> Int[np.ndarray, "texts"]:
        assert self._reader is not None
        return self._known(self._reader.read(texts))

    def _known(self, texts: Texts) -> Int[np.ndarray, "texts"]:
        assert self.model.vocabulary is not None
        return known_words(texts.ids, texts.starts, self.model.vocabulary)

    def rank_rows(self, rows: Rows, k: int, on_batch: Callable[[int], None] = lambda done: None) -> Ranked:
        """Return the best k labels of tokenised rows."""
        check_rows(rows, self.facts, reads_texts=self.reads_texts)
        inputs = inputs_of(rows)

        def rank(first: int, last: int) -> Ranked:
            ranked = self.ranker.rank(some(inputs, first, last), k)
            on_batch(last - first)
            return ranked

        return joined(self._in_parts(rows.shape[0], rank), k)

    def count_words(self, text: str) -> int:
        """Return the number of words that a text is split into, known to the model or not."""
        assert self._reader is not None
        return len(self._reader.words(text))

    def explained(self, text: str, predictions: Sequence[Prediction]) -> list[Explained]:
        """Explain predictions by the text's words and by the nearest training texts that were kept."""
        check_question(1, reads_texts=self.reads_texts)
        assert self._reader is not None
        reader = self._reader
        labels = self.find([prediction.label for prediction in predictions])
        words = word_contributions(reader, self._probabilities, text, labels) if predictions else []
        texts = near_texts(reader, self.model.kept_texts, text, labels)
        return [Explained(*one, own, near) for one, own, near in zip(predictions, words, texts, strict=True)]

    def _probabilities(self, texts: Texts, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        return self._calibrated(self.ranker.score(texts, labels))

    def text_of(self, label: str) -> str:
        """Return a label's own text; empty if it has none."""
        return self.texts_of([label])[0]

    def texts_of(self, labels: Sequence[str]) -> list[str]:
        """Return the own texts of several labels in one lookup."""
        own = self.model.label_texts
        if own is None:
            return [""] * len(labels)
        return ["" if number == NO_LABEL else own[number] for number in self.find(labels).tolist()]

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


def _numbered(ranker: PackedRanker, inputs: Inputs) -> Rankable:
    return Rankable(
        lambda texts, k: ranker.rank(_chosen(inputs, texts), k),
        lambda texts, labels: ranker.score(_chosen(inputs, texts), labels),
    )


def _chosen(inputs: Inputs, which: Int[np.ndarray, "n"]) -> Some:
    """Select texts by row number, in that order."""
    if not isinstance(inputs, Texts):
        features: Some = inputs[which]
        return features
    lengths = np.diff(inputs.starts)[which]
    starts = np.concatenate([[0], lengths.cumsum()])
    places = np.arange(starts[-1]) + np.repeat(inputs.starts[:-1][which] - starts[:-1], lengths)
    return Texts(inputs.ids[places], inputs.weights[places], starts)
