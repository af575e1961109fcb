"""The methods by name, the only registry of them, and the way from data to a finished model and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from torch import Tensor

from laconic import __version__
from laconic.checkpoint import SavedModel
from laconic.config import Settings, configure, settings_of
from laconic.data.catalogue import propensity_of
from laconic.data.corpus import Corpus
from laconic.data.dataset import Dataset
from laconic.data.prepare import prepare
from laconic.errors import ConfigError, DataError, ModelError
from laconic.methods import nearest
from laconic.rankers import Ranker


@dataclass(frozen=True)
class Method:
    """What a file of methods/ offers."""

    config: type[Any]
    train: Callable[[Dataset, Any], Ranker]
    restore: Callable[[Any, Mapping[str, Tensor]], Ranker]


METHODS = {
    "nearest": Method(nearest.Config, nearest.train, nearest.restore),
}


def train_model(corpus: Corpus, method_name: str, settings: Settings) -> SavedModel:
    """Trains on the corpus's training split, with that method's defaults where the settings say nothing."""
    method = _method_named(method_name)
    config = configure(method.config, settings)
    if not len(corpus.split("train")):
        raise DataError(f"{corpus.source}: there are no training texts")
    data, tokenizer = prepare(corpus, config.text, config.vocabulary)
    ranker = method.train(data, config)
    return SavedModel(
        facts=_facts(corpus, data, method_name) | {"config": settings_of(config)},
        tensors=ranker.state_dict(),
        labels=corpus.labels,
        label_counts=data.label_counts,
        vocabulary=None if tokenizer is None else tokenizer.vocabulary,
    )


def restore_ranker(model: SavedModel) -> Ranker:
    return _known(model).restore(restore_config(model), model.tensors)


def restore_config(model: SavedModel) -> Any:
    try:
        return configure(_known(model).config, model.facts["config"])
    except (ConfigError, KeyError, TypeError) as error:
        raise ModelError(f"the model's settings are not those of this version: {error}") from None


def _known(model: SavedModel) -> Method:
    try:
        return _method_named(model.facts.get("method", ""))
    except ConfigError as error:
        raise ModelError(f"the model was made by another version: {error}") from None


def _method_named(name: str) -> Method:
    if name not in METHODS:
        raise ConfigError(f"there is no method {name!r}; known are: {', '.join(METHODS)}")
    return METHODS[name]


def _facts(corpus: Corpus, data: Dataset, method: str) -> dict[str, Any]:
    split, name = corpus.split("train"), Path(corpus.source).name
    dense = isinstance(data.inputs, np.ndarray)
    return {
        "laconic": __version__,
        "method": method,
        "inputs": "text" if split.texts is not None else "dense" if dense else "sparse",
        "sizes": {"labels": data.num_labels, "texts": len(data), "pairs": int(csr_array(data.labels).nnz)},
        "data": {"name": name},
        "propensity": asdict(propensity_of(name)),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
