"""The base class of predictors, whether they run a model folder with torch or a packed model without it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from laconic.data.attributes import Where
from laconic.data.corpus import Corpus
from laconic.data.dataset import Rows
from laconic.data.evaluation_texts import TrainedOn, check_unseen
from laconic.data.fields import spec_in_facts
from laconic.evaluation.calibration import Calibration
from laconic.evaluation.thresholds import Aim, Threshold, find_thresholds
from laconic.packed.engine.texts import Ranked
from laconic.packed.folder import PackedModel
from laconic.packed.strings import LabelNames
from laconic.predict.explain import Explained
from laconic.predict.label_filter import Find, LabelFilter, make_finder
from laconic.predict.prediction import Answer, Prediction, RankedTexts, check_question, named

if TYPE_CHECKING:
    from laconic.evaluation.dataset_view import DatasetView, Evaluable
    from laconic.evaluation.evaluate import Evaluation
    from laconic.evaluation.label_report import LabelReport
    from laconic.types import Ranking


# Rows, labels to rank and a function that hears of rows that are done, to the best labels of the rows.
RankRows: TypeAlias = Callable[[Rows, int, Callable[[int], None]], Ranked]


class TextPredictor(ABC):
    """Answers texts with label names and scores."""

    packed: PackedModel | None = None  # the packed model that it runs; None: it runs the model itself
    view: DatasetView  # what evaluation needs to know of the model

    def __init__(self, model: Evaluable) -> None:
        self.facts, self.names, self.reads_texts = model.facts, model.label_names, model.vocabulary is not None
        self.attributes, self.fields = model.label_attributes, spec_in_facts(model.facts)
        self.trained_on = TrainedOn.of(model.facts, model.sketch)
        self.calibration, self.threshold = Calibration.of_facts(model.facts), Threshold.of_facts(model.facts)

    def predict(
        self,
        texts: Sequence[str],
        k: int = 5,
        *,
        allow: Iterable[str] | None = None,
        block: Iterable[str] | None = None,
        where: Where | None = None,
    ) -> list[list[Prediction]]:
        """Return the best k labels of each text, best first.

        They are those in `allow` (None: all) without those in `block`, which have of every attribute in `where` the
        value, or one of the values, that is given there.
        """
        return [answer.predictions for answer in self.answer(texts, k, allow=allow, block=block, where=where)]

    def answer(
        self,
        texts: Sequence[str],
        k: int = 5,
        *,
        allow: Iterable[str] | None = None,
        block: Iterable[str] | None = None,
        where: Where | None = None,
    ) -> list[Answer]:
        """Return the predictions of each text with the number of words that the model knows."""
        labels, scores, known = self.rank_texts(texts, k, self.permitted(LabelFilter(allow, block, where)))
        return [Answer(*one) for one in zip(named(labels, scores, self.names), known.tolist(), strict=True)]

    def rank_texts(
        self, texts: Sequence[str], k: int, permitted: Bool[np.ndarray, "labels"] | None = None
    ) -> RankedTexts:
        """Return the best k of the permitted labels (None: all) of each text, by their numbers."""
        check_question(k, reads_texts=self.reads_texts)
        among = len(self.names) if permitted is None else int(np.count_nonzero(permitted))
        ranked, known = self._rank_texts(texts, min(k, among), permitted)
        return RankedTexts(ranked.labels, self._calibrated(ranked.scores), known)

    def permitted(self, wanted: LabelFilter) -> Bool[np.ndarray, "labels"] | None:
        """Return which labels fulfil what is asked of them; None: nothing is asked."""
        return wanted.permitted(self.find, self.attributes, len(self.names)) if wanted.given else None

    def known_words(self, texts: Sequence[str]) -> list[int]:
        """Count the words of each text that the model knows."""
        check_question(1, reads_texts=self.reads_texts)
        counts: list[int] = self._known_words(texts).tolist()
        return counts

    def evaluate(
        self,
        corpus: Corpus,
        split_name: str,
        on_batch: Callable[[int], None] = lambda done: None,
        *,
        shuffle: int | None = None,
        rank: RankRows | None = None,
    ) -> Evaluation:
        """Evaluate all metrics on a split of the data, which may number its labels differently.

        `shuffle` is a seed for shuffling the words of each text. `rank` ranks rows in the place of this predictor, such
        as several processes that have the same model.
        """
        from laconic.evaluation.evaluate import evaluate, places_needed  # with torch, which packed models do without
        from laconic.evaluation.label_sets import limits_of

        rows, truth = self.view.rows_and_truth(corpus, split_name, shuffle=shuffle)
        ranking = _ranking((rank or self.rank_rows)(rows, places_needed(truth), on_batch))
        seen = self.trained_on.overlap(corpus.split(split_name))
        limits = limits_of(self.threshold, self.names)
        return evaluate(ranking, truth, calibration=self.calibration, limits=limits, seen=seen)

    def report(
        self, corpus: Corpus, split_name: str, *, threshold: float | None = None, k: int | None = None
    ) -> LabelReport:
        """Report on each label of a split, if those that reach a threshold are kept, or the first k of each text.

        With neither, it is the stored threshold or, of probabilities, 0.5, or else the first 5 labels.
        """
        from laconic.evaluation.evaluate import label_report, places_needed
        from laconic.evaluation.label_report import FIRST
        from laconic.evaluation.label_sets import USUAL, Scored, limits_of
        from laconic.evaluation.metrics import KS
        from laconic.evaluation.thresholds import Found

        limits = limits_of(self.threshold, self.names) or (None if self.calibration is None else USUAL)
        if threshold is not None:
            limits = Found(threshold, {})
        rows, truth = self.view.rows_and_truth(corpus, split_name)
        most = min(max(KS) if k is None else k, len(self.names))
        ranking = _ranking(self.rank_rows(rows, places_needed(truth, (most,))))
        scored = Scored.of(ranking, truth, self.calibration)
        return label_report(scored, truth, None if k is not None else limits, FIRST if k is None else k)

    def choose_threshold(
        self,
        corpus: Corpus,
        split_name: str,
        aim: Aim,
        k: int,
        on_batch: Callable[[int], None] = lambda done: None,
    ) -> Threshold:
        """Choose the threshold that fulfils an aim on a split of texts, among the first k labels of each."""
        from laconic.evaluation.evaluate import places_needed
        from laconic.evaluation.label_sets import Scored

        check_unseen(corpus, split_name, self.trained_on)
        rows, truth = self.view.rows_and_truth(corpus, split_name)
        k = min(k, len(self.names))
        ranking = _ranking(self.rank_rows(rows, places_needed(truth, (k,)), on_batch))
        scored = Scored.of(ranking, truth, self.calibration)
        found = find_thresholds(scored.first(k), aim)
        return scored.threshold(found, aim, k, self.names)

    @abstractmethod
    def explained(self, text: str, predictions: Sequence[Prediction]) -> list[Explained]:
        """Explain predictions by the text's words; only packed models can."""

    @abstractmethod
    def text_of(self, label: str) -> str:
        """Return a label's own text; empty if it has none."""

    @abstractmethod
    def _rank_texts(
        self, texts: Sequence[str], k: int, permitted: Bool[np.ndarray, "labels"] | None
    ) -> tuple[Ranked, Int[np.ndarray, "texts"]]:
        """Return the best k of the permitted labels (None: all), of which there are at least k, and known words."""

    @abstractmethod
    def _known_words(self, texts: Sequence[str]) -> Int[np.ndarray, "texts"]: ...

    @abstractmethod
    def rank_rows(self, rows: Rows, k: int, on_batch: Callable[[int], None] = lambda done: None) -> Ranked:
        """Return the best k labels of tokenised rows."""

    @cached_property
    def find(self) -> Find:
        """Return the function that finds the numbers of label names."""
        return self.names.numbers_of if isinstance(self.names, LabelNames) else make_finder(self.names)

    def _calibrated(self, scores: Float[np.ndarray, "texts k"]) -> Float[np.ndarray, "texts k"]:
        return scores if self.calibration is None else self.calibration.apply(scores)


def _ranking(ranked: Ranked) -> Ranking:
    import torch  # which answers do without

    from laconic.types import Ranking

    return Ranking(*map(torch.from_numpy, ranked))
