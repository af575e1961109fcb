"""Convert settings (TOML files and key=value) to frozen dataclasses and back; unknown keys are errors."""

from __future__ import annotations

import difflib
import math
import tomllib
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from laconic.errors import ConfigError

AUTO = "auto"  # in place of a method's name: what suits the data, the machine and the time there is
# Here without the methods themselves, whose import takes seconds; laconic.methods has one of each name.
METHOD_NAMES = ("nearest", "trees", "siamese", "inceptionxml", "inceptionxml+", "astec", "decaf", "xml-cnn", "mach")
_OTHER_NAMES = {"syncxml": "inceptionxml+"}
_PRESETS = Path(__file__).with_name("presets")


@runtime_checkable
class Dataclass(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


C = TypeVar("C", bound=Dataclass)
Settings = dict[str, Any]
Bounds = Mapping[str, tuple[int | float, int | float]]  # the least and the largest value of settings
Choices = Mapping[str, Collection[str]]  # the values of settings that are names
_FEW = 12  # names that are still read when they are listed


def method_called(name: str) -> str:
    """Return the method's own name; older names are aliases."""
    return _OTHER_NAMES.get(name, name)


def check_method(name: str) -> None:
    """Refuse an unknown method."""
    if method_called(name) not in METHOD_NAMES:
        raise ConfigError(f"there is no method {name!r}; known are: {', '.join(METHOD_NAMES)}")


def read_settings(preset: Path | None, assignments: Iterable[str]) -> Settings:
    """Read a preset file's settings, overridden by assignments such as `surrogate.epochs=5`."""
    settings = {} if preset is None else _read_toml(preset)
    for assignment in assignments:
        _assign(settings, assignment)
    return settings


def preset_path(method: str, name: str) -> Path:
    """Return the path of the package's preset of that name, or of the user's file."""
    known = {path.stem: path for path in sorted((_PRESETS / method).glob("*.toml"))}
    if name in known:
        return known[name]
    if Path(name).is_file():
        return Path(name)
    has = f"the presets are: {', '.join(known)}" if known else "its settings suit any machine: leave the preset out"
    raise ConfigError(f"there is no preset {name!r} for {method}, nor such a file; {has}")


def configure(kind: type[C], settings: Mapping[str, Any], prefix: str = "") -> C:
    """Make a config of that kind from settings; defaults fill in, and names in its RETIRED are ignored."""
    settings = {name: value for name, value in settings.items() if name not in getattr(kind, "RETIRED", ())}
    check_names(kind, settings, prefix)
    types_by_name = typing.get_type_hints(kind)
    # A group of which some is set keeps the rest as it is in this config, which need not be the group's own default.
    usual = {field.name: field.default for field in fields(kind) if is_dataclass(field.default)}
    given = {
        name: settings_of(usual[name]) | value if name in usual and isinstance(value, dict) else value
        for name, value in settings.items()
    }
    return kind(**{name: _value(value, types_by_name[name], prefix + name) for name, value in given.items()})


def check_names(kind: type[Any], settings: Mapping[str, Any], prefix: str = "") -> None:
    """Refuse the first name that is no setting of this kind of config, nor in its RETIRED; look into groups too."""
    types_by_name = typing.get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    for name, value in settings.items():
        if name in names and isinstance(value, Mapping) and _is_group(types_by_name[name]):
            check_names(_group(types_by_name[name]), value, f"{prefix}{name}.")
        elif name not in names and name not in getattr(kind, "RETIRED", ()):
            known = sorted(names, key=lambda one: _is_group(types_by_name[one]))  # single settings first
            inside = [
                f"{group}.{inner.name}"
                for group in known
                if _is_group(types_by_name[group])
                for inner in fields(_group(types_by_name[group]))
            ]
            raise ConfigError(f"there is no setting {prefix + name!r}; {_suggestion(name, known, inside, prefix)}")


def _suggestion(name: str, known: list[str], inside: list[str], prefix: str) -> str:
    """Name the most similar of the known settings, or the group that has a setting of this name; else list them."""
    near = difflib.get_close_matches(name, known, n=1) or [one for one in inside if one.partition(".")[2] == name]
    if near:
        return f"did you mean {prefix + near[0]!r}?"
    if len(known) <= _FEW:
        return f"known are: {', '.join(prefix + one for one in known)}"
    return "`laconic settings METHOD` lists those of a method"


def settings_of(config: Any) -> Settings:
    """Return the config as plain values, such that `configure` restores it; a group that is not used is left out."""
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    unused = {name for name, kind in typing.get_type_hints(type(config)).items() if optional_group(kind)}
    return {
        name: settings_of(value) if is_dataclass(value) else value
        for name, value in values.items()
        if value is not None or name not in unused
    }


def dotted(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the names and values of all settings, those of groups as in `reranker.alpha`."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def check_within(config: Any, bounds: Bounds, group: str = "") -> None:
    """Raise an error for the first setting that is outside its bounds; `group` is its prefix, such as "shortlist."."""
    for name, (low, high) in bounds.items():
        if not low <= getattr(config, name, low) <= high:
            allowed = f"{low:,} or more" if high == math.inf else f"{low:,} to {high:,}"
            raise ConfigError(f"{group}{name} must be {allowed}, but is {getattr(config, name):,}")


def check_known(config: Any, known: Choices, group: str = "") -> None:
    """Raise an error for the first setting whose value is none of its known names; `group` is its prefix."""
    for name, names in known.items():
        if hasattr(config, name) and getattr(config, name) not in names:
            raise ConfigError(f"{group}{name} must be {' or '.join(names)}, but is {getattr(config, name)!r}")


def _is_group(wanted: Any) -> bool:
    return is_dataclass(wanted) or optional_group(wanted) is not None


def _group(wanted: Any) -> Any:
    """Return the dataclass of a group's type."""
    return wanted if is_dataclass(wanted) else optional_group(wanted)


def optional_group(wanted: Any) -> Any:
    """Return the dataclass of a type such as `Group | None`; None for any other type."""
    kinds = typing.get_args(wanted) if isinstance(wanted, types.UnionType) else ()
    return next((kind for kind in kinds if is_dataclass(kind)), None)


def _read_toml(path: Path) -> Settings:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: the preset cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None


def _assign(settings: Settings, assignment: str) -> None:
    key, equals, value = assignment.partition("=")
    *groups, name = key.strip().split(".")
    if not equals or not name:
        raise ConfigError(f"a setting must look like key=value, but is {assignment!r}")
    for group in groups:
        settings = settings.setdefault(group, {})
        if not isinstance(settings, dict):
            raise ConfigError(f"{assignment!r}: {group!r} is a single value, so nothing can be set inside it")
    settings[name] = _parsed(value.strip())


def _parsed(value: str) -> Any:
    """Parse a number, true or false, a quoted text or a list as TOML; anything else is the text itself."""
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):  # of which TOML's own error is one; int() refuses thousands of digits
        return value
    return parsed["value"] if len(parsed) == 1 else value


def _value(value: Any, wanted: Any, name: str) -> Any:
    wanted = optional_group(wanted) or wanted
    if is_dataclass(wanted):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{name} is a group of settings; set {name}.{fields(wanted)[0].name}=... and the like")
        return configure(typing.cast(type, wanted), value, f"{name}.")
    allowed = typing.get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)
    if type(value) is int and float in allowed and int not in allowed and abs(value) <= 2**53:
        return float(value)
    if type(value) not in allowed:
        expected = " or ".join(kind.__name__ for kind in allowed)
        raise ConfigError(f"{name} must be {expected}, but is {value!r} ({type(value).__name__})")
    return value


def merged(settings: Settings, others: Settings) -> Settings:
    """Merge settings group by group; the others win."""
    return settings | {
        name: merged(settings[name], value)
        if isinstance(value, dict) and isinstance(settings.get(name), dict)
        else value
        for name, value in others.items()
    }
