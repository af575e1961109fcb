"""Store tensors in one safetensors file, or in several of about equal size.

model.safetensors, or model-00001-of-00003.safetensors and so on. A tensor that is larger than a file may be is cut by
rows: each file has a piece of it under the tensor's own name, and the pieces of all files, one after another, are it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from laconic.config import configure
from laconic.errors import ConfigError, ModelError

_SMALLEST = 1000  # bytes of a file; who asks for less has forgotten the unit
_ALIGNED = 8  # bytes of a header are a multiple of it
_KINDS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_LARGE = 1 << 18  # numbers of a matrix from which on half of its bytes are worth looking for
_AT_ONCE = 1 << 12  # rows
_ENTRY = 128  # bytes that a header has for a tensor, apart from its name; rather too many


@dataclass(frozen=True, kw_only=True)
class Storage:
    """How tensors are stored on disk."""

    shard_size: int = 0  # bytes that a file has at most, if no row is larger; 0: one file for all
    half: bool = False  # all matrices of float32 are written as float16; they are float32 again when they are read

    def __post_init__(self) -> None:
        if self.shard_size and self.shard_size < _SMALLEST:
            raise ConfigError(
                f"the size of a model's files must be 0 (one file) or {_SMALLEST:,} bytes or more, but is "
                f"{self.shard_size:,} bytes; write 16MB for 16 million"
            )


def write_tensors(tensors: Mapping[str, Tensor], folder: Path, storage: Storage) -> list[Path]:
    """Write the tensors and return their files. Matrices that lose nothing by it are written as float16."""
    stored = {name: _halved(tensor) if storage.half or _is_half(tensor) else tensor for name, tensor in tensors.items()}
    shards = _shards(stored, storage.shard_size) if storage.shard_size else [stored]
    paths = list(_paths(folder, len(shards)))
    for path, shard in zip(paths, shards, strict=True):
        save_tensors(shard, path)
    return paths


def read_tensors(folder: Path, files: int) -> dict[str, Tensor]:
    """Read the tensors of that many files."""
    pieces: dict[str, list[Tensor]] = {}
    for path in _paths(folder, files):
        for name, piece in tensors_of(path).items():
            pieces.setdefault(name, []).append(piece)
    tensors = {name: _joined(pieces.pop(name), name, folder) for name in list(pieces)}
    return {name: tensor.float() if tensor.dtype == torch.float16 else tensor for name, tensor in tensors.items()}


def storage_facts(storage: Storage, files: int) -> dict[str, Any]:
    """Return the facts that `storage_of` reads."""
    return {"shard_size": storage.shard_size, "half": storage.half, "files": files}


def storage_of(facts: Any, place: Path) -> tuple[Storage, int]:
    """Return how a model's tensors are stored, and in how many files; `facts` None: one file of an older version."""
    match facts:
        case None:
            return Storage(), 1
        case {"files": int(files), **settings} if files >= 1:
            try:
                return configure(Storage, {str(name): value for name, value in settings.items()}), files
            except ConfigError as error:
                raise ModelError(f"{place}: the model's storage is not of this version: {error}") from None
    raise ModelError(f"{place}: storage must say how many files there are, but is {facts!r}; copy the model again")


def save_tensors(tensors: Mapping[str, Tensor], path: Path, facts: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file, one tensor after the other, so that only one of a GPU's is on the host at a time.

    The library's own function holds two copies of all of them. Wider numbers come first, as they must be aligned.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {} if facts is None else {"__metadata__": dict(sorted(facts.items()))}
    end = 0
    for name in order:
        begin, end = end, end + tensors[name].nbytes
        kind, shape = _KINDS[tensors[name].dtype], list(tensors[name].shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    head = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    head += b" " * (-len(head) % _ALIGNED)
    path.unlink(missing_ok=True)  # its tensors may be mapped, even those that are written here
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for name in order:
            file.write(_bytes_of(tensors[name]))


def _bytes_of(tensor: Tensor) -> memoryview:
    plain = tensor.detach().cpu().contiguous().reshape(-1)
    if plain.stride(0) != 1:  # one number, or none: whatever its stride, it is contiguous
        plain = plain.new_empty(len(plain)).copy_(plain)
    return plain.view(torch.uint8).numpy().data


def _halved(tensor: Tensor) -> Tensor:
    """Convert a matrix to float16. Vectors stay: they are small, and a layer's statistics may be tiny."""
    if tensor.dtype != torch.float32 or tensor.ndim < 2:
        assert tensor.dtype != torch.float16, "it would be read back as float32"
        return tensor
    half = tensor.half()
    return tensor if half.isinf().any() else half


def _is_half(tensor: Tensor) -> bool:
    """Return whether float16 holds all numbers of a large matrix as they are."""
    if tensor.dtype != torch.float32 or tensor.ndim < 2 or tensor.numel() < _LARGE:
        return False
    return all(torch.equal(part.half().float(), part) for part in torch.split(tensor, _AT_ONCE))


def _shards(tensors: Mapping[str, Tensor], size: int) -> list[dict[str, Tensor]]:
    """Distribute pieces of the tensors over files, in order, as many as fit into each."""
    shards, space = list[dict[str, Tensor]](), 0
    for name, tensor in tensors.items():
        header = len(name.encode()) + _ENTRY
        for piece in _pieces(tensor, size - header):
            needed = piece.nbytes + header
            if needed > space:
                shards.append({})
                space = size
            shards[-1][name] = piece
            space -= needed
    return shards


def _pieces(tensor: Tensor, size: int) -> Iterator[Tensor]:
    if tensor.nbytes <= size or tensor.ndim == 0 or not len(tensor):
        yield tensor
        return
    rows = max(1, size // (tensor.nbytes // len(tensor)))
    yield from torch.split(tensor, rows)


def _paths(folder: Path, files: int) -> Iterator[Path]:
    if files == 1:
        yield folder / "model.safetensors"
        return
    for number in range(1, files + 1):
        yield folder / f"model-{number:05}-of-{files:05}.safetensors"


def tensors_of(path: Path) -> dict[str, Tensor]:
    """Read the tensors of one file."""
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path}: not a whole safetensors file ({error}); copy the model again") from None
    return tensors


def _joined(pieces: Sequence[Tensor], name: str, folder: Path) -> Tensor:
    if len(pieces) == 1:
        return pieces[0]
    if any(piece.ndim == 0 for piece in pieces) or len({(piece.dtype, piece.shape[1:]) for piece in pieces}) > 1:
        raise ModelError(f"{folder}: the pieces of the tensor {name!r} do not fit together; copy the model again")
    return torch.cat(list(pieces))
