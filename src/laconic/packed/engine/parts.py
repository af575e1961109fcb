"""What a packed model is made of: frozen parts that hold arrays, numbers and other parts.

A part becomes a structure that JSON can hold and arrays by name, and comes back from them; files are others' business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np

from laconic.errors import ModelError

_KIND = "kind"
_PLAIN = (int, float, bool, str, type(None))
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Checks what it is made of when it is made: it may come from a stranger's file, and kernels look at no bounds."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # not the room that threads keep


def flattened(part: Part, name: str = "") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The part's structure, and its arrays by their path in it."""
    facts: dict[str, Any] = {_KIND: type(part).__name__}
    arrays: dict[str, np.ndarray] = {}
    for field in fields(part):
        value, path = getattr(part, field.name), f"{name}{field.name}"
        facts[field.name] = _flat(value, path, arrays)
    return facts, arrays


def _flat(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if isinstance(value, Part):
        facts, inner = flattened(value, f"{path}.")
        arrays.update(inner)
        return facts
    if isinstance(value, tuple):
        return [_flat(one, f"{path}.{number}", arrays) for number, one in enumerate(value)]
    assert isinstance(value, _PLAIN), f"{path}: {type(value)}"
    return value


def restored(facts: Any, arrays: Mapping[str, np.ndarray], kinds: Mapping[str, type[Part]]) -> Part:
    """The part of which these are structure and arrays; `kinds` are the parts there can be."""
    if not isinstance(facts, dict) or not isinstance(facts.get(_KIND), str) or facts[_KIND] not in kinds:
        raise ModelError("the packed model has a part of a kind that this version does not know; pack it again")
    kind = kinds[facts[_KIND]]
    known = {field.name for field in fields(kind)}
    needed = {field.name for field in fields(kind) if field.default is MISSING}
    if not needed <= facts.keys() - {_KIND} <= known:  # an older version may lack what has a default
        raise ModelError(f"the packed model's part {facts[_KIND]!r} is of another version; pack the model again")
    return kind(**{name: _restored(value, arrays, kinds) for name, value in facts.items() if name != _KIND})


def _restored(value: Any, arrays: Mapping[str, np.ndarray], kinds: Mapping[str, type[Part]]) -> Any:
    match value:
        case {"array": str(path)}:
            if path not in arrays:
                raise ModelError(f"the packed model lacks its array {path!r}; pack the model again")
            return arrays[path]
        case dict():
            return restored(value, arrays, kinds)
        case list():
            return tuple(_restored(one, arrays, kinds) for one in value)
    return value


def check_array(array: Any, name: str, kind: type[Any], shape: tuple[int | None, ...]) -> None:
    """Refuses what is no array of that kind and shape; None: any size."""
    fits = isinstance(array, np.ndarray) and array.dtype == kind and array.ndim == len(shape)
    if not fits or any(wanted not in (None, there) for wanted, there in zip(shape, array.shape, strict=True)):
        found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        wanted = " × ".join("any" if size is None else f"{size:,}" for size in shape)
        raise ModelError(f"the packed model's {name} must be {np.dtype(kind)} {wanted}, but is {found}; pack it again")


def check_numbers(array: np.ndarray, name: str, least: int, below: int) -> None:
    """Refuses numbers that point outside."""
    if array.size and not least <= int(array.min()) <= int(array.max()) < below:
        raise ModelError(f"the packed model's {name} point outside of {least} to {below - 1:,}; pack it again")


def check_starts(array: np.ndarray, name: str, last: int) -> None:
    """Refuses bounds of ranges that do not go from 0 to `last` in order."""
    # Neighbours are compared: their differences could overflow, and seem to be in order.
    if len(array) < 1 or array[0] != 0 or array[-1] != last or (array[1:] < array[:-1]).any():
        raise ModelError(f"the packed model's {name} are not bounds from 0 to {last:,}; pack it again")


def check_order(array: np.ndarray, name: str) -> None:
    """Refuses an order that does not name every place once."""
    check_numbers(array, name, 0, len(array))
    named = np.zeros(len(array), dtype=bool)
    named[array] = True
    if not named.all():
        raise ModelError(f"the packed model's {name} must name each once; pack it again")


def check_finite(array: np.ndarray, name: str) -> None:
    if not np.isfinite(array).all():
        raise ModelError(f"the packed model's {name} are not all finite; pack it again")


def check_whole(number: Any, name: str, least: int) -> None:
    """Refuses what is no whole number, or is too small or too large for compiled loops."""
    if type(number) is not int or not least <= number < 1 << 31:
        raise ModelError(f"the packed model's {name} must be {least:,} or more, but is {number!r}; pack it again")


def check_real(number: Any, name: str, least: float, most: float = _LARGEST) -> None:
    """Refuses what is no number from `least` to `most`."""
    if type(number) not in (int, float) or not least <= number <= most:
        raise ModelError(f"the packed model's {name} must be {least:g} to {most:g}, but is {number!r}; pack it again")


def check_kind(value: Any, name: str, kind: type[Any]) -> None:
    """Refuses a part, or anything else, of another kind."""
    if not isinstance(value, kind):
        found = type(value).__name__
        raise ModelError(f"the packed model's {name} must be of kind {kind.__name__}, but is {found}; pack it again")


def for_kernels(array: np.ndarray) -> np.ndarray:
    """The array as one compilation of a kernel reads it, be it in memory or in a mapped file."""
    plain = np.ascontiguousarray(array).view()
    plain.flags.writeable = False
    return plain
