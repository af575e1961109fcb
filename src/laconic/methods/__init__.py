"""The methods by name, the only registry of them, and the way from data to a finished model and back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from laconic import __version__
from laconic.calibration import uncalibrated, with_calibration
from laconic.checkpoint import SavedModel
from laconic.config import Settings, check_method, configure, merged, method_called, settings_of
from laconic.data.corpus import Corpus, Split
from laconic.data.dataset import Dataset, label_counts
from laconic.data.prepare import prepare, with_vectors
from laconic.data.sketch import TextSketch
from laconic.data.tokenizer import Tokenizer
from laconic.errors import ConfigError, DataError, ModelError
from laconic.machine import torch_within_cores
from laconic.methods import (
    astec,
    decaf,
    extra_texts,
    fusion,
    inceptionxml,
    inceptionxml_plus,
    mach,
    nearest,
    reranker,
    trees,
    xml_cnn,
)
from laconic.methods.calibrating import learnt_calibration
from laconic.methods.ensembles import ensemble_size, restore_members, train_members
from laconic.methods.trained import Trained
from laconic.methods.validating import held_out_figures
from laconic.rankers import Ranker
from laconic.run import Run, fingerprint


@dataclass(frozen=True)
class Method:
    """What a file of methods/ offers."""

    config: type[Any]
    train: Callable[[Dataset, Any, Run], Trained]
    restore: Callable[[Any, Mapping[str, Tensor]], Ranker]
    reads_label_texts: Callable[[Any], bool]  # whether its config has a use for them
    on_gpu: bool  # whether its ranker may be moved to one
    answering: frozenset[str] = frozenset()  # settings that say how a model answers, not what it has learnt
    # How so many members are trained where they share something; None: each by itself.
    together: Callable[[int], Callable[[Dataset, Any, Run], Trained]] | None = None


METHODS = {
    "nearest": Method(
        nearest.Config,
        nearest.train,
        nearest.restore,
        reads_label_texts=lambda config: True,
        on_gpu=False,
        answering=frozenset({"neighbours", "power", "label_text"}),
    ),
    "trees": Method(
        trees.Config,
        trees.train,
        trees.restore,
        reads_label_texts=lambda config: False,
        on_gpu=False,
        answering=frozenset({"beam"}),
    ),
    "inceptionxml": Method(
        inceptionxml.Config,
        inceptionxml.train,
        inceptionxml.restore,
        reads_label_texts=lambda config: False,
        on_gpu=True,
    ),
    "inceptionxml+": Method(
        inceptionxml_plus.Config,
        inceptionxml_plus.train,
        inceptionxml_plus.restore,
        reads_label_texts=lambda config: False,
        on_gpu=True,
        answering=frozenset({"answer_top", "ranking"}),
    ),
    "astec": Method(
        astec.Config,
        astec.train,
        astec.restore,
        reads_label_texts=lambda config: config.label_texts > 0,
        on_gpu=True,
        answering=frozenset({"beta", "votes", "shortlist"}),
    ),
    "decaf": Method(
        decaf.Config,
        decaf.train,
        decaf.restore,
        reads_label_texts=lambda config: config.label_text,
        on_gpu=True,
        answering=frozenset({"answer_beam"}),
        together=lambda members: partial(decaf.train_together, members),
    ),
    "xml-cnn": Method(
        xml_cnn.Config,
        xml_cnn.train,
        xml_cnn.restore,
        reads_label_texts=lambda config: False,
        on_gpu=True,
    ),
    "mach": Method(
        mach.Config,
        mach.train,
        mach.restore,
        reads_label_texts=lambda config: False,
        on_gpu=True,
    ),
}


def config_of(method_name: str, settings: Settings) -> Any:
    """The method's config: its own defaults where the settings say nothing.

    A group among them that is named like one of OVER, be it empty, puts that over the method.
    """
    return configure(ensemble_of(method_name, 1, over=settings).config, settings)


def reranked(method: Method) -> Method:
    """The method with a re-ranker over its ranker."""
    return replace(
        method,
        config=reranker.config_over(method.config),
        train=partial(reranker.train_over, method.train),
        restore=partial(reranker.restore_over, method.restore),
        answering=method.answering | {"reranker.alpha", "reranker.size"},
        together=None,
    )


def fused(method: Method) -> Method:
    """The method with its answers weighed together with those of trees and of nearest."""
    return replace(
        method,
        config=fusion.config_over(method.config),
        train=partial(fusion.train_over, method.train),
        restore=partial(fusion.restore_over, method.restore),
        reads_label_texts=lambda config: True,
        answering=method.answering | {"fusion.tail"},
        together=None,
    )


def with_extra_texts(method: Method) -> Method:
    """The method learning from the labels' own texts too."""
    together = method.together
    return replace(
        method,
        config=extra_texts.config_over(method.config),
        train=partial(extra_texts.train_over, method.train),
        reads_label_texts=lambda config: True,
        together=None if together is None else lambda members: partial(extra_texts.train_over, together(members)),
    )


# What can be put over any method, innermost first; the settings of each are a group of that name.
OVER: dict[str, Callable[[Method], Method]] = {
    "reranker": reranked,
    "fusion": fused,
    "extra_texts": with_extra_texts,  # outermost: all that learns learns from them too
}


SHORT = {"reranker": "alpha", "fusion": "tail"}  # a dial of each that may be named without its group


def put_over(config: Any) -> list[str]:
    """What a config has over its method."""
    return [name for name in OVER if hasattr(config, name)]


def ensemble_of(method_name: str, members: int, *, over: Collection[str] = ()) -> Method:
    """The method that trains and restores so many members of another; of one member, that other itself.

    What is named in `over` is over each member: only so are there texts that what is under it has not learnt from.
    """
    method = _method_named(method_name)
    for name in OVER:
        method = OVER[name](method) if name in over else method
    if type(members) is not int or members < 1:
        raise ConfigError(f"ensemble must be a whole number of 1 or more, but is {members!r}")
    if members == 1:
        return method
    if "seed" not in {field.name for field in fields(method.config)}:
        raise ConfigError(
            f"ensemble must be 1 for {method_name}, but is {members}: members differ by their seed, and it has none"
        )
    return replace(
        method,
        train=method.together(members) if method.together else partial(train_members, method.train, members),
        restore=partial(restore_members, method.restore, members),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """A training with all that decides what is learnt: method, settings and prepared data."""

    corpus: Corpus
    method_name: str
    config: Any
    members: int
    data: Dataset
    tokenizer: Tokenizer | None  # None: the inputs are features, not texts

    @classmethod
    def of(cls, corpus: Corpus, method_name: str, config: Any, members: int = 1) -> Training:
        """Prepare the corpus's training split; several members answer together."""
        method_name = method_called(method_name)
        method = ensemble_of(method_name, members, over=put_over(config))
        if not len(corpus.split("train")):
            raise DataError(f"{corpus.source}: there are no training texts")
        corpus.check_labelled()
        with_label_texts = method.reads_label_texts(config)
        prepared = prepare(corpus, config.text, config.vocabulary, with_label_texts=with_label_texts)
        data, tokenizer = prepared
        if getattr(config, "vectors", ""):
            data = with_vectors(prepared, corpus, Path(config.vectors))
        return cls(
            corpus=corpus, method_name=method_name, config=config, members=members, data=data, tokenizer=tokenizer
        )

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Return what another training must have in common with this one to learn the same."""
        holdout, labels = self.corpus.holdout, self.corpus.labels
        return {
            "method": self.method_name,
            "config": settings_of(self.config),
            "data": fingerprint(self.data, [*labels.names, *(labels.texts or ())]),
            "ensemble": self.members,
            "test": 0 if holdout is None else holdout.fraction,
        }

    @torch_within_cores()
    def run(self, run: Run) -> SavedModel:
        """Train; a run that was stopped goes on."""
        corpus, data = self.corpus, self.data
        method = ensemble_of(self.method_name, self.members, over=put_over(self.config))
        run.begin(self.facts)
        trained = method.train(data, self.config, run)
        one_split = self.members == 1 or method.together is not None
        calibration = learnt_calibration(trained, data, one_split=one_split)
        figures = None
        if "test" not in corpus.splits:
            figures = held_out_figures(trained, data, corpus.constants(), one_split=one_split)
        return SavedModel(
            facts=_facts(corpus, data, self.method_name)
            | {"config": settings_of(trained.config), **trained.facts, "run": self.facts}
            | calibration
            | ({} if figures is None else {"metrics": figures}),
            tensors=trained.ranker.state_dict(),
            labels=corpus.labels,
            label_counts=label_counts(corpus.split("train").labels),
            vocabulary=None if self.tokenizer is None else self.tokenizer.vocabulary,
            sketch=_sketch(corpus.split("train")),
        )


def train_model(corpus: Corpus, method_name: str, config: Any, run: Run, members: int = 1) -> SavedModel:
    """Trains on the corpus's training split; a run that was stopped goes on. Several members answer together."""
    return Training.of(corpus, method_name, config, members).run(run)


def _sketch(split: Split) -> TextSketch | None:
    hashes = split.hashes()
    return None if hashes is None else TextSketch.of(hashes)


def restore_ranker(model: SavedModel, device: torch.device) -> Ranker:
    method = _known(model)
    ranker = method.restore(restore_config(model), model.tensors)
    return ranker.to(device) if method.on_gpu else ranker


def with_settings(model: SavedModel, settings: Settings) -> SavedModel:
    """The model with some settings overruled; what it has learnt cannot be. `alpha` and `tail` are short names.

    What its scores are worth is known of its own settings alone: they are no longer calibrated.
    """
    method = _known(model)
    for group, name in SHORT.items():
        if name in settings and f"{group}.{name}" in method.answering:
            others = {key: value for key, value in settings.items() if key != name}
            settings = merged(others, {group: {name: settings[name]}})
    config = settings_of(configure(method.config, merged(settings_of(restore_config(model)), settings)))
    for name in _dotted(settings):
        if not any(f"{name}.".startswith(f"{one}.") for one in method.answering):
            known = ", ".join(sorted(method.answering)) or "nothing"
            raise ConfigError(f"{name} is part of what the model has learnt; what can be overruled is {known}")
    facts = with_calibration(model.facts, uncalibrated("settings were overruled"))
    return replace(model, facts={**facts, "config": config})


def _dotted(settings: Settings, prefix: str = "") -> Iterator[str]:
    """The names of all settings, those of groups as in `reranker.alpha`."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def restore_config(model: SavedModel) -> Any:
    try:
        return configure(_known(model).config, model.facts["config"])
    except (ConfigError, KeyError, TypeError) as error:
        raise ModelError(f"the model's settings are not those of this version: {error}") from None


def _known(model: SavedModel) -> Method:
    try:
        groups = model.facts.get("config") or {}
        return ensemble_of(model.facts.get("method", ""), ensemble_size(model), over=groups)
    except ConfigError as error:
        raise ModelError(f"the model was made by another version: {error}") from None


def _method_named(name: str) -> Method:
    check_method(name)
    return METHODS[method_called(name)]


def _facts(corpus: Corpus, data: Dataset, method: str) -> dict[str, Any]:
    split, name = corpus.split("train"), Path(corpus.source).name
    dense = isinstance(data.inputs, np.ndarray)
    return {
        "laconic": __version__,
        "method": method,
        "inputs": "text" if split.texts is not None else "dense" if dense else "sparse",
        "sizes": {
            "labels": data.num_labels,
            "texts": len(data),
            "pairs": int(data.labels.nnz),
            "inputs": data.inputs.shape[1],
        },
        "data": {"name": name, **_separator(corpus)}
        | ({} if corpus.holdout is None else {"holdout": corpus.holdout.facts()}),
        "propensity": asdict(corpus.constants()),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _separator(corpus: Corpus) -> dict[str, str]:
    """What separated labels in training data that is a table, so that tables for this model are read like it."""
    return {"separator": corpus.table.separator} if corpus.table is not None and corpus.table.separator else {}
