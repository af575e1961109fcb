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
_MOST_PARTS, _DEEPEST = 1000, 12  # our largest models have about 20 parts for each member, and are 6 deep


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Validates its content when it is made, because files are untrusted and kernels check no bounds."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # not the scratch that threads keep

    @classmethod
    def upgraded(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values of a part that an older version wrote as this version has them."""
        return values


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
    return _Restoring(dict(arrays), kinds).part(facts, 1)


class _Restoring:
    """Rebuilds parts within limits on their number and depth. Each array is of one part, as `flattened` writes them.

    So what is done with a file's parts takes no longer than its size allows.
    """

    def __init__(self, arrays: dict[str, np.ndarray], kinds: Mapping[str, type[Part]]) -> None:
        self.arrays, self.kinds, self.parts = arrays, kinds, 0

    def part(self, facts: Any, depth: int) -> Part:
        if not isinstance(facts, dict) or not isinstance(facts.get(_KIND), str) or facts[_KIND] not in self.kinds:
            raise ModelError("the packed model has a part of a kind that this version does not know; pack it again")
        self.parts += 1
        if self.parts > _MOST_PARTS or depth > _DEEPEST:
            raise ModelError(
                f"the packed model has more than {_MOST_PARTS:,} parts, or parts more than {_DEEPEST} deep in each "
                "other; pack the model again"
            )
        kind = self.kinds[facts[_KIND]]
        known = {field.name for field in fields(kind)}
        needed = {field.name for field in fields(kind) if field.default is MISSING}
        if not needed <= facts.keys() - {_KIND} <= known:  # an older version may lack what has a default
            raise ModelError(f"the packed model's part {facts[_KIND]!r} is of another version; pack the model again")
        values = {name: self._value(value, depth + 1) for name, value in facts.items() if name != _KIND}
        return kind(**kind.upgraded(values))

    def _value(self, value: Any, depth: int) -> Any:
        match value:
            case {"array": str(path)}:
                array = named_array(path, self.arrays)
                del self.arrays[path]
                return array
            case dict():
                return self.part(value, depth)
            case list():
                return tuple(self._value(one, depth) for one in value)
        return value
