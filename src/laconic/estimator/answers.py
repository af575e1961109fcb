"""What a fitted estimator answers: labels with scores, matrices, sets and frames of labels, and metrics."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Literal, overload

import numpy as np
from scipy.sparse import csr_array

from laconic.data.attributes import Where
from laconic.errors import ConfigError, ModelError
from laconic.estimator.base import Parameters
from laconic.estimator.frames import frame_like, prediction_columns
from laconic.evaluation.label_report import LabelFigures
from laconic.predict.explain import Explained
from laconic.predict.min_score import STORED, MinScore, places, reaching
from laconic.predict.prediction import Prediction, check_question

log = logging.getLogger("laconic.estimator")
LabelName = str | int  # 7 is the label "7"


class Answers(Parameters):
    """An estimator that answers, once it is fitted."""

    @overload
    def predict(  # type: ignore[overload-overlap]  # a string is also a sequence of strings; the first overload decides
        self,
        texts: str,
        k: int | None = None,
        allow: Iterable[LabelName] | None = None,
        block: Iterable[LabelName] | None = None,
        min_score: MinScore = None,
        as_frame: Literal[False] = False,
        where: Where | None = None,
    ) -> list[Prediction]: ...

    @overload
    def predict(
        self,
        texts: Iterable[str],
        k: int | None = None,
        allow: Iterable[LabelName] | None = None,
        block: Iterable[LabelName] | None = None,
        min_score: MinScore = None,
        as_frame: Literal[False] = False,
        where: Where | None = None,
    ) -> list[list[Prediction]]: ...

    @overload
    def predict(
        self,
        texts: str | Iterable[str],
        k: int | None = None,
        allow: Iterable[LabelName] | None = None,
        block: Iterable[LabelName] | None = None,
        min_score: MinScore = None,
        *,
        as_frame: Literal[True],
        where: Where | None = None,
    ) -> Any: ...

    def predict(
        self,
        texts: str | Iterable[str],
        k: int | None = None,
        allow: Iterable[LabelName] | None = None,
        block: Iterable[LabelName] | None = None,
        min_score: MinScore = None,
        as_frame: bool = False,
        where: Where | None = None,
    ) -> Any:
        """Return the best labels of each text, or of one text, best first.

        Args:
            texts: One text, or texts as for `fit`.
            k: Labels per text; None means 5, or with `min_score="stored"` as many as the threshold was chosen for.
            allow: Label names among which to choose; None means all.
            block: Label names to leave out.
            min_score: Leave out labels with a lower score; None means none, and "stored" the threshold that
                `choose_threshold` or `laconic threshold` has stored.
            as_frame: Whether to return a frame of the library that the texts came in (pandas, polars, Arrow; pandas for
                lists), with a row for each text and label: `row`, `text`, `rank`, `label`, `score`.
            where: Attributes of labels, each with the value, or a list of values, that a label must have one of; such
                as `{"category": ["fiction", "poetry"]}`. None means no such condition.

        Returns:
            For one text a list of `Prediction(label, score)`; for several, a list of such lists. With `as_frame`, a
            frame.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> label, score = model.predict("a rose", k=1)[0]
            >>> label
            'flower'
            >>> [answer[0].label for answer in model.predict(["deep sea", "white rose"], k=1)]
            ['water', 'flower']
        """
        predictor = self._predictor()
        many, most = [texts] if isinstance(texts, str) else texts, places(k, min_score, predictor.threshold)
        every = self._texts(many)
        with self._cores():
            answers = predictor.predict(every, most, allow=_listed(allow), block=_listed(block), where=where)
        answers = [reaching(answer, min_score, predictor.threshold) for answer in answers]
        if as_frame:
            return frame_like(texts, prediction_columns(texts, every, answers))
        return answers[0] if isinstance(texts, str) else answers

    @overload
    def predict_labels(self, texts: str, threshold: MinScore = None, k: int = 100) -> list[str]: ...  # type: ignore[overload-overlap]  # as for predict

    @overload
    def predict_labels(self, texts: Iterable[str], threshold: MinScore = None, k: int = 100) -> list[list[str]]: ...

    def predict_labels(
        self, texts: str | Iterable[str], threshold: MinScore = None, k: int = 100
    ) -> list[str] | list[list[str]]:
        """Return the labels of each text, or of one text, whose score reaches a threshold, best first.

        Args:
            texts: One text, or texts as for `fit`.
            threshold: Lowest score of a label, as `min_score` of `predict`. None means the threshold that is stored in
                the model or, without one, 0.5; then the scores must be probabilities, as for `predict_proba`.
            k: Most labels per text.

        Returns:
            A list of names, which may be empty, or one for each text.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> model.predict_labels(["a rose", "a stone"], threshold=0.1)
            [['flower'], []]
        """
        many, least = [texts] if isinstance(texts, str) else texts, threshold
        if least is None and self.threshold_ is None:
            self._refuse_raw_scores("predict_labels(texts, threshold=...) compares scores of any model")
            least = 0.5
        least = STORED if least is None else least
        names = [[label for label, _ in answer] for answer in self.predict(many, k, min_score=least)]
        return names[0] if isinstance(texts, str) else names

    def explain(self, text: str, k: int = 5) -> list[Explained]:
        """Explain the best labels of a text by its words and by training texts; for a packed model.

        Args:
            text: One text.
            k: Labels to explain.

        Returns:
            For each label its name, its score, the words of the text with what each contributes to the score, and the
            nearest training texts with that label, if the model keeps them: `pack(texts, labels, keep_texts=True)`.

        Examples:
            >>> texts = ["red rose", "blue sea"]
            >>> model = Laconic("nearest").fit(texts, ["flower", "water"]).pack(texts)
            >>> best = model.explain("a red rose", k=1)[0]
            >>> best.label, sorted(one.word for one in best.words)
            ('flower', ['red', 'rose'])
        """
        if self._predictor().packed is None:
            raise ModelError("only a packed model explains its labels; call pack(texts) first")
        return self.predictor_.explained(text, self.predict(text, k))

    def decision_function(self, texts: Iterable[str], k: int | None = 100) -> csr_array:
        """Return the scores of the best labels of each text as a sparse matrix.

        Args:
            texts: Texts, as for `fit`.
            k: Labels per text; None means all. A label that is not among them is not stored.

        Returns:
            A matrix with a row per text and a column per label, in the order of `classes_`.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> scores = model.decision_function(["a rose", "the sea", "deep sea"], k=1)
            >>> scores.shape
            (3, 2)
            >>> model.classes_[scores.argmax(axis=1)].tolist()
            ['flower', 'water', 'water']
        """
        self._predictor()
        most = len(self.labels_)
        answers = self.predict(list(self._texts(texts)), most if k is None else min(k, most))
        numbers = {name: number for number, name in enumerate(self.labels_)}
        starts = np.cumsum([0, *map(len, answers)])
        columns = np.array([numbers[label] for answer in answers for label, _ in answer], dtype=np.int64)
        scores = np.array([score for answer in answers for _, score in answer], dtype=np.float64)
        return csr_array((scores, columns, starts), shape=(len(answers), len(numbers)))

    def predict_proba(self, texts: Iterable[str], k: int | None = 100) -> csr_array:
        """Return the probabilities of the best labels of each text as a sparse matrix.

        Labels are independent of each other, so that a row need not add up to 1.

        Args:
            texts: Texts, as for `fit`.
            k: Labels per text; None means all. A label that is not among them is not stored.

        Returns:
            A matrix with a row per text and a column per label, in the order of `classes_`.

        Raises:
            ModelError: If scores are not probabilities: training had too few texts to calibrate by, or was told not
                to, and `calibrate` was not called. `decision_function` returns scores of any model.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> texts = [f"{word} {number}" for number in range(30) for word in ("rose", "sea")]
            >>> model = model.calibrate(texts, [["flower"], ["water"]] * 30)
            >>> float(model.predict_proba(["a rose"], k=1).max()) <= 1
            True
        """
        self._refuse_raw_scores("decision_function returns the scores")
        return self.decision_function(texts, k)

    @overload
    def known_words(self, texts: str) -> int: ...  # type: ignore[overload-overlap]  # as for predict

    @overload
    def known_words(self, texts: Iterable[str]) -> list[int]: ...

    def known_words(self, texts: str | Iterable[str]) -> int | list[int]:
        """Count the words of each text, or of one text, that the model knows.

        Args:
            texts: One text, or texts as for `fit`.

        Returns:
            A count, or one for each text. A text without known words is predicted like an empty one.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> model.known_words(["red sea", "unheard of"])
            [2, 0]
        """
        counts = self._predictor().known_words(self._texts([texts] if isinstance(texts, str) else texts))
        return counts[0] if isinstance(texts, str) else counts

    def score(self, texts: Iterable[str], labels: Iterable[Any] | None = None) -> float:
        """Return the fraction of texts whose best label is right, which is P@1.

        Where every text has one label, it is the accuracy of scikit-learn's classifiers. `scorer` makes any other
        metric the score of a grid search, and `evaluate` returns all of them.

        Args:
            texts: Texts, as for `fit`.
            labels: The true labels of each text, as for `fit`.

        Returns:
            A number from 0 to 1.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> model.score(["a rose", "the sea"], [["flower"], ["flower"]])
            0.5
        """
        return self.evaluate(texts, labels)["P@1"] / 100

    def evaluate(self, texts: Iterable[str], labels: Iterable[Any] | None = None) -> dict[str, float]:
        """Evaluate the model on labelled texts.

        Args:
            texts: Texts, as for `fit`. A warning is logged where many of them are training texts.
            labels: The true labels of each text, as for `fit`. Labels that training never saw count as misses.

        Returns:
            Every metric by its name, in percent: of the first k labels as in "P@5" or "micro F1@5", and without @k, as
            in "micro F1" or "macro F1", of the labels that reach the threshold that is stored in the model or, of
            probabilities, 0.5.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> model.evaluate(["a rose", "the sea"], [["flower"], ["water"]])["P@1"]
            100.0
        """
        predictor = self._predictor()
        with self._cores():
            evaluation = predictor.evaluate(self._corpus("test", texts, labels), "test")
        if evaluation.seen is not None and evaluation.seen.substantial:
            log.warning("score on %s texts, %s", f"{evaluation.texts:,}", evaluation.seen)
        reaching_it = {} if evaluation.at_threshold is None else evaluation.at_threshold.metrics()
        return evaluation.metrics | reaching_it

    def report(
        self,
        texts: Iterable[str],
        labels: Iterable[Any] | None = None,
        *,
        threshold: float | None = None,
        k: int | None = None,
        as_frame: bool = False,
    ) -> Any:
        """Report precision, recall and F1 of each label, as scikit-learn's `classification_report` does.

        Args:
            texts: Texts, as for `fit`.
            labels: The true labels of each text, as for `fit`.
            threshold: Take labels with this score or more. None means the threshold that is stored in the model or,
                if scores are probabilities, 0.5, or else the first 5 labels.
            k: Take the first k labels of each text instead.
            as_frame: Whether to return a frame of the library that the texts came in (pandas for lists).

        Returns:
            For each label that is true of or taken for a text, the most frequent first: `label`, `training_texts`,
            `test_texts`, `predicted`, `right`, and in percent `precision`, `recall` and `f1`, None where there
            is nothing to divide by.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> for one in model.report(["a rose", "the sea", "white rose"], ["flower", "water", "water"], k=1):
            ...     print(one.label, one.test_texts, one.precision, one.recall)
            water 2 100.0 50.0
            flower 1 50.0 100.0
        """
        if threshold is not None and k is not None:
            raise ConfigError("threshold and k exclude each other; leave one of them out")
        predictor = self._predictor()
        check_question(1 if k is None else k, reads_texts=predictor.reads_texts)
        with self._cores():
            report = predictor.report(self._corpus("test", texts, labels), "test", threshold=threshold, k=k)
        figures = report.figures()
        if not as_frame:
            return figures
        return frame_like(texts, {name: [getattr(one, name) for one in figures] for name in LabelFigures._fields})


def _listed(names: Iterable[LabelName] | None) -> Iterable[str] | None:
    return names if names is None or isinstance(names, str) else [str(name) for name in names]
