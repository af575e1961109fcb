"""The estimator `Laconic`: fit, predict, score, save and load, with scikit-learn's conventions.

It takes and returns lists of texts and of label names; nothing is written until `save`.

    model = Laconic("inceptionxml", epochs=20).fit(texts, labels)
    GridSearchCV(model, {"learning_rate": [0.002, 0.005]}, scoring=scorer("nDCG@5")).fit(texts, labels)
"""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, overload

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from laconic.config import AUTO, Settings, configure
from laconic.data.corpus import Corpus, Split
from laconic.data.formats.assemble import corpus_of
from laconic.data.formats.memory import (
    corpus_in_memory,
    is_matrix,
    label_rows_in_memory,
    names_in_memory,
    texts_in_memory,
)
from laconic.errors import ConfigError, ModelError
from laconic.estimator.notebook import table
from laconic.estimator.parameters import (
    budget_seconds,
    nested,
    plain,
    refuse_unknown,
    settings_with_preset,
    with_seed,
)
from laconic.evaluation.metrics import TrainingCounts, judge, report
from laconic.evaluation.thresholds import Aim, Threshold
from laconic.export.pack import pack, with_texts
from laconic.methods.auto import choose, config_for, describe_situation
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed.folder import is_packed, of_version, write_packed
from laconic.predict.explain import Explained
from laconic.predict.interface import TextPredictor
from laconic.predict.load import on_cpu, open_packed_predictor, packed_of, packed_predictor
from laconic.predict.min_score import STORED, MinScore, places, reaching
from laconic.predict.prediction import Prediction
from laconic.predict.predictor import Predictor
from laconic.storage.facts import with_threshold
from laconic.storage.manifest import PACKED, version_of
from laconic.storage.model_folder import SavedModel, read_model, write_model
from laconic.system.machine import at_most_cores, usable_cores
from laconic.training.run import Run, device_named
from laconic.training.watchers import watcher_for
from laconic.units import counted, human_seconds
from laconic.update.model import add_labels, calibrate, remove_labels, update
from laconic.update.rankers import Config as Further

log = logging.getLogger(__name__)
# Parameters that are not a method's settings, with their defaults.
_OWN: dict[str, Any] = {"device": "auto", "ensemble": 1, "ignore_memory": False}
_OWN |= {"budget": None, "preset": None, "classes": None, "random_state": None, "n_jobs": None, "verbose": 0}
LabelName = str | int  # 7 is the label "7"


class Laconic(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Assigns short texts the few right labels out of many, as an estimator of scikit-learn.

    Args:
        method: Name of a training method, which `laconic settings METHOD` describes; "auto" chooses one that suits the
            data and the machine.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        ensemble: Number of models, with different seeds, whose scores are averaged.
        ignore_memory: Train even where memory seems too small; otherwise `fit` refuses.
        budget: With "auto": approximate training time, such as "90s", "5m" or "2h"; a number is in minutes.
        preset: Name of a preset of the method ("laptop"), or a TOML file; settings override it.
        classes: Names of the columns where `labels` is a matrix of 0 and 1; None means their numbers.
        random_state: Seed of all random choices, an integer or a `numpy.random.RandomState`; None is the method's own
            default, so that results can be repeated. Methods without random choices ignore it.
        n_jobs: Processor cores to use; None or -1 means all that this process may use.
        verbose: 1 shows the progress of training, in a notebook in the cell. The logger `laconic` gets it at the level
            INFO in any case.
        **settings: Settings of the method, such as `epochs=20`. Those of a group are written
            `text={"stop_words": False}` or, for grid searches, `text__stop_words=False`, which takes precedence. `fit`
            and `set_params` check them.

    Attributes:
        labels_: Names of the labels that the model knows.
        classes_: Names of the labels as an array, in the order of the columns of `predict_proba`.
        threshold_: The threshold that is stored in the model, or None.
        model_: The contents of a model folder; missing where a packed model was loaded alone.
        predictor_: What predicts: the model, or its packed version.

    There is no `n_features_in_`: texts have no number of features, and scikit-learn's own estimators of texts have no
    such attribute either.

    Examples:
        >>> from laconic import Laconic
        >>> texts = ["red rose", "white rose", "blue sea", "deep sea"]
        >>> labels = [["flower", "red"], ["flower"], ["water"], ["water"]]
        >>> model = Laconic("nearest").fit(texts, labels)
        >>> [prediction.label for prediction in model.predict("a rose", k=1)]
        ['flower']
    """

    labels_: Sequence[str]
    model_: SavedModel
    predictor_: TextPredictor

    def __init__(
        self,
        method: str = AUTO,
        *,
        device: str = "auto",
        ensemble: int = 1,
        ignore_memory: bool = False,
        budget: Any = None,
        preset: Any = None,
        classes: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        **settings: Any,
    ) -> None:
        self.method, self.device, self.ensemble, self.settings = method, device, ensemble, settings
        self.ignore_memory, self.budget, self.preset, self.classes = ignore_memory, budget, preset, classes
        self.random_state, self.n_jobs, self.verbose = random_state, n_jobs, verbose

    def __repr__(self) -> str:
        given = {
            name: reprlib.repr(value) if name == "classes" else repr(value) for name, value in self._given().items()
        }
        return f"Laconic({', '.join([repr(self.method), *(f'{name}={value}' for name, value in given.items())])})"

    def _repr_html_(self) -> str:
        """Show the parameters and, once fitted, what the model is, in a notebook."""
        fitted = hasattr(self, "predictor_")
        return table(
            {"method": self.method, **self._given()},
            self.predictor_ if fitted else None,
            self.labels_ if fitted else (),
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Show this HTML instead of scikit-learn's diagram, which notebooks would prefer."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _given(self) -> Settings:
        """Return the parameters that differ from their defaults, and all settings."""
        own = {name: getattr(self, name) for name in _OWN}
        given = {
            name: value for name, value in own.items() if type(value) is not type(_OWN[name]) or value != _OWN[name]
        }
        return given | self.settings

    @property
    def classes_(self) -> np.ndarray:
        """Names of the labels as an array, in the order of the columns of `predict_proba`."""
        self._predictor()
        return np.array(list(self.labels_), dtype=object)

    @property
    def threshold_(self) -> Threshold | None:
        """The threshold that is stored in the model, with its figures; None: none was chosen."""
        return self._predictor().threshold

    def fit(
        self,
        texts: Iterable[str],
        labels: Iterable[Any] | None = None,
        label_texts: Mapping[str, str] | Mapping[int, str] | None = None,
    ) -> Laconic:
        """Train on texts with their labels.

        Args:
            texts: Texts: a list, an array, a pandas Series, or a DataFrame with a column of texts.
            labels: The labels of each text: a list of names, or one name, for each text; or a matrix of 0 and 1, dense
                or sparse, with a column for each label, which `classes` names. May be left out where `texts` is a
                DataFrame with a column of labels.
            label_texts: The labels' own texts, for methods that read them; a label that has only a text can be
                predicted too.

        Returns:
            The estimator itself, fitted.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> list(model.classes_)
            ['flower', 'water']
            >>> same = Laconic("nearest").fit(["red rose", "blue sea"], ["flower", "water"])
            >>> matrix = Laconic("nearest", classes=["flower", "water"]).fit(["red rose", "blue sea"], np.eye(2))
            >>> same.predict("a rose") == matrix.predict("a rose") == model.predict("a rose")
            True
        """
        began = perf_counter()
        budget = budget_seconds(self.budget, self.method)
        wanted = settings_with_preset(self.method, self.preset, self.settings)
        config = None if self.method == AUTO else config_of(self.method, self._seeded(self.method, wanted))
        corpus, method = corpus_in_memory("train", texts, labels, label_texts, self.classes), self.method
        with self._cores():
            watcher, device = watcher_for(bool(self.verbose)), device_named(self.device)
            run = Run(None, watcher=watcher, device=device, ignore_memory=self.ignore_memory)
            if config is None:
                choice = choose(describe_situation(corpus, gpu=run.device.type == "cuda", budget=budget))
                method, (_, config) = choice.method, config_for(choice, self._seeded(choice.method, wanted))
                watcher.report(f"Chosen: {choice.why}")
            sizes = f"{counted(len(corpus.split('train')), 'text')}, {counted(len(corpus.labels), 'label')}"
            watcher.report(f"Training {method} on {sizes}")
            model = train_model(corpus, method, config, run, plain(self.ensemble))
            watcher.report(f"Trained {method} in {human_seconds(perf_counter() - began)}")
        return self._with_model(model, Predictor(model, self.device))

    def partial_fit(
        self,
        texts: Iterable[str],
        labels: Iterable[Any] | None = None,
        label_texts: Mapping[str, str] | Mapping[int, str] | None = None,
    ) -> Laconic:
        """Train on the first texts, and train the model further on the texts of every later call.

        Args:
            texts: Texts, as for `fit`.
            labels: The label names of each text; later calls may have new labels.
            label_texts: The labels' own texts.

        Returns:
            The estimator itself. `update` does the same to a fitted model, with settings of the update.

        Examples:
            >>> model = Laconic("nearest")
            >>> for text, label in (("red rose", "flower"), ("blue sea", "water")):
            ...     model = model.partial_fit([text], [[label]])
            >>> sorted(model.labels_)
            ['flower', 'water']
        """
        return (self.update if hasattr(self, "predictor_") else self.fit)(texts, labels, label_texts)

    @overload
    def predict(  # type: ignore[overload-overlap]  # a string is also a sequence of strings; the first overload decides
        self,
        texts: str,
        k: int | None = None,
        allow: Iterable[LabelName] | None = None,
        block: Iterable[LabelName] | None = None,
        min_score: MinScore = None,
    ) -> list[Prediction]: ...

    @overload
    def predict(
        self,
        texts: Iterable[str],
        k: int | None = None,
        allow: Iterable[LabelName] | None = None,
        block: Iterable[LabelName] | None = None,
        min_score: MinScore = None,
    ) -> list[list[Prediction]]: ...

    def predict(
        self,
        texts: str | Iterable[str],
        k: int | None = None,
        allow: Iterable[LabelName] | None = None,
        block: Iterable[LabelName] | None = None,
        min_score: MinScore = None,
    ) -> list[Prediction] | list[list[Prediction]]:
        """Return the best labels of each text, or of one text, best first.

        Args:
            texts: One text, or texts as for `fit`.
            k: Labels per text; None means 5, or with `min_score="stored"` as many as the threshold was chosen for.
            allow: Label names among which to choose; None means all.
            block: Label names to leave out.
            min_score: Leave out labels with a lower score; None means none, and "stored" the threshold that
                `choose_threshold` or `laconic threshold` has stored.

        Returns:
            For one text a list of `Prediction(label, score)`; for several, a list of such lists.

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
        with self._cores():
            answers = predictor.predict(texts_in_memory(many), most, allow=_listed(allow), block=_listed(block))
        answers = [reaching(answer, min_score, predictor.threshold) for answer in answers]
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
        answers = self.predict(list(texts_in_memory(texts)), most if k is None else min(k, most))
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
            ModelError: If scores are not probabilities: no texts were held out of training (`validation`), and
                `calibrate` was not called. `decision_function` returns scores of any model.

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
        counts = self._predictor().known_words(texts_in_memory([texts] if isinstance(texts, str) else texts))
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
            Every metric by its name, in percent.

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
        return evaluation.metrics

    def add_labels(
        self,
        label_texts: Mapping[str, str] | Mapping[int, str],
        texts: Iterable[str] = (),
        labels: Iterable[Any] = (),
    ) -> Laconic:
        """Add labels that the model has not seen, without training.

        Args:
            label_texts: The new labels with their own texts; a label that has examples may have an empty text.
            texts: Example texts.
            labels: The label names of each example.

        Returns:
            The estimator itself, with more labels.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> sorted(model.add_labels({"colour": "red or blue"}).labels_)
            ['colour', 'flower', 'water']
        """
        model = self._whole_model()
        new = corpus_of({}, label_rows_in_memory(label_texts), source="label_texts").labels
        every = texts_in_memory(texts)
        model = add_labels(model, new, self._corpus("train", every, labels) if every else None)
        return self._with_model(model, Predictor(model, self.device))

    def remove_labels(self, labels: Iterable[LabelName]) -> Laconic:
        """Remove labels from the model; the others do not change.

        Args:
            labels: Names of labels to remove.

        Returns:
            The estimator itself, with fewer labels.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> list(model.remove_labels(["water"]).labels_)
            ['flower']
        """
        model = remove_labels(self._whole_model(), names_in_memory(labels, "labels"))
        return self._with_model(model, Predictor(model, self.device))

    def update(
        self,
        texts: Iterable[str],
        labels: Iterable[Any] | None = None,
        label_texts: Mapping[str, str] | Mapping[int, str] | None = None,
        **settings: Any,
    ) -> Laconic:
        """Train the model further on new texts, with known or new labels.

        Args:
            texts: Texts, as for `fit`.
            labels: The label names of each text.
            label_texts: Own texts of new labels.
            **settings: Settings of the update (`learning_rate`, `validation`, ...), such as `epochs=3`.

        Returns:
            The estimator itself, with the updated model.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> model.update(["old oak"], [["tree"]]).predict("oak", k=1)[0].label
            'tree'
        """
        model = self._whole_model()
        corpus, config = self._corpus("train", texts, labels, label_texts), configure(Further, nested(settings))
        run = Run(None, watcher=watcher_for(bool(self.verbose)), device=device_named(self.device))
        with self._cores():
            model = update(model, corpus, config, run)
        return self._with_model(model, Predictor(model, self.device))

    def calibrate(self, texts: Iterable[str], labels: Iterable[Any] | None = None) -> Laconic:
        """Make scores probabilities, by texts that the model was not trained on.

        Args:
            texts: At least 50 texts.
            labels: The true label names of each text.

        Returns:
            The estimator itself. A later change of the model ends its calibration, unless `update` fits a new one.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> texts = [f"{word} {number}" for number in range(30) for word in ("rose", "sea")]
            >>> model = model.calibrate(texts, [["flower"], ["water"]] * 30)
            >>> model.predict("a rose", k=1)[0].score <= 1
            True
        """
        model = self._whole_model()
        model = calibrate(model, self._corpus("test", texts, labels), "test", device_named(self.device))
        return self._with_model(model, Predictor(model, self.device))

    def choose_threshold(
        self,
        texts: Iterable[str],
        labels: Iterable[Any] | None = None,
        *,
        precision: float | None = None,
        per_label: bool = False,
        k: int = 20,
    ) -> Laconic:
        """Choose the score from which labels are used, by texts that the model was not trained on, and store it.

        Args:
            texts: Texts, as for `fit`.
            labels: The true labels of each text.
            precision: Choose the lowest score from which labels are right so often, such as 0.9; None means the score
                with the best micro F1.
            per_label: Whether labels that are true of 50 texts or more get a threshold of their own.
            k: Labels per text among which to choose.

        Returns:
            The estimator itself. `predict(texts, min_score="stored")` and `predict_labels(texts)` use the threshold,
            and `save` keeps it; a later change of the model or of its calibration ends it.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> texts = [f"{word} {number}" for number in range(30) for word in ("rose", "sea")]
            >>> model = model.choose_threshold(texts, ["flower", "water"] * 30, precision=0.9)
            >>> model.threshold_.precision
            100.0
            >>> model.predict_labels(["a rose", "a stone"])
            [['flower'], []]
        """
        predictor, aim = self._predictor(), Aim(precision, per_label)
        with self._cores():
            found = predictor.choose_threshold(self._corpus("test", texts, labels), "test", aim, k)
        model, packed = self._whole_model(), predictor.packed
        model = replace(model, facts=with_threshold(model.facts, found.as_facts()))
        if packed is None:
            return self._with_model(model, Predictor(model, self.device))
        packed = replace(packed, facts=with_threshold(packed.facts, found.as_facts()))
        return self._with_model(model, packed_predictor(packed))

    def pack(
        self, texts: Iterable[str] = (), labels: Iterable[Any] | None = None, *, keep_texts: bool = False
    ) -> Laconic:
        """Pack the model for prediction on a CPU, which is much faster and nearly as accurate; `save` writes it too.

        Args:
            texts: Texts, such as those of training, that tune how much of the model is searched.
            labels: Their labels, as for `fit`; only `keep_texts` needs them.
            keep_texts: Store the texts in the packed model, for `explain`; whoever has the model can read them.

        Returns:
            The estimator itself, which predicts with the packed model.

        Examples:
            >>> texts = ["red rose", "blue sea"]
            >>> model = Laconic("nearest").fit(texts, [["flower"], ["water"]]).pack(texts)
            >>> model.predict("a rose", k=1)[0].label
            'flower'
        """
        model, every = self._whole_model(), texts_in_memory(texts)
        split = Split(labels=csr_array((len(every), len(model.labels)), dtype=np.float32), texts=every)
        corpus = Corpus(splits={"train": split}, labels=model.labels, source="texts in memory")
        packed = pack(model, corpus, self.device)
        if keep_texts:
            packed = with_texts(packed, self._corpus("train", every, labels))
        return self._with_model(model, packed_predictor(packed))

    def save(self, folder: Path | str) -> None:
        """Write a model folder, for `Laconic.load` and for the command line.

        Args:
            folder: The folder to write; an older model there is replaced. It is refused while another process or
                thread writes it.

        Examples:
            >>> from tempfile import TemporaryDirectory
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> with TemporaryDirectory() as folder:
            ...     model.save(f"{folder}/model")
            ...     Laconic.load(f"{folder}/model").predict("a rose", k=1)[0].label
            'flower'
        """
        model, packed = self._whole_model(), self.predictor_.packed

        def add_packed(partial: Path) -> None:
            if packed is not None:
                write_packed(of_version(packed, version_of(partial)), partial / PACKED)

        write_model(model, Path(folder), add=add_packed)

    @staticmethod
    def load(folder: Path | str, *, device: str = "auto", verify: bool = True) -> Laconic:
        """Load the model of a folder with all of its settings, including those that training chose.

        Args:
            folder: A model folder. On a CPU its packed version is used, if it has one. A packed folder can be loaded
                alone.
            device: "cpu", "cuda", or "auto" for a GPU if there is one.
            verify: Whether to check that the content of all files is what was written. It is remembered, so that
                loading the same files again is quick. Without it their sizes alone are checked.

        Returns:
            A fitted estimator.

        Examples:
            >>> from tempfile import TemporaryDirectory
            >>> with TemporaryDirectory() as folder:
            ...     Laconic("nearest").fit(["red rose"], [["flower"]]).save(f"{folder}/model")
            ...     Laconic.load(f"{folder}/model").method
            'nearest'
        """
        folder = Path(folder)
        if is_packed(folder):
            alone = open_packed_predictor(folder, device=device, verify=verify)
            loaded = _estimator_of(alone.facts, device)
            loaded.predictor_, loaded.labels_ = alone, alone.labels
            return loaded
        model = read_model(folder, verify=verify)
        packed = packed_of(folder, verify=verify) if on_cpu(device) else None
        predictor = Predictor(model, device) if packed is None else packed_predictor(packed)
        return _estimator_of(model.facts, device)._with_model(model, predictor)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters by name, as scikit-learn asks for them.

        Args:
            deep: Accepted for scikit-learn; there is nothing deeper.

        Returns:
            The parameters of the constructor, the method's settings among them.

        Examples:
            >>> Laconic("nearest", neighbours=20).get_params()["neighbours"]
            20
        """
        return {"method": self.method, **{name: getattr(self, name) for name in _OWN}, **self.settings}

    def set_params(self, **params: Any) -> Laconic:
        """Set parameters for the next `fit`.

        Args:
            **params: Parameters of the constructor. A group that is set as a whole replaces settings inside it.

        Returns:
            The estimator itself.

        Raises:
            ConfigError: If a name is neither a parameter nor a setting of the method. Nothing is set then. Values are
                checked by `fit`.

        Examples:
            >>> Laconic("nearest").set_params(neighbours=20)
            Laconic('nearest', neighbours=20)
        """
        settings = {name: value for name, value in params.items() if name not in ("method", *_OWN)}
        refuse_unknown(params.get("method", self.method), settings)
        for name in params.keys() - settings.keys():
            setattr(self, name, params[name])
        kept = {name: value for name, value in self.settings.items() if name.partition("__")[0] not in settings}
        self.settings = kept | settings
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # of no classifier: its cross-validation refuses lists of labels
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = True, False, True
        tags.target_tags.required, tags.target_tags.multi_output = True, True
        return tags

    def _seeded(self, method: str, settings: Settings) -> Settings:
        return with_seed(method, settings, self.random_state)

    def _corpus(self, split: str, texts: object, labels: object, label_texts: object = None) -> Corpus:
        """Return labelled texts for a fitted model; the columns of a matrix are `classes`, or the model's labels."""
        classes = list(self.labels_) if self.classes is None and is_matrix(labels) else self.classes
        return corpus_in_memory(split, texts, labels, label_texts, classes)

    def _refuse_raw_scores(self, otherwise: str) -> None:
        """Refuse a model whose scores are not probabilities; `otherwise` is what it can be asked instead."""
        if "calibration" not in self._predictor().facts:
            raise ModelError(
                "the scores of this model are not probabilities: call calibrate(texts, labels) with texts that it was "
                f"not trained on, or train with held-out texts (validation=0.05); {otherwise}"
            )

    @contextmanager
    def _cores(self) -> Iterator[None]:
        """Use the cores that `n_jobs` allows while the block runs."""
        if self.n_jobs is None:
            yield
            return
        cores = plain(self.n_jobs)
        if type(cores) is not int or cores == 0:
            raise ConfigError(f"n_jobs must be a number of cores, or -1 for all, but is {cores!r}")
        with at_most_cores(max(1, usable_cores() + 1 + cores) if cores < 0 else cores):
            yield

    def _with_model(self, model: SavedModel, predictor: TextPredictor) -> Laconic:
        self.model_, self.predictor_, self.labels_ = model, predictor, model.labels.names
        return self

    def _whole_model(self) -> SavedModel:
        """Return the whole model; refuse where only its packed version was loaded."""
        self._predictor()
        if not hasattr(self, "model_"):
            raise ModelError(
                "a packed model can only predict, not be saved or changed; load the model that it was packed from"
            )
        return self.model_

    def _predictor(self) -> TextPredictor:
        if not hasattr(self, "predictor_"):
            raise NotFittedError("this Laconic is not fitted yet; call fit(texts, labels), or Laconic.load")
        return self.predictor_


def _estimator_of(facts: Mapping[str, Any], device: str) -> Laconic:
    """Return an estimator with the method and settings of a model, which this version must know."""
    match facts:
        case {"method": str(method), "config": dict(settings)}:
            try:
                config_of(method, settings)
            except ConfigError as error:
                raise ModelError(f"the model's settings are not those of this version: {error}") from None
            return Laconic(method, device=device, ensemble=facts.get("ensemble", 1), **settings)
    raise ModelError("the model does not state its method and settings; pack it again")


def scorer(metric: str) -> Callable[[Laconic, Iterable[str], Iterable[Any]], float]:
    """Return one metric of `Laconic.evaluate` as the `scoring` of a grid search.

    Args:
        metric: A name, such as nDCG@5.

    Returns:
        A function of a fitted estimator, texts and their labels.

    Examples:
        >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
        >>> scorer("P@1")(model, ["a rose"], [["flower"]])
        100.0
    """
    one = csr_array(np.ones((1, 1)))
    known = report(judge(np.zeros((1, 1), dtype=np.int64), one), TrainingCounts.of(one))
    if metric not in known:
        raise ConfigError(f"there is no metric {metric!r}; known are: {', '.join(known)}")
    return partial(_figure, metric)


def _figure(metric: str, model: Laconic, texts: Iterable[str], labels: Iterable[Any]) -> float:
    return model.evaluate(texts, labels)[metric]


def _listed(names: Iterable[LabelName] | None) -> Iterable[str] | None:
    return names if names is None or isinstance(names, str) else [str(name) for name in names]
