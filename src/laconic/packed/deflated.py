"""Arrays deflated by zlib: those that are small, or in the memory of each process anyway, and shrink by a fifth.

NAME:deflated:KIND:SHAPE   the deflated bytes of an array of that kind and shape, such as U8:1670513 or F16:34931x10

Files are untrusted, and a byte can be inflated to a thousand: all arrays of a file together may take at most so many
times its bytes, by what their names say, before anything is inflated; and none is inflated further than its name says.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import prod
from typing import NamedTuple, TypeVar

import numpy as np

from laconic.errors import ModelError
from laconic.packed.arrays import KINDS, NAMES
from laconic.system.machine import usable_cores

SMALL = 4 << 20  # bytes: larger arrays are mapped, so that processes share them
_LEAST = 1024  # bytes: smaller ones are not worth it
_MOST_LEFT = 4 / 5  # of an array's bytes: what shrinks less is not worth the time to inflate it
_MOST_TIMES = 8  # the bytes of a file
_DEFLATED = ":deflated:"
_HOW = re.compile("([A-Z0-9]+):([1-9][0-9]{0,17}(?:x[1-9][0-9]{0,17}){0,7})")
_STRATEGIES = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY)  # numbers rarely repeat as words do
T = TypeVar("T")


class _Deflated(NamedTuple):
    """What the name of a deflated array says."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


def deflated(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays with those replaced that are worth it; a colon in a name says that it is expanded anyway."""
    written = dict(_in_threads(_deflate, arrays.items()))
    return written if _is_bounded(written) else dict(arrays)


def inflated(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays as they were before they were deflated."""
    if not _is_bounded(arrays):
        raise ModelError(
            f"the packed model's deflated arrays take more than {_MOST_TIMES} times the bytes of their file; pack the "
            "model again"
        )
    small = {name: array for name, array in arrays.items() if _DEFLATED in name}
    others = {name: array for name, array in arrays.items() if name not in small}
    return others | dict(_in_threads(_inflate, small.items())) if small else others


def _deflate(item: tuple[str, np.ndarray]) -> tuple[str, np.ndarray]:
    name, array = item
    if array.nbytes < _LEAST or (array.nbytes > SMALL and ":" not in name):
        return name, array
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    written = min((_compressed(content, strategy) for strategy in _STRATEGIES), key=len)
    if len(written) > _MOST_LEFT * array.nbytes:
        return name, array
    shape = "x".join(map(str, array.shape))
    return f"{name}{_DEFLATED}{NAMES[array.dtype]}:{shape}", np.frombuffer(written, dtype=np.uint8)


def _compressed(content: memoryview, strategy: int) -> bytes:
    writer = zlib.compressobj(6, strategy=strategy)
    return writer.compress(content) + writer.flush()


def _is_bounded(arrays: Mapping[str, np.ndarray]) -> bool:
    """Return whether inflated arrays take no more than a file of these may ask for."""
    needed = sum(_described(name).nbytes if _DEFLATED in name else array.nbytes for name, array in arrays.items())
    return needed <= _MOST_TIMES * sum(array.nbytes for array in arrays.values())


def _described(written: str) -> _Deflated:
    name, _, how = written.partition(_DEFLATED)
    found = _HOW.fullmatch(how)
    if found is None or found[1] not in KINDS:
        raise ModelError(f"the packed model's array {written!r} cannot be read; pack the model again")
    return _Deflated(name, np.dtype(KINDS[found[1]]), tuple(map(int, found[2].split("x"))))


def _inflate(item: tuple[str, np.ndarray]) -> tuple[str, np.ndarray]:
    plain, written = _described(item[0]), item[1]
    content, reader = b"", zlib.decompressobj()
    if written.dtype == np.uint8 and written.ndim == 1:
        with suppress(zlib.error):  # refused like what is cut off
            content = reader.decompress(written.data, plain.nbytes + 1)
    if len(content) != plain.nbytes or not reader.eof or reader.unused_data:
        raise ModelError(f"the packed model's array {plain.name!r} is not what was deflated; pack the model again")
    return plain.name, np.frombuffer(content, dtype=plain.dtype).reshape(plain.shape)


def _in_threads(work: Callable[[tuple[str, np.ndarray]], T], items: Iterable[tuple[str, np.ndarray]]) -> list[T]:
    """Do the work on all cores: zlib lets other threads run."""
    with ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(work, items))
