"""Makes the parts of a combined model smaller: its network weighs their scores, and does not miss the last digits."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Float16, Integer, UInt8

from laconic.packed.engine.encoders import Inception, Summed
from laconic.packed.engine.layer_kernels import WORD_BLOCK
from laconic.packed.engine.near_labels import NearLabels
from laconic.packed.engine.pairs import Pairs
from laconic.packed.engine.parts import Part
from laconic.packed.engine.row_kernels import ROW_BLOCK
from laconic.packed.engine.rows import Rows

P = TypeVar("P", bound=Part)
_AT_ONCE = 1 << 16  # rows that are converted together
_FEW_PAIRS = 1_000_000  # values of more are not worth the memory that each process would convert them in
_MANY_ROWS = 10_000  # fewer are of clusters, which are searched first
_FINEST = 255  # steps of a block's scale in its row's
_LARGEST = 7  # of the numbers from -7 to 7 that half a byte holds


def smaller(part: P) -> P:
    """Return the part with label rows and word vectors of half a byte a number, and short lists of pairs.

    So are the parts that it is made of.
    """
    own: dict[str, Any] = {field.name: getattr(part, field.name) for field in fields(part)}
    changed: dict[str, Any] = {name: _smaller(value) for name, value in own.items()}
    if isinstance(part, Rows):
        changed |= {"fine": None} if part.size < _MANY_ROWS or part.blocks is not None else rows_in_half_bytes(part)
    if isinstance(part, Pairs) and len(part.numbers) <= _FEW_PAIRS:
        changed |= {"starts": part.starts.astype(np.int32), "values": part.values.astype(np.float16)}
        changed["numbers"] = _narrow(part.numbers)
    if isinstance(part, NearLabels):
        changed["text_labels"] = _narrow(part.text_labels)
    if isinstance(part, Inception | Summed) and part.word_scales is None:
        changed["words"], changed["word_scales"] = in_half_bytes(part.words)
    if isinstance(part, Inception):
        changed["width"] = part.words.shape[1] if part.width is None else part.width
    return replace(part, **{name: value for name, value in changed.items() if value is not own[name]})


def in_half_bytes(
    words: Float[np.ndarray, "ids dim"],
) -> tuple[UInt8[np.ndarray, "ids half"], Float16[np.ndarray, "ids blocks"]]:
    """Return word vectors as the packed engine reads them, with a scale for each block of numbers."""
    blocks = _in_blocks(words, WORD_BLOCK)
    scales = (np.abs(blocks).max(axis=2) / _LARGEST).astype(np.float16)
    return _half_bytes(blocks, scales.astype(np.float32)), scales


def rows_in_half_bytes(rows: Rows) -> dict[str, Any]:
    """Return the changed fields of rows with numbers of half a byte."""
    coarse, scales, fractions = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for first in range(0, rows.size, _AT_ONCE):
        blocks = _in_blocks(rows.numbers(slice(first, first + _AT_ONCE)), ROW_BLOCK)
        largest = np.abs(blocks).max(axis=2)
        most = np.maximum(largest.max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
        fractions.append(np.ceil(largest / most * _FINEST).clip(0, _FINEST).astype(np.uint8))
        scales.append((most[:, 0] / (_LARGEST * _FINEST)).astype(np.float32))
        coarse.append(_half_bytes(blocks, fractions[-1] * scales[-1][:, None]))
    parts = {"coarse": coarse, "scales": scales, "blocks": fractions}
    return {"fine": None, "width": rows.dim, **{name: np.concatenate(part) for name, part in parts.items()}}


def _in_blocks(rows: Float[np.ndarray, "rows dim"], size: int) -> Float[np.ndarray, "rows blocks size"]:
    """Return rows in blocks of that size, the last one filled with zeros."""
    count, dim = rows.shape
    padded = np.zeros((count, -(-dim // size) * size), dtype=np.float32)
    padded[:, :dim] = rows
    return padded.reshape(count, -1, size)


def _half_bytes(
    blocks: Float[np.ndarray, "rows blocks size"], steps: Float[np.ndarray, "rows blocks"]
) -> UInt8[np.ndarray, "rows half"]:
    """Return numbers in so many steps, two in a byte: the first half of a block below the second."""
    whole = np.rint(blocks / np.where(steps > 0, steps, 1)[:, :, None]).clip(-_LARGEST, _LARGEST) + _LARGEST + 1
    low, high = np.split(whole.astype(np.uint8), 2, axis=2)
    return (low | (high << 4)).reshape(len(blocks), -1)


def _narrow(numbers: Integer[np.ndarray, "n"]) -> Integer[np.ndarray, "n"]:
    return numbers.astype(np.uint16) if numbers.max(initial=0) <= np.iinfo(np.uint16).max else numbers


def _smaller(value: Any) -> Any:
    if isinstance(value, Part):
        return smaller(value)
    return tuple(map(_smaller, value)) if isinstance(value, tuple) else value
