"""Check arrays that come from a file: compiled loops check no bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from laconic.errors import ModelError

_LARGEST = float(np.finfo(np.float32).max)


def check_array(array: Any, name: str, kind: type[Any] | tuple[type[Any], ...], shape: tuple[int | None, ...]) -> None:
    """Refuse anything but an array of that dtype, or of one of several, and of that shape; None: any size."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    fits = isinstance(array, np.ndarray) and array.dtype in kinds and array.ndim == len(shape)
    if not fits or any(wanted not in (None, there) for wanted, there in zip(shape, array.shape, strict=True)):
        found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        wanted = " × ".join("any" if size is None else f"{size:,}" for size in shape)
        named = " or ".join(str(np.dtype(one)) for one in kinds)
        raise ModelError(f"the packed model's {name} must be {named} {wanted}, but is {found}; pack it again")


def check_numbers(array: np.ndarray, name: str, least: int, below: int) -> None:
    """Refuse numbers outside of least..below."""
    if array.size and not least <= int(array.min()) <= int(array.max()) < below:
        raise ModelError(f"the packed model's {name} point outside of {least} to {below - 1:,}; pack it again")


def check_starts(array: np.ndarray, name: str, last: int) -> None:
    """Refuse range bounds that do not ascend from 0 to `last`."""
    # Neighbours are compared: their differences could overflow, and seem to be in order.
    if len(array) < 1 or array[0] != 0 or array[-1] != last or (array[1:] < array[:-1]).any():
        raise ModelError(f"the packed model's {name} are not bounds from 0 to {last:,}; pack it again")


def check_order(array: np.ndarray, name: str) -> None:
    """Refuse an array that is not a permutation."""
    check_numbers(array, name, 0, len(array))
    named = np.zeros(len(array), dtype=bool)
    named[array] = True
    if not named.all():
        raise ModelError(f"the packed model's {name} must name each once; pack it again")


def check_finite(array: np.ndarray, name: str) -> None:
    if not np.isfinite(array).all():
        raise ModelError(f"the packed model's {name} are not all finite; pack it again")


def check_floats(array: Any, name: str, shape: tuple[int | None, ...]) -> None:
    """Refuse anything but finite float32 numbers of that shape."""
    check_array(array, name, np.float32, shape)
    check_finite(array, name)


def check_whole(number: Any, name: str, least: int) -> None:
    """Refuse what is not an integer, or is too small or too large for compiled loops."""
    if type(number) is not int or not least <= number < 1 << 31:
        raise ModelError(f"the packed model's {name} must be {least:,} or more, but is {number!r}; pack it again")


def check_real(number: Any, name: str, least: float, most: float = _LARGEST) -> None:
    """Refuse what is not a number from `least` to `most`."""
    if type(number) not in (int, float) or not least <= number <= most:
        raise ModelError(f"the packed model's {name} must be {least:g} to {most:g}, but is {number!r}; pack it again")


def check_kind(value: Any, name: str, kind: type[Any]) -> None:
    """Refuse a value of another type."""
    if not isinstance(value, kind):
        found = type(value).__name__
        raise ModelError(f"the packed model's {name} must be of kind {kind.__name__}, but is {found}; pack it again")


def for_kernels(array: np.ndarray) -> np.ndarray:
    """Return a read-only contiguous view, so that kernels compile once for arrays in memory and in mapped files."""
    plain = np.ascontiguousarray(array).view()
    plain.flags.writeable = False
    return plain
