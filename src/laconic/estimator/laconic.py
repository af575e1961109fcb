"""The estimator itself: it is fitted, saved and loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from laconic.config import AUTO
from laconic.data.fields import fields_given, spec_in_facts
from laconic.data.formats.memory import corpus_in_memory, with_label_attributes
from laconic.errors import ConfigError, ModelError
from laconic.estimator.changes import Changes
from laconic.estimator.parameters import budget_seconds, plain, settings_with_preset
from laconic.export.pack import write_alone
from laconic.methods.auto import choose, config_for, describe_situation
from laconic.methods.first_kernels import remember_kernels
from laconic.methods.registry import config_of
from laconic.methods.stage_memory import planned_within
from laconic.methods.train import train_model
from laconic.packed.folder import is_packed, of_version, write_packed
from laconic.predict.load import on_cpu, open_packed_predictor, packed_of, packed_predictor
from laconic.predict.predictor import Predictor
from laconic.storage.manifest import PACKED, version_of
from laconic.storage.model_folder import read_model, write_model
from laconic.trackers.registry import trackers_named
from laconic.training.deadline import deadline_of
from laconic.training.run import Run, device_named
from laconic.training.watchers import watcher_for
from laconic.units import counted, human_seconds


class Laconic(Changes):
    """Assigns short texts the few right labels out of many, as an estimator of scikit-learn.

    Args:
        method: Name of a training method, which `laconic settings METHOD` describes; "auto" chooses one that suits the
            data and the machine.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        ensemble: Number of models, with different seeds, whose scores are averaged.
        ignore_memory: Train even where memory seems too small; otherwise `fit` refuses.
        budget: With "auto": time of training, such as "90s", "5m" or "2h"; a number is in minutes.
        preset: Name of a preset of the method ("laptop"), or a TOML file; settings override it.
        classes: Names of the columns where `labels` is a matrix of 0 and 1; None means their numbers.
        fields: Columns or keys that texts are joined of, where they come in a frame or as a list of dicts: a list of
            names, a dict of names and weights, or a text such as "title:2,subtitle", where the title counts twice. None
            means one column of texts.
        random_state: Seed of all random choices, an integer or a `numpy.random.RandomState`; None is the method's own
            default, so that results can be repeated. Methods without random choices ignore it.
        n_jobs: Processor cores to use; None or -1 means all that this process may use.
        verbose: 1 shows the progress of training, in a notebook in the cell. The logger `laconic` gets it at the level
            INFO in any case.
        track: Trackers of experiments that are told of every `fit` and `update`: "mlflow" or "wandb", with an
            experiment or project as in "mlflow:titles", or a list of them. An active run of theirs is joined. They get
            parameters and metrics; `laconic.mlflow.log_model` stores the model.
        class_weight: How much the true pairs of a label weigh in training, for methods that can weigh them: a dict of
            label names and weights, in which others have 1, or "balanced", by which all labels weigh the same in sum,
            however many texts they have. None means that all pairs weigh the same.
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

    def fit(
        self,
        texts: Iterable[str],
        labels: Iterable[Any] | None = None,
        label_texts: Mapping[str, str] | Mapping[int, str] | None = None,
        label_attributes: Mapping[Any, Mapping[str, Any]] | None = None,
        groups: Iterable[Any] | None = None,
    ) -> Laconic:
        """Train on texts with their labels.

        Args:
            texts: Texts: a list, an array, a pandas Series, or a DataFrame with a column of texts.
            labels: The labels of each text: a list of names, or one name, for each text; or a matrix of 0 and 1, dense
                or sparse, with a column for each label, which `classes` names. May be left out where `texts` is a
                DataFrame with a column of labels.
            label_texts: The labels' own texts, for methods that read them; a label that has only a text can be
                predicted too.
            label_attributes: Attributes of labels by name, such as `{"flower": {"kingdom": "plant"}}`, which
                `predict(..., where={"kingdom": "plant"})` filters by; a value may be a list of several.
            groups: The group of each text, such as its source; None: it is alone. Texts of one group are held out of
                training together, so that settings and scores are made for texts of groups that are new.

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
        began = monotonic()
        budget, members = budget_seconds(self.budget, self.method), plain(self.ensemble)
        if self.class_weight is not None and self.method == AUTO:
            raise ConfigError("class_weight is for a named method, such as Laconic('trees', class_weight='balanced')")
        wanted = settings_with_preset(self.method, self.preset, self.settings)
        config = None if self.method == AUTO else config_of(self.method, self._seeded(self.method, wanted))
        fields, method = fields_given(self.fields), self.method
        corpus = corpus_in_memory("train", texts, labels, label_texts, self.classes, fields, groups)
        corpus = with_label_attributes(corpus, label_attributes)
        with self._cores(), trackers_named(self.track) as trackers:
            watcher, device = watcher_for(bool(self.verbose)), device_named(self.device)
            run = Run(None, watcher=watcher, device=device, ignore_memory=self.ignore_memory, trackers=trackers)
            if config is None:
                each = None if budget is None else budget / members
                situation = describe_situation(corpus, gpu=run.device.type == "cuda", budget=each)
                choice = choose(situation)
                method, (_, config) = choice.method, config_for(choice, self._seeded(choice.method, wanted))
                members *= choice.members
                run.deadline = deadline_of(planned_within(situation, method, config, members), budget, began)
                watcher.report(f"Chosen: {choice.why}")
                watcher.is_announced = True
            sizes = f"{counted(len(corpus.split('train')), 'text')}, {counted(len(corpus.labels), 'label')}"
            watcher.report(f"Training {method} on {sizes}")
            model = train_model(corpus, method, config, run, members, self.class_weight)
            trackers.log_figures(model.facts)
            remember_kernels(method, [stage.stage for stage in run.stages], gpu=run.device.type == "cuda")
            watcher.report(f"Trained {method} in {human_seconds(monotonic() - began)}")
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

    def save(self, folder: Path | str, *, keep_torch: bool = True) -> None:
        """Write a model folder, for `Laconic.load` and for the command line.

        Args:
            folder: The folder to write; an older model there is replaced. It is refused while another process or
                thread writes it.
            keep_torch: Whether to keep the torch weights, which changing and exporting the model take. False writes the
                packed model alone, of which there must be one (`pack`); it predicts, evaluates and explains.

        Examples:
            >>> from tempfile import TemporaryDirectory
            >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
            >>> with TemporaryDirectory() as folder:
            ...     model.save(f"{folder}/model")
            ...     Laconic.load(f"{folder}/model").predict("a rose", k=1)[0].label
            'flower'
        """
        packed = self._predictor().packed
        if not keep_torch:
            if packed is None:
                raise ModelError("keep_torch=False writes the packed model alone, but there is none; call pack(texts)")
            facts = self.model_.facts if hasattr(self, "model_") else packed.facts
            write_alone(packed, Path(folder), facts=facts)
            return
        model = self._whole_model()

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


def _estimator_of(facts: Mapping[str, Any], device: str) -> Laconic:
    """Return an estimator with the method and settings of a model, which this version must know."""
    match facts:
        case {"method": str(method), "config": dict(settings)}:
            try:
                config_of(method, settings)
            except ConfigError as error:
                raise ModelError(f"the model's settings are not those of this version: {error}") from None
            members, fields = facts.get("ensemble", 1), spec_in_facts(facts) or None
            weights = facts.get("class_weight")
            return Laconic(method, device=device, ensemble=members, fields=fields, class_weight=weights, **settings)
    raise ModelError("the model does not state its method and settings; pack it again")
