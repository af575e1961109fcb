"""The backend itself: Annif's documents, subjects and settings in the terms of `Laconic`, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import annif.exception
from annif.backend.backend import AnnifLearningBackend
from annif.suggestion import SubjectSuggestion, SuggestionBatch

from laconic.config import AUTO, Settings, read_settings
from laconic.errors import ConfigError, UserError
from laconic.estimator import Laconic
from laconic.integrations.annif.subjects import label_texts
from laconic.predict.prediction import Prediction

_SETTING = "set."  # what the names of a method's settings begin with in projects.cfg
_CORES_OF_ALL = 0  # Annif's --jobs


class LaconicBackend(AnnifLearningBackend):  # type: ignore[misc]  # Annif has no types
    """Laconic as a backend of Annif."""

    name = "laconic"
    DEFAULT_PARAMETERS = {"method": AUTO, "device": "cpu", "alternative_labels": True}  # noqa: RUF012  # Annif's own form
    FOLDER = "laconic-model"

    _model: Laconic | None = None

    def initialize(self, parallel: bool = False) -> None:
        """Load the model. With `parallel`, every process of Annif predicts on one core."""
        if self._model is None:
            if not self._folder.exists():
                raise annif.exception.NotInitializedException(
                    f"model {self._folder} not found", backend_id=self.backend_id
                )
            with self._errors():
                self._model = Laconic.load(self._folder, device=self.params["device"])
        if parallel:
            self._model.n_jobs = 1

    def _train(self, corpus: Any, params: Mapping[str, Any], jobs: int = 0) -> None:
        if corpus == "cached":
            raise annif.exception.NotSupportedException(
                "laconic keeps no training data; train without --cached", backend_id=self.backend_id
            )
        texts, labels = self._documents(corpus)
        with self._errors():
            model = Laconic(
                params["method"],
                device=params["device"],
                budget=params.get("budget"),
                preset=params.get("preset"),
                n_jobs=None if jobs == _CORES_OF_ALL else jobs,
                **_settings(params),
            )
            names = label_texts(self.project, alternatives=annif.util.boolean(params["alternative_labels"]))
            self._replace(model.fit(texts, labels, names), texts)

    def _learn(self, corpus: Any, params: Mapping[str, Any]) -> None:
        texts, labels = self._documents(corpus)
        self.initialize()
        assert self._model is not None
        with self._errors():
            self._replace(self._model.update(texts, labels), texts)

    def _suggest_batch(self, documents: Sequence[Any], params: Mapping[str, Any]) -> Any:
        assert self._model is not None
        with self._errors():
            answers = self._model.predict([document.text for document in documents], int(params["limit"]))
        return SuggestionBatch.from_sequence(
            [list(self._suggestions(answer)) for answer in answers], self.project.subjects
        )

    def _suggestions(self, answer: Sequence[Prediction]) -> Iterator[Any]:
        """Yield suggestions of subjects that the project has."""
        # Annif cuts scores off at 1, where those of a model that is not calibrated may still differ.
        largest = max((score for _, score in answer), default=1.0)
        for label, score in answer:
            number = self.project.subjects.by_uri(label, warnings=False)
            if number is not None:
                yield SubjectSuggestion(subject_id=number, score=score / max(largest, 1.0))

    def _documents(self, corpus: Any) -> tuple[list[str], list[list[str]]]:
        """Return the texts of all documents that have subjects, and the addresses of these."""
        found = [(document.text, self._addresses(document.subject_set)) for document in corpus.documents]
        labelled = [one for one in found if one[1]]
        if not labelled:
            raise annif.exception.NotSupportedException(
                "no document has a subject of the vocabulary", backend_id=self.backend_id
            )
        return [text for text, _ in labelled], [addresses for _, addresses in labelled]

    def _addresses(self, subjects: Iterable[int]) -> list[str]:
        return [self.project.subjects[number].uri for number in sorted(subjects)]

    def _replace(self, model: Laconic, texts: Sequence[str]) -> None:
        """Save a model in the place of the one before."""
        model.pack(texts).save(self._folder)
        self._model = model

    @property
    def _folder(self) -> Path:
        return Path(self.datadir) / self.FOLDER

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise errors of users as Annif's, which its command line shows without a traceback."""
        try:
            yield
        except ConfigError as error:
            raise annif.exception.ConfigurationException(str(error), backend_id=self.backend_id) from error
        except UserError as error:
            raise annif.exception.OperationFailedException(str(error), backend_id=self.backend_id) from error


def _settings(params: Mapping[str, Any]) -> Settings:
    """Return the method's settings: `set.epochs=20` in projects.cfg, or a table `set` in projects.toml."""
    assigned = [f"{name.removeprefix(_SETTING)}={value}" for name, value in params.items() if name.startswith(_SETTING)]
    return read_settings(None, assigned) | dict(params.get(_SETTING.rstrip("."), {}))
