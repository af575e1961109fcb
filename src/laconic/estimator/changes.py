"""What changes the model of a fitted estimator: labels, new texts, calibration, a threshold, packing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from laconic.config import configure
from laconic.data.corpus import Corpus, Split
from laconic.data.formats.assemble import corpus_of
from laconic.data.formats.memory import (
    attributes_in_memory,
    label_rows_in_memory,
    names_in_memory,
    with_label_attributes,
)
from laconic.estimator.answers import Answers, LabelName
from laconic.estimator.parameters import nested
from laconic.evaluation.thresholds import Aim
from laconic.export.pack import pack, with_texts
from laconic.predict.load import packed_predictor
from laconic.predict.predictor import Predictor
from laconic.storage.facts import with_threshold
from laconic.trackers.registry import trackers_named
from laconic.training.run import Run, device_named
from laconic.training.watchers import watcher_for
from laconic.update.model import add_labels, calibrate, remove_labels, update
from laconic.update.rankers import Config as Further


class Changes(Answers):
    """An estimator whose fitted model can be changed."""

    def add_labels(
        self,
        label_texts: Mapping[str, str] | Mapping[int, str],
        texts: Iterable[str] = (),
        labels: Iterable[Any] = (),
        label_attributes: Mapping[Any, Mapping[str, Any]] | None = None,
    ) -> Self:
        """Add labels that the model has not seen, without training.

        Args:
            label_texts: The new labels with their own texts; a label that has examples may have an empty text.
            texts: Example texts.
            labels: The label names of each example.
            label_attributes: Attributes of the new labels, as for `fit`.

        Returns:
            The estimator itself, with more labels.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> sorted(model.add_labels({"colour": "red or blue"}).labels_)
            ['colour', 'flower', 'water']
        """
        model = self._whole_model()
        described = corpus_of({}, label_rows_in_memory(label_texts), source="label_texts")
        new = with_label_attributes(described, label_attributes).labels
        every = self._texts(texts)
        model = add_labels(model, new, self._corpus("train", every, labels) if every else None)
        return self._with_model(model, Predictor(model, self.device))

    def remove_labels(self, labels: Iterable[LabelName]) -> Self:
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

    def set_label_attributes(self, label_attributes: Mapping[Any, Mapping[str, Any]]) -> Self:
        """Give labels of the model other attributes; those of labels that are not named stay.

        Args:
            label_attributes: Attributes of labels, as for `fit`; `{}` for a label takes its attributes away.

        Returns:
            The estimator itself. What it predicts does not change.

        Examples:
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> model = model.set_label_attributes({"flower": {"kingdom": "plant"}})
            >>> [one.label for one in model.predict("the sea", where={"kingdom": "plant"})]
            ['flower']
        """
        model, packed = self._whole_model(), self.predictor_.packed
        labels = model.labels.with_attributes(attributes_in_memory(label_attributes, model.labels.names))
        model = replace(model, labels=labels)
        if packed is None:
            return self._with_model(model, Predictor(model, self.device))
        return self._with_model(model, packed_predictor(replace(packed, label_attributes=labels.attributes)))

    def update(
        self,
        texts: Iterable[str],
        labels: Iterable[Any] | None = None,
        label_texts: Mapping[str, str] | Mapping[int, str] | None = None,
        label_attributes: Mapping[Any, Mapping[str, Any]] | None = None,
        **settings: Any,
    ) -> Self:
        """Train the model further on new texts, with known or new labels.

        Args:
            texts: Texts, as for `fit`.
            labels: The label names of each text.
            label_texts: Own texts of new labels.
            label_attributes: Attributes of labels of these texts, as for `fit`; they replace those that the model has.
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
        corpus = with_label_attributes(corpus, label_attributes)
        watcher, device = watcher_for(bool(self.verbose)), device_named(self.device)
        with self._cores(), trackers_named(self.track) as trackers:
            model = update(model, corpus, config, Run(None, watcher=watcher, device=device, trackers=trackers))
        return self._with_model(model, Predictor(model, self.device))

    def calibrate(self, texts: Iterable[str], labels: Iterable[Any] | None = None) -> Self:
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
    ) -> Self:
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
        packed = predictor.packed
        if packed is not None:
            packed = replace(packed, facts=with_threshold(packed.facts, found.as_facts()))
        if packed is not None and not hasattr(self, "model_"):  # it was loaded alone
            self.predictor_ = packed_predictor(packed)
            return self
        model = self._whole_model()
        model = replace(model, facts=with_threshold(model.facts, found.as_facts()))
        return self._with_model(model, Predictor(model, self.device) if packed is None else packed_predictor(packed))

    def pack(self, texts: Iterable[str] = (), labels: Iterable[Any] | None = None, *, keep_texts: bool = False) -> Self:
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
        model, every = self._whole_model(), self._texts(texts)
        split = Split(labels=csr_array((len(every), len(model.labels)), dtype=np.float32), texts=every)
        corpus = Corpus(splits={"train": split}, labels=model.labels, source="texts in memory")
        packed = pack(model, corpus, self.device)
        if keep_texts:
            packed = with_texts(packed, self._corpus("train", every, labels))
        return self._with_model(model, packed_predictor(packed))
