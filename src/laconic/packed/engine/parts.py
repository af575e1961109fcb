"""The parts of a packed model: frozen values that hold arrays, numbers and other parts.

A part becomes a structure that JSON can hold and arrays by name, and comes back from them; files are others' business.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.packed.arrays import named_array

A = TypeVar("A")
_KIND = "kind"
_PLAIN = (int, float, bool, str, type(None))


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Validates its content when it is made, because files are untrusted and kernels check no bounds."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # not the scratch that threads keep


class PerThread(Generic[A]):
    """Makes a value once for each thread; allocating scratch arrays takes longer than using them."""

    def __init__(self, make: Callable[[], A]) -> None:
        self._make, self._own = make, threading.local()

    def __call__(self) -> A:
        if not hasattr(self._own, "value"):
            self._own.value = self._make()
        value: A = self._own.value
        return value


def scratch_for(rows: int) -> tuple[Float[np.ndarray, "rows"], Int[np.ndarray, "touched"]]:
    """Return the totals and the touched rows that loops over inverted lists need (kernels/csr.py)."""
    return np.zeros(rows, dtype=np.float32), np.empty(rows + 1, dtype=np.int32)


def flattened(part: Part, name: str = "") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the structure of a part, and its arrays by their path in it."""
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
    """Rebuild a part from its structure and arrays; `kinds` are the allowed classes."""
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
            return named_array(path, arrays)
        case dict():
            return restored(value, arrays, kinds)
        case list():
            return tuple(_restored(one, arrays, kinds) for one in value)
    return value
