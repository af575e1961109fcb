"""Hand a dataset from the rank that has read it to the other ranks of its machine: files that all of them map.

Arrays are mapped copy-on-write, so that ranks share the pages of what none of them changes. The files are gone as soon
as every rank has mapped them; on Linux and macOS, what is mapped stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from laconic.data.dataset import Dataset
from laconic.data.encoder_folder import Pretrained
from laconic.data.pieces import WordPiece
from laconic.data.vectors import WordVectors
from laconic.data.vocabulary import Vocabulary
from laconic.errors import DataError
from laconic.system.sparse import csr_array

_KINDS: Mapping[str, Callable[..., Any]] = {
    kind.__name__: kind for kind in (Dataset, WordVectors, Vocabulary, Pretrained, WordPiece)
}
_HEADER = "data.json"
_SMALL = 1 << 16  # bytes of a file that is read rather than mapped


def write_data(data: Dataset, folder: Path) -> None:
    """Write a dataset to files of an empty folder, arrays as .npy."""
    assert data.extend is None, "texts are added by every rank"
    (folder / _HEADER).write_text(json.dumps(_described(data, folder)), encoding="utf-8")


def map_data(folder: Path) -> Dataset:
    """Return the dataset of a folder, with arrays that are mapped from its files."""
    try:
        header = json.loads((folder / _HEADER).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(
            f"{folder}: this rank cannot read the data that another rank of its machine has written there "
            f"({error.strerror}); ranks of one machine must share its folder of temporary files (TMPDIR)"
        ) from None
    data = _restored(header, folder)
    assert isinstance(data, Dataset)
    return data


def _described(value: Any, folder: Path) -> Any:
    """Return a value as JSON; arrays in it are written to files, by whose names they are called."""
    kind = type(value).__name__
    if kind in _KINDS:
        own = {field.name: _described(getattr(value, field.name), folder) for field in fields(value)}
        return {"kind": kind, "of": own}
    if isinstance(value, csr_array):
        parts = [_stored(part, folder) for part in (value.data, value.indices, value.indptr)]
        return {"kind": "csr", "of": parts, "shape": list(value.shape)}
    if isinstance(value, np.ndarray):
        return {"kind": "array", "of": _stored(value, folder)}
    if isinstance(value, Mapping):
        return {"kind": "mapping", "of": {name: _described(one, folder) for name, one in value.items()}}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"kind": "words", "of": _stored(np.frombuffer(json.dumps(list(value)).encode(), dtype=np.uint8), folder)}


def _restored(value: Any, folder: Path) -> Any:
    match value:
        case {"kind": "csr", "of": parts, "shape": shape}:
            return csr_array(tuple(_mapped(part, folder) for part in parts), shape=tuple(shape))
        case {"kind": "array", "of": name}:
            return _mapped(name, folder)
        case {"kind": "words", "of": name}:
            return json.loads(_mapped(name, folder).tobytes())
        case {"kind": "mapping", "of": own}:
            return {name: _restored(part, folder) for name, part in own.items()}
        case {"kind": kind, "of": own}:
            return _KINDS[kind](**{name: _restored(part, folder) for name, part in own.items()})
    return value


def _stored(array: np.ndarray, folder: Path) -> str:
    name = f"{len(list(folder.iterdir())):04}.npy"
    np.save(folder / name, array, allow_pickle=False)
    return name


def _mapped(name: str, folder: Path) -> np.ndarray:
    path = folder / name
    is_small = path.stat().st_size < _SMALL
    return np.asarray(np.load(path, mmap_mode=None if is_small else "c", allow_pickle=False))
