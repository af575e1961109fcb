"""Arrays in fewer bytes: a packed model is written with compact arrays, and they are expanded when it is opened.

Nothing is lost: an expanded array is equal to what was written in every bit. Three kinds of arrays are compact:

NAME:steps:KIND   integers of a kind, as the differences between neighbours: a byte each, where 255 stands for the next
                  of NAME:long:KIND, differences that take more; they wrap around like the integers of that kind
NAME:zeros:F32    the number of zeros, where an array has nothing else
NAME:deflated:... the bytes as zlib deflates them (deflated.py); NAME is that of a whole array, of steps or of long ones

Expanded arrays are in the memory of each process, unlike mapped ones, which processes share. So what is large, such as
rows and weights, stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Integer, UInt8

from laconic.errors import ModelError
from laconic.packed.arrays import KINDS, NAMES, named_array
from laconic.packed.deflated import deflated, inflated

_MARK = 255  # in the place of a step that is too long
_STEPS, _LONG, _ZEROS = "steps", "long", "zeros"
_STEPPED = ("starts", "blocks", "counts", "order", "popular")  # how the names of arrays end that are made compact
_STEPPED_IF_SMALL = ("nodes",)  # and of those that are if they take at most so many bytes, which no process shares
_SMALL = 8 << 20
_LEAST = 64  # numbers: shorter arrays are not worth it
_ALL_ZEROS = f":{_ZEROS}:F32"


def compacted(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays with those replaced that can be written in fewer bytes."""
    written: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        assert ":" not in name, name
        written |= _compact(name, array)
    return deflated(written)


def _compact(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    if array.ndim != 1 or len(array) < _LEAST:
        return {name: array}
    if array.dtype == np.float32 and not array.view(np.uint32).any():  # zeros below zero are others
        return {name + _ALL_ZEROS: np.array([len(array)], dtype=np.int64)}
    is_stepped = name.endswith(_STEPPED) or (name.endswith(_STEPPED_IF_SMALL) and array.nbytes <= _SMALL)
    if np.issubdtype(array.dtype, np.integer) and is_stepped:
        steps, long = _steps_of(array)
        if steps.nbytes + long.nbytes < array.nbytes:
            kind = NAMES[array.dtype]
            return {f"{name}:{_STEPS}:{kind}": steps, f"{name}:{_LONG}:{kind}": long}
    return {name: array}


def expanded(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays as they were before they were made compact; they are checked, since files are untrusted."""
    found: dict[str, np.ndarray] = {}
    arrays = inflated(arrays)
    room = sum(array.nbytes for array in arrays.values())  # zeros take none in the file, and may not take any amount
    for written, array in arrays.items():
        name, *how = written.split(":")
        match how:
            case []:
                found[name] = array
            case ["steps", kind] if kind in KINDS:
                found[name] = _from_steps(array, named_array(f"{name}:{_LONG}:{kind}", arrays), KINDS[kind], name)
            case ["zeros", "F32"] if array.shape == (1,) and array.dtype == np.int64 and 0 <= int(array[0]) <= room:
                found[name], room = np.zeros(int(array[0]), dtype=np.float32), room - int(array[0])
            case ["long", _]:
                continue
            case _:
                raise ModelError(f"the packed model's array {written!r} cannot be read; pack the model again")
    return found


def _steps_of(array: Integer[np.ndarray, "n"]) -> tuple[UInt8[np.ndarray, "n"], Integer[np.ndarray, "m"]]:
    """Return the differences between neighbours in bytes, and those that take more."""
    plain = np.ascontiguousarray(array).view(_unsigned(array.dtype))
    steps = np.diff(plain, prepend=plain.dtype.type(0))
    is_long = steps >= _MARK
    return np.where(is_long, _MARK, steps).astype(np.uint8), steps[is_long]


def _from_steps(steps: np.ndarray, long: np.ndarray, kind: type, name: str) -> np.ndarray:
    """Add up the differences again."""
    dtype = np.dtype(kind)
    fits = dtype.kind in "iu" and steps.dtype == np.uint8 and steps.ndim == long.ndim == 1
    marked = np.flatnonzero(steps == _MARK)
    if not fits or long.dtype != _unsigned(dtype) or len(marked) != len(long):
        raise ModelError(f"the packed model's array {name!r} is not what its steps say; pack the model again")
    whole = steps.astype(long.dtype)
    whole[marked] = long
    return np.cumsum(whole, dtype=long.dtype, out=whole).view(dtype)


def _unsigned(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"u{dtype.itemsize}")
