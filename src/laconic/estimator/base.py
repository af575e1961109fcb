"""The parameters of the estimator, as scikit-learn asks for them, and its fitted model."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from laconic.config import AUTO, Settings
from laconic.data.corpus import Corpus
from laconic.data.fields import fields_given
from laconic.data.formats.memory import corpus_in_memory, is_matrix, texts_in_memory
from laconic.errors import ConfigError, ModelError
from laconic.estimator.notebook import table
from laconic.estimator.parameters import plain, refuse_unknown, with_seed
from laconic.evaluation.thresholds import Threshold
from laconic.predict.interface import TextPredictor
from laconic.storage.model_folder import SavedModel
from laconic.system.machine import at_most_cores, usable_cores

# Parameters that are not a method's settings, with their defaults.
_OWN: dict[str, Any] = {"device": "auto", "ensemble": 1, "ignore_memory": False}
_OWN |= {"budget": None, "preset": None, "classes": None, "random_state": None, "n_jobs": None, "verbose": 0}
_OWN |= {"track": None, "fields": None, "class_weight": None}


class Parameters(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator with its parameters and, once fitted, its model; what it does is in the classes over it."""

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
        fields: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        track: Any = None,
        class_weight: Any = None,
        **settings: Any,
    ) -> None:
        self.method, self.device, self.ensemble, self.settings = method, device, ensemble, settings
        self.ignore_memory, self.budget, self.preset, self.classes = ignore_memory, budget, preset, classes
        self.random_state, self.n_jobs, self.verbose, self.track = random_state, n_jobs, verbose, track
        self.fields, self.class_weight = fields, class_weight

    def __repr__(self) -> str:
        given = {
            name: reprlib.repr(value) if name in ("classes", "class_weight") else repr(value)
            for name, value in self._given().items()
        }
        parameters = [repr(self.method), *(f"{name}={value}" for name, value in given.items())]
        return f"{type(self).__name__}({', '.join(parameters)})"

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

    def set_params(self, **params: Any) -> Self:
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
        return corpus_in_memory(split, texts, labels, label_texts, classes, fields_given(self.fields))

    def _texts(self, texts: object) -> list[str]:
        """Return texts as strings; those of frames and dicts are joined of the estimator's fields."""
        return texts_in_memory(texts, fields_given(self.fields))

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

    def _with_model(self, model: SavedModel, predictor: TextPredictor) -> Self:
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
