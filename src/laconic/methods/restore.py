"""Turn a saved model back into a ranker and its settings."""

from __future__ import annotations

import difflib
from dataclasses import replace
from functools import reduce

import torch

from laconic.config import Settings, check_names, configure, dotted, merged, settings_of
from laconic.errors import ConfigError, ModelError
from laconic.methods.config import MethodConfig
from laconic.methods.registry import SHORT_NAMES, Method, ensemble_of
from laconic.methods.wrappers.ensemble import ensemble_size
from laconic.models.rankers import Ranker
from laconic.storage.facts import uncalibrated, with_calibration
from laconic.storage.model_folder import SavedModel


def restore_ranker(model: SavedModel, device: torch.device) -> Ranker:
    method = _known(model)
    ranker = method.restore(restore_config(model), model.tensors)
    return ranker.to(device) if method.on_gpu else ranker


def move_ranker(ranker: Ranker, model: SavedModel, device: torch.device) -> Ranker:
    """Move a ranker of this model to a device, unless its method answers on the CPU alone."""
    return ranker.to(device) if _known(model).on_gpu else ranker


def with_settings(model: SavedModel, settings: Settings) -> SavedModel:
    """Return the model with other prediction settings; `alpha` and `tail` may be given without their group.

    Its scores are no longer calibrated: the calibration holds for its own settings alone.
    """
    method = _known(model)
    for group, name in SHORT_NAMES.items():
        if name in settings and f"{group}.{name}" in method.prediction_settings:
            others = {key: value for key, value in settings.items() if key != name}
            settings = merged(others, {group: {name: settings[name]}})
    _check_changeable(settings, method)
    config = settings_of(configure(method.config, merged(settings_of(restore_config(model)), settings)))
    facts = with_calibration(model.facts, uncalibrated("settings were changed after training"))
    return replace(model, facts={**facts, "config": config})


def _check_changeable(settings: Settings, method: Method) -> None:
    """Refuse the first name that is no prediction setting; suggest none that would be refused in turn."""
    known = ", ".join(sorted(method.prediction_settings)) or "nothing"
    for name, value in dotted(settings):
        if any(f"{name}.".startswith(f"{one}.") for one in method.prediction_settings):
            continue
        try:
            check_names(method.config, reduce(lambda inner, part: {part: inner}, reversed(name.split(".")), value))
        except ConfigError:
            near = difflib.get_close_matches(name, method.prediction_settings, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"what can be changed without training is {known}"
            raise ConfigError(f"there is no setting {name!r}; {meant}") from None
        raise ConfigError(f"{name} cannot be changed without training; what can be changed is {known}")


def restore_config(model: SavedModel) -> MethodConfig:
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
