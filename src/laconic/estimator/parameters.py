"""Read the parameters of the estimator: groups of settings, presets, budgets and seeds, and names that are unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from laconic.config import AUTO, Settings, check_names, merged, method_called, preset_path, read_settings
from laconic.errors import ConfigError
from laconic.methods.registry import METHODS
from laconic.units import seconds_of


def refuse_unknown(method: object, settings: Mapping[str, Any]) -> None:
    """Refuse the first setting that the method does not have; with "auto", the first that no method has.

    An unknown method is left to `fit`.
    """
    if isinstance(method, str) and method == AUTO:
        for name, value in settings.items():
            _refuse_of_all({name: value})
    elif isinstance(method, str) and method_called(method) in METHODS:
        check_names(METHODS[method_called(method)].config, nested(settings))


def _refuse_of_all(setting: Mapping[str, Any]) -> None:
    error = None
    for method in METHODS.values():
        try:
            check_names(method.config, nested(setting))
        except ConfigError as mistake:
            if error is None or "did you mean" in str(mistake):
                error = mistake
        else:
            return
    assert error is not None  # there are methods
    raise error


def settings_with_preset(method: str, preset: str | None, settings: Mapping[str, Any]) -> Settings:
    """Return a method's settings as `configure` reads them; they override those of the preset."""
    if preset is None:
        return nested(settings)
    if method == AUTO:
        raise ConfigError(f"preset {preset!r} is for a named method; name one, such as Laconic('astec', preset=...)")
    return merged(read_settings(preset_path(method_called(method), preset), []), nested(settings))


def with_seed(method: str, settings: Settings, random_state: Any) -> Settings:
    """Return the settings with the seed of `random_state`, if it is given and the method has random choices."""
    known = METHODS[method_called(method)].config if method_called(method) in METHODS else None
    if random_state is None or known is None or "seed" not in {field.name for field in fields(known)}:
        return settings
    if "seed" in settings:
        raise ConfigError("random_state and seed are the same setting; give one of them")
    return {**settings, "seed": _seed(random_state)}


def budget_seconds(budget: str | float | None, method: str) -> float | None:
    """Return a time budget in seconds; refuse one where a method is named, as it is for the choice of one."""
    if budget is None:
        return None
    if method != AUTO:
        raise ConfigError(f"budget chooses a method, but {method!r} is named; leave one of them out")
    return seconds_of(str(budget))


def nested(settings: Mapping[str, Any]) -> Settings:
    """Return settings as `configure` reads them: group__name inside its group, numpy numbers as Python's own."""
    found = {name: value for name, value in settings.items() if "__" not in name}
    for name in settings:
        group, marker, inner = name.partition("__")
        if not marker:
            continue
        others = found.get(group, {})
        if not isinstance(others, Mapping):
            raise ConfigError(f"{name}: {group!r} is a single value, {others!r}, so nothing can be set inside it")
        found[group] = {**others, inner: settings[name]}
    return {name: plain(value) for name, value in found.items()}


def plain(value: Any) -> Any:
    """Return numpy numbers as Python's own."""
    if isinstance(value, Mapping):
        return nested(value)
    return value.item() if isinstance(value, np.generic) else value


def _seed(random_state: Any) -> int:
    """Return an integer of a seed, or drawn from a generator of numpy."""
    drawn = random_state.randint(1 << 31) if hasattr(random_state, "randint") else random_state
    if not isinstance(drawn, int | np.integer) or isinstance(drawn, bool):
        raise ConfigError(f"random_state must be an integer, a numpy RandomState or None, but is {random_state!r}")
    return int(drawn)
