"""Checkpoints in pieces: each rank writes its rows, the first one also what all ranks have; any number of ranks reads.

STAGE.a.00001-of-00004.safetensors and so on. A piece says which rows of which tensor it has, so that a run goes on with
another number of ranks. Sets are named a and b in turn: the old one is whole until the manifest names the new one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor

from laconic.data.shards import Shard
from laconic.system.ranks import Ranks

PATTERN = "*.[ab].?????-of-?????.safetensors"
_ROWS = "rows"  # in the metadata: the first and last row of each tensor that is cut


def piece_names(name: str, before: Sequence[str], world: int) -> list[str]:
    """Return names for the pieces of a checkpoint that differ from those of the checkpoint before."""
    stem = name.removesuffix(".safetensors")
    turn = "b" if any(piece.startswith(f"{stem}.a.") for piece in before) else "a"
    return [f"{stem}.{turn}.{number:05}-of-{world:05}.safetensors" for number in range(1, world + 1)]


def own_piece(
    tensors: Mapping[str, Tensor], shards: Mapping[str, Shard], ranks: Ranks
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of this rank's piece, and the metadata that says which rows they are."""
    kept = {name: tensor for name, tensor in tensors.items() if ranks.is_first or name in shards}
    rows = {name: [shards[name].first, shards[name].last] for name in kept if name in shards}
    return kept, {_ROWS: json.dumps(rows)}


class _Piece(NamedTuple):
    file: Any
    rows: Mapping[str, Sequence[int]]


def read_pieces(
    paths: Sequence[Path], shards: Mapping[str, Shard], check: Callable[[Path, Mapping[str, str]], None]
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the own rows of tensors that are cut, all others whole, and the metadata; `check` gets each piece's.

    Raise ValueError where rows are missing.
    """
    with ExitStack() as stack:
        pieces = list[_Piece]()
        for path in paths:
            file = stack.enter_context(safe_open(path, "pt"))
            metadata = file.metadata() or {}
            check(path, metadata)
            pieces.append(_Piece(file, json.loads(metadata.get(_ROWS, "{}"))))
        first = pieces[0]
        tensors = {}
        for name in first.file.keys():  # noqa: SIM118 - it is no dict
            if name in first.rows:
                tensors[name] = torch.cat(list(_rows(name, pieces, shards.get(name))))
            else:
                whole, shard = first.file.get_slice(name), shards.get(name)
                tensors[name] = first.file.get_tensor(name) if shard is None else whole[shard.own].contiguous()
        return tensors, first.file.metadata() or {}


def _rows(name: str, pieces: Sequence[_Piece], shard: Shard | None) -> Iterator[Tensor]:
    """Yield the parts of pieces that a shard owns, in order; without a shard all of them."""
    at, end = (0, None) if shard is None else (shard.first, shard.last)
    for piece in pieces:
        first, last = piece.rows[name]
        until = last if end is None else min(last, end)
        if first <= at < until:
            yield piece.file.get_slice(name)[at - first : until - first]
            at = until
    if at != (pieces[-1].rows[name][1] if end is None else end):
        raise ValueError(f"rows of the tensor {name} are missing from row {at} on")
