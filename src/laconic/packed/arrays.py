"""Arrays in one memory-mapped file: processes share its pages, and only what is used is read.

The file is a safetensors file. Every array begins at a multiple of 64 bytes, as vector instructions like it; between
arrays, where they need it, stand fillers of bytes, because the format knows no gaps.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from laconic.errors import ModelError

_ALIGNED = 64
_FILLER = "_filler."  # what names of fillers begin with
_LARGEST_HEADER = 16 * 2**20
_MOST_AXES = 8
_MOST_BYTES = 1 << 60
# Not bool: numpy trusts that its bytes are 0 or 1, and a stranger's need not be.
KINDS = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
}
NAMES = {np.dtype(kind): name for name, kind in KINDS.items()}


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays one after another; only non-contiguous ones are copied."""
    header, end = {}, 0
    for name, array in arrays.items():
        assert not name.startswith(_FILLER), name
        if filler := -end % _ALIGNED:
            header[f"{_FILLER}{end}"] = _entry("U8", (filler,), end, end + filler)
            end += filler
        header[name] = _entry(NAMES[array.dtype], array.shape, end, end + array.nbytes)
        end += array.nbytes
    header_bytes = json.dumps(header, ensure_ascii=False).encode()
    header_bytes += b" " * (-(8 + len(header_bytes)) % _ALIGNED)
    with path.open("wb") as file:
        file.write(len(header_bytes).to_bytes(8, "little") + header_bytes)
        for number, array in enumerate(arrays.values()):
            file.write(bytes(-file.tell() % _ALIGNED) if number else b"")
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _entry(kind: str, shape: tuple[int, ...], start: int, end: int) -> dict[str, Any]:
    return {"dtype": kind, "shape": list(shape), "data_offsets": [start, end]}


def map_arrays(path: Path) -> dict[str, np.ndarray]:
    """Map the arrays of a file read-only; their layout is checked, their values are not."""
    content = np.frombuffer(map_bytes(path), dtype=np.uint8)
    size = int.from_bytes(content[:8].tobytes(), "little")
    if len(content) < 8 or size > min(_LARGEST_HEADER, len(content) - 8):
        raise _damaged(path, "its header is cut off")
    data = content[8 + size :]
    arrays, end = {}, 0
    for place in sorted(_places(content[8 : 8 + size].tobytes(), path), key=lambda place: (place.start, place.end)):
        kind = np.dtype(KINDS[place.kind])
        needed = prod(place.shape) * kind.itemsize
        if place.start != end or place.end - end != needed or place.end > len(data) or (8 + size + end) % kind.itemsize:
            raise _damaged(path, f"the array {place.name!r} is not where it should be")
        end = place.end
        if not place.name.startswith(_FILLER):
            arrays[place.name] = data[place.start : end].view(kind).reshape(place.shape)
    if end != len(data):
        raise _damaged(path, f"its arrays end after {end:,} bytes, but there are {len(data):,}")
    return arrays


def named_array(name: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the array of that name, or refuse the packed model without it."""
    if name not in arrays:
        raise ModelError(f"the packed model lacks its array {name!r}; pack the model again")
    return arrays[name]


def map_bytes(path: Path) -> mmap.mmap | bytes:
    """Map the bytes of a file."""
    try:
        with path.open("rb") as file:
            empty = not path.stat().st_size  # which cannot be mapped
            return b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error}); copy the model again") from None


class _Place(NamedTuple):
    """The position of an array, from the end of the header."""

    name: str
    kind: str
    shape: tuple[int, ...]
    start: int
    end: int


def _places(header: bytes, path: Path) -> Iterator[_Place]:
    try:
        entries = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"its header is not JSON ({error})") from None
    if not isinstance(entries, dict):
        raise _damaged(path, "its header is not a JSON object")
    for name, entry in entries.items():
        match entry:
            case {"dtype": str(kind), "shape": [*shape], "data_offsets": [int(start), int(end)]} if (
                kind in KINDS and len(shape) <= _MOST_AXES and all(type(size) is int and size >= 0 for size in shape)
            ):
                # numpy counts an array's bytes as if no axis were empty.
                if prod(max(size, 1) for size in shape) * 8 <= _MOST_BYTES:
                    yield _Place(name, kind, tuple(shape), start, end)
                    continue
        raise _damaged(path, f"the array {name!r} is of no known kind or shape")


def _damaged(path: Path, what: str) -> ModelError:
    return ModelError(f"{path}: {what}; the file is damaged: copy the model again")
