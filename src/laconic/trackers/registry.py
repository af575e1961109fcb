"""The trackers by name, as `--track` and `track=` name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from laconic.errors import ConfigError, missing_package
from laconic.trackers.run import Tracker, Trackers

_TRACKERS = {"mlflow": "MLflow", "wandb": "WeightsAndBiases"}  # the module of each, and its class there


def trackers_named(
    words: str | Sequence[str] | None, title: str = "", about: Mapping[str, Any] | None = None
) -> Trackers:
    """Return trackers by their names, each followed by a colon and its experiment or project if that is not its own.

    A tracker whose package is not installed is an error that names the command to type.
    """
    listed = [words] if isinstance(words, str) else list(words or ())
    return Trackers([_tracker(word) for word in listed], title, about)


def _tracker(word: str) -> Tracker:
    name, _, place = word.partition(":") if isinstance(word, str) else (word, "", "")
    if name not in _TRACKERS:
        raise ConfigError(
            f"there is no tracker {name!r}; known are mlflow and wandb, with an experiment or project as in mlflow:NAME"
        )
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(missing_package("tracking", error) or str(error), name=error.name) from None
    tracker: Tracker = getattr(import_module(f"laconic.trackers.{name}"), _TRACKERS[name])(place)
    return tracker
