"""The estimator `Laconic`: fit, predict, score, save and load, with scikit-learn's conventions.

It takes and returns lists of texts and of label names; nothing is written until `save`.

    model = Laconic("inceptionxml", epochs=20).fit(texts, labels)
    GridSearchCV(model, {"learning_rate": [0.002, 0.005]}, scoring=scorer("nDCG@5")).fit(texts, labels)
"""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np
from scipy.sparse import csr_array

from laconic.config import AUTO, Settings, configure
from laconic.data.corpus import Corpus, Split
from laconic.data.formats.assemble import LabelRow, Row, corpus_of
from laconic.data.formats.records import text
from laconic.errors import ConfigError, DataError, ModelError
from laconic.evaluation.metrics import TrainingCounts, judge, report
from laconic.export.pack import pack
from laconic.methods.auto import choose, config_for, describe_situation
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed.folder import is_packed, of_version, write_packed
from laconic.predict.interface import TextPredictor
from laconic.predict.load import on_cpu, open_packed_predictor, packed_of, packed_predictor
from laconic.predict.prediction import Prediction
from laconic.predict.predictor import Predictor
from laconic.storage.manifest import PACKED, version_of
from laconic.storage.model_folder import SavedModel, read_model, write_model
from laconic.training.run import Run, device_named
from laconic.units import counted
from laconic.update.model import add_labels, calibrate, remove_labels, update
from laconic.update.rankers import Config as Further

log = logging.getLogger(__name__)
_OWN = ("method", "device", "ensemble", "ignore_memory")  # parameters that are not a method's settings
LabelName = str | int  # 7 is the label "7"


class Laconic:
    """A method with its settings and, once it is fitted, a model.

    Without a method, one is chosen that suits the data and the machine (methods/auto.py).
    `ensemble` is the number of models, with different seeds, whose scores are averaged.
    `ignore_memory` trains even where memory seems too small; otherwise `fit` refuses.
    Settings of a group are written `text={"stop_words": False}` or, for grid searches, `text__stop_words=False`, which
    takes precedence; `fit` checks them. Fitted attributes are `labels_`, the names; `model_`, the contents of a model
    folder; and `predictor_`, which predicts from the model or from its packed version.
    """

    labels_: Sequence[str]
    model_: SavedModel  # missing where a packed model was loaded alone
    predictor_: TextPredictor

    def __init__(
        self,
        method: str = AUTO,
        *,
        device: str = "auto",
        ensemble: int = 1,
        ignore_memory: bool = False,
        **settings: Any,
    ) -> None:
        self.method, self.device, self.ensemble, self.settings = method, device, ensemble, settings
        self.ignore_memory = ignore_memory

    def __repr__(self) -> str:
        given: Settings = {"device": self.device} if self.device != "auto" else {}
        given |= {"ensemble": self.ensemble} if self.ensemble != 1 else {}
        given |= {"ignore_memory": True} if self.ignore_memory else {}
        return f"Laconic({', '.join([repr(self.method), *(f'{k}={v!r}' for k, v in (given | self.settings).items())])})"

    def fit(
        self,
        texts: Iterable[str],
        labels: Iterable[Iterable[LabelName]],
        label_texts: Mapping[str, str] | Mapping[int, str] | None = None,
    ) -> Laconic:
        """Train on texts with their labels' names and, where a method reads them, the labels' own texts.

        A label that is in `label_texts` alone can be predicted too.
        """
        config = None if self.method == AUTO else config_of(self.method, _nested(self.settings))
        corpus, method = _corpus("train", texts, labels, label_texts), self.method
        run = Run.unkept(self.device, ignore_memory=self.ignore_memory)
        if config is None:
            choice = choose(describe_situation(corpus, gpu=run.device.type == "cuda", budget=None))
            method, (_, config) = choice.method, config_for(choice, _nested(self.settings))
        model = train_model(corpus, method, config, run, _plain(self.ensemble))
        return self._with_model(model, Predictor(model, self.device))

    @overload
    def predict(  # type: ignore[overload-overlap]  # a string is also a sequence of strings; the first overload decides
        self,
        texts: str,
        k: int = 5,
        allow: Iterable[LabelName] | None = None,
        block: Iterable[LabelName] | None = None,
    ) -> list[Prediction]: ...

    @overload
    def predict(
        self,
        texts: Iterable[str],
        k: int = 5,
        allow: Iterable[LabelName] | None = None,
        block: Iterable[LabelName] | None = None,
    ) -> list[list[Prediction]]: ...

    def predict(
        self,
        texts: str | Iterable[str],
        k: int = 5,
        allow: Iterable[LabelName] | None = None,
        block: Iterable[LabelName] | None = None,
    ) -> list[Prediction] | list[list[Prediction]]:
        """Return the best k labels of each text, or of the one text, among `allow` (None: all) and not in `block`."""
        predictor = self._predictor()
        many = [texts] if isinstance(texts, str) else texts
        answers = predictor.predict(_texts(many), k, allow=_listed(allow), block=_listed(block))
        return answers[0] if isinstance(texts, str) else answers

    @overload
    def known_words(self, texts: str) -> int: ...  # type: ignore[overload-overlap]  # as for predict

    @overload
    def known_words(self, texts: Iterable[str]) -> list[int]: ...

    def known_words(self, texts: str | Iterable[str]) -> int | list[int]:
        """Count the words of each text, or of the one text, that the model knows.

        A text without any is predicted like an empty one.
        """
        counts = self._predictor().known_words(_texts([texts] if isinstance(texts, str) else texts))
        return counts[0] if isinstance(texts, str) else counts

    def score(self, texts: Iterable[str], labels: Iterable[Iterable[LabelName]]) -> dict[str, float]:
        """Return every metric by its name, in percent; `scorer` makes one of them the score of a grid search.

        Labels that training never saw count as misses. A warning is logged where many of the texts are training texts.
        """
        evaluation = self._predictor().evaluate(_corpus("test", texts, labels), "test")
        if evaluation.seen is not None and evaluation.seen.substantial:
            log.warning("score on %s texts, %s", f"{evaluation.texts:,}", evaluation.seen)
        return evaluation.metrics

    def add_labels(
        self,
        label_texts: Mapping[str, str] | Mapping[int, str],
        texts: Iterable[str] = (),
        labels: Iterable[Iterable[LabelName]] = (),
    ) -> Laconic:
        """Add labels that the model has not seen, described by their own texts or by example texts.

        Nothing is trained; a label that has examples may have an empty text.
        """
        model = self._whole_model()
        new = corpus_of({}, _label_rows(label_texts), source="label_texts").labels
        every = list(texts)
        model = add_labels(model, new, _corpus("train", every, labels) if every else None)
        return self._with_model(model, Predictor(model, self.device))

    def remove_labels(self, labels: Iterable[LabelName]) -> Laconic:
        """Remove labels from the model; the others do not change."""
        model = remove_labels(self._whole_model(), _names(labels, "labels"))
        return self._with_model(model, Predictor(model, self.device))

    def update(
        self,
        texts: Iterable[str],
        labels: Iterable[Iterable[LabelName]],
        label_texts: Mapping[str, str] | Mapping[int, str] | None = None,
        **settings: Any,
    ) -> Laconic:
        """Train the model further on new texts, with known or new labels; `settings` are those of the update."""
        model = self._whole_model()
        corpus, config = _corpus("train", texts, labels, label_texts), configure(Further, _nested(settings))
        model = update(model, corpus, config, Run.unkept(self.device))
        return self._with_model(model, Predictor(model, self.device))

    def calibrate(self, texts: Iterable[str], labels: Iterable[Iterable[LabelName]]) -> Laconic:
        """Calibrate scores on at least 50 texts that the model was not trained on.

        A later change of the model ends its calibration, unless `update` fits a new one.
        """
        model = calibrate(self._whole_model(), _corpus("test", texts, labels), "test", device_named(self.device))
        return self._with_model(model, Predictor(model, self.device))

    def pack(self, texts: Iterable[str] = ()) -> Laconic:
        """Pack the model for prediction on a CPU, which is much faster and nearly as accurate; `save` writes it too.

        `texts`, such as those of training, tune how much of the model is searched.
        """
        model, every = self._whole_model(), _texts(texts)
        split = Split(labels=csr_array((len(every), len(model.labels)), dtype=np.float32), texts=every)
        corpus = Corpus(splits={"train": split}, labels=model.labels, source="texts in memory")
        return self._with_model(model, packed_predictor(pack(model, corpus, self.device)))

    def save(self, folder: Path | str) -> None:
        """Write a model folder, for `Laconic.load` and for the command line; replace an older model there."""
        model, folder = self._whole_model(), Path(folder)
        write_model(model, folder)
        if self.predictor_.packed is not None:
            write_packed(of_version(self.predictor_.packed, version_of(folder)), folder / PACKED)

    @staticmethod
    def load(folder: Path | str, *, device: str = "auto") -> Laconic:
        """Load the model of a folder with all of its settings, including those that training chose.

        On a CPU its packed version is used, where the folder has one. A packed folder can be loaded alone.
        """
        folder = Path(folder)
        if is_packed(folder):
            alone = open_packed_predictor(folder, device=device)
            loaded = _estimator_of(alone.facts, device)
            loaded.predictor_, loaded.labels_ = alone, alone.labels
            return loaded
        model, packed = read_model(folder), packed_of(folder) if on_cpu(device) else None
        predictor = Predictor(model, device) if packed is None else packed_predictor(packed)
        return _estimator_of(model.facts, device)._with_model(model, predictor)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters that the estimator was made with, for scikit-learn's cloning and grid searches."""
        return {**{name: getattr(self, name) for name in _OWN}, **self.settings}

    def set_params(self, **params: Any) -> Laconic:
        """Set parameters for the next `fit`. A group that is set as a whole replaces settings inside it."""
        for name in _OWN:
            setattr(self, name, params.pop(name, getattr(self, name)))
        kept = {name: value for name, value in self.settings.items() if name.partition("__")[0] not in params}
        self.settings = kept | params
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        inputs = InputTags(one_d_array=True, two_d_array=False, string=True)
        targets = TargetTags(required=True, multi_output=True, single_output=False)
        return Tags(estimator_type=None, target_tags=targets, input_tags=inputs)

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
            from sklearn.exceptions import NotFittedError

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


def scorer(metric: str) -> Callable[[Laconic, Iterable[str], Iterable[Iterable[LabelName]]], float]:
    """Return one metric of `Laconic.score`, such as nDCG@5, as the `scoring` of a grid search."""
    one = csr_array(np.ones((1, 1)))
    known = report(judge(np.zeros((1, 1), dtype=np.int64), one), TrainingCounts.of(one))
    if metric not in known:
        raise ConfigError(f"there is no metric {metric!r}; known are: {', '.join(known)}")
    return partial(_figure, metric)


def _figure(metric: str, model: Laconic, texts: Iterable[str], labels: Iterable[Iterable[LabelName]]) -> float:
    return model.score(texts, labels)[metric]


def _nested(settings: Mapping[str, Any]) -> Settings:
    """Return settings as `configure` reads them: group__name inside its group, numpy numbers as Python's own."""
    nested = {name: value for name, value in settings.items() if "__" not in name}
    for name in settings:
        group, marker, inner = name.partition("__")
        if not marker:
            continue
        others = nested.get(group, {})
        if not isinstance(others, Mapping):
            raise ConfigError(f"{name}: {group!r} is a single value, {others!r}, so nothing can be set inside it")
        nested[group] = {**others, inner: settings[name]}
    return {name: _plain(value) for name, value in nested.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _nested(value)
    return value.item() if isinstance(value, np.generic) else value


def _corpus(split: str, texts: object, labels: object, label_texts: object = None) -> Corpus:
    every_text, every_labels = _texts(texts), _label_lists(labels)
    if len(every_text) != len(every_labels):
        raise DataError(
            f"there are {counted(len(every_text), 'text')}, but {counted(len(every_labels), 'list')} of labels"
        )
    if not every_text:
        raise DataError("there is no text at all; give at least one")
    rows = (Row(f"labels[{i}]", *row) for i, row in enumerate(zip(every_text, every_labels, strict=True)))
    label_rows = None if label_texts is None else _label_rows(label_texts)
    corpus = corpus_of({split: rows}, label_rows, source="texts in memory")
    if not corpus.splits[split].labels.nnz:
        raise DataError("no text has a label; give labels as lists of names, one list for each text")
    return corpus


def _texts(texts: object) -> list[str]:
    return [_text(value, f"texts[{i}]") for i, value in enumerate(_items(texts, "texts", "a list of strings"))]


def _label_lists(labels: object) -> list[list[str]]:
    lists = _items(labels, "labels", "a list of lists of label names")
    return [_names(value, f"labels[{i}]") for i, value in enumerate(lists)]


def _label_rows(label_texts: object) -> Iterator[LabelRow]:
    if not isinstance(label_texts, Mapping):
        raise DataError(f"label_texts is {_shown(label_texts)}, where a dict of label names and texts is needed")
    for name, value in label_texts.items():
        place = f"label_texts[{name!r}]"
        yield LabelRow(place, _name(name, place), _text(value, place))


def _listed(names: Iterable[LabelName] | None) -> Iterable[str] | None:
    return names if names is None or isinstance(names, str) else [str(name) for name in names]


def _items(values: object, place: str, needed: str) -> list[Any]:
    """Return the items of a sequence; refuse strings, whose items are letters, and matrices."""
    mistaken = isinstance(values, str | bytes | Mapping | set | frozenset) or getattr(values, "ndim", 1) != 1
    if mistaken or not isinstance(values, Iterable):
        remedy = f"; write [{reprlib.repr(values)}]" if isinstance(values, str) else ""
        raise DataError(f"{place} is {_shown(values)}, where {needed} is needed{remedy}")
    return list(values)


def _names(values: object, place: str) -> list[str]:
    if isinstance(values, set | frozenset):  # of one text's labels: sorted, so that equal sets give equal models
        values = sorted(values, key=str)
    return [_name(value, f"{place}[{i}]") for i, value in enumerate(_items(values, place, "a list of label names"))]


def _name(value: object, place: str) -> str:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    return _text(value, place)


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{place} is {_shown(value)}, where a string is needed")
    return str(text(value, place))  # numpy's strings become plain ones


def _shown(value: object) -> str:
    return f"{reprlib.repr(value)} ({type(value).__name__})"
