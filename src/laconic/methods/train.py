"""Train a method on a corpus, from prepared data to a saved model."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from laconic import __version__
from laconic.config import AUTO, method_called, settings_of
from laconic.data.class_weight import ClassWeight, label_weights
from laconic.data.corpus import Corpus, Labels, Split
from laconic.data.dataset import Dataset, label_counts
from laconic.data.encoder_folder import read_pretrained
from laconic.data.languages import main_language
from laconic.data.prepare import prepare, with_vectors
from laconic.data.sketch import TextSketch
from laconic.data.stems import LANGUAGES
from laconic.data.tokenizer import Tokenizer
from laconic.errors import DataError
from laconic.methods.config import MethodConfig
from laconic.methods.fit import Learning, Learnt
from laconic.methods.registry import check_weighable, ensemble_of, wrappers_of
from laconic.methods.transformer import pretrained_of, with_pretrained
from laconic.methods.wrappers.encoder_channel import channel_of, with_channel
from laconic.storage.model_folder import SavedModel
from laconic.training.run import Run, fingerprint

log = logging.getLogger(__name__)
C = TypeVar("C", bound=MethodConfig)


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """A training with everything that decides its result: method, settings and prepared data."""

    corpus: Corpus
    method_name: str
    config: MethodConfig
    members: int
    data: Dataset
    tokenizer: Tokenizer | None  # None: the inputs are features, not texts
    class_weight: ClassWeight = None

    @classmethod
    def of(
        cls,
        corpus: Corpus,
        method_name: str,
        config: MethodConfig,
        members: int = 1,
        class_weight: ClassWeight = None,
    ) -> Training:
        """Prepare the corpus's training split; several members are an ensemble."""
        method_name = method_called(method_name)
        method = ensemble_of(method_name, members, over=wrappers_of(config))
        if not len(corpus.split("train")):
            raise DataError(f"{corpus.source}: there are no training texts")
        corpus.check_labelled()
        with_label_texts, config = method.reads_label_texts(config), with_language(config, corpus)
        pretrained = pretrained_of(config)
        if pretrained is not None:
            config = with_pretrained(config, pretrained)
        prepared = prepare(
            corpus, config.text, config.vocabulary, with_label_texts=with_label_texts, pretrained=pretrained
        )
        data, tokenizer = prepared
        if (channel := channel_of(config)) is not None:
            own = read_pretrained(Path(channel.folder))
            config, data = with_channel(config, own), replace(data, pretrained=own)
        if config.vectors:
            data = with_vectors(prepared, corpus, Path(config.vectors))
        weights = label_weights(class_weight, corpus.labels.names, data.label_counts)
        if weights is not None:
            check_weighable(method_name, config)
        return cls(
            corpus=corpus,
            method_name=method_name,
            config=config,
            members=members,
            data=replace(data, label_weights=weights),
            tokenizer=tokenizer,
            class_weight=class_weight,
        )

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return what decides the result: another training with equal facts learns the same."""
        return self.learning.facts

    @cached_property
    def learning(self) -> Learning:
        """Return what several ranks do together; the rest of a training is the first one's."""
        holdout, labels = self.corpus.holdout, self.corpus.labels
        facts = {
            "method": self.method_name,
            "config": settings_of(self.config),
            "data": fingerprint(self.data, [*labels.names, *(labels.texts or ()), *_attributes(labels)]),
            "ensemble": self.members,
            "test": 0 if holdout is None else holdout.fraction,
            **({} if self.data.pretrained is None else {"encoder": self.data.pretrained.digest}),
            **self._weighed,
        }
        return Learning(
            method_name=self.method_name,
            config=self.config,
            members=self.members,
            data=self.data,
            facts=facts,
            judged=None if "test" in self.corpus.splits else self.corpus.constants(),
        )

    @property
    def _weighed(self) -> dict[str, Any]:
        """Return what model.json says of the weights of labels; nothing where all weigh the same."""
        given = self.class_weight
        if given is None:
            return {}
        named = {str(name): float(weight) for name, weight in given.items()} if isinstance(given, Mapping) else given
        return {"class_weight": named}

    def run(self, run: Run) -> SavedModel:
        """Train, or resume a run that was interrupted. Of several ranks the first one returns the whole model."""
        return self.model(self.learning.run(run))

    def model(self, learnt: Learnt) -> SavedModel:
        """Return the model of what was learnt from this training's data."""
        corpus = self.corpus
        return SavedModel(
            facts=_facts(corpus, self.data, self.method_name) | learnt.facts | self._weighed,
            tensors=learnt.tensors,
            labels=corpus.labels,
            label_counts=label_counts(corpus.split("train").labels),
            vocabulary=None if self.tokenizer is None else self.tokenizer.vocabulary,
            sketch=_sketch(corpus.split("train")),
        )


def with_language(config: C, corpus: Corpus) -> C:
    """Return the settings with the language of the training texts where it was left to them."""
    if config.text.language != AUTO:
        return config
    found = main_language(corpus.split("train").texts or ())
    log.info("text.language=auto: %s", LANGUAGES.get(found, "words are not stemmed"))
    return replace(config, text=replace(config.text, language=found if found in LANGUAGES else ""))


def train_model(
    corpus: Corpus,
    method_name: str,
    config: MethodConfig,
    run: Run,
    members: int = 1,
    class_weight: ClassWeight = None,
) -> SavedModel:
    """Train on the corpus's training split, or resume an interrupted run; several members are an ensemble."""
    return Training.of(corpus, method_name, config, members, class_weight).run(run)


def _attributes(labels: Labels) -> list[str]:
    """Return the attributes of labels as strings; none where there are no attributes."""
    return [] if labels.attributes is None else [str(sorted(own.items())) for own in labels.attribute_values()]


def _sketch(split: Split) -> TextSketch | None:
    hashes = split.hashes()
    return None if hashes is None else TextSketch.of(hashes)


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
        "data": {"name": name, **_separator(corpus), **({"fields": corpus.fields} if corpus.fields else {})}
        | ({} if corpus.holdout is None else {"holdout": corpus.holdout.facts()}),
        "propensity": asdict(corpus.constants()),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _separator(corpus: Corpus) -> dict[str, str]:
    """Return the separator of labels in training data that is a table; other tables are then read the same way."""
    return {"separator": corpus.table.separator} if corpus.table is not None and corpus.table.separator else {}
