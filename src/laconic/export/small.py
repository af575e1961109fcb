"""Makes the parts of a combined model smaller: its network weighs their scores, and does not miss the last digits."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Float16, Integer, UInt8

from laconic.packed.engine.encoders import Inception, Summed
from laconic.packed.engine.halves import in_halves
from laconic.packed.engine.layer_kernels import WORD_BLOCK
from laconic.packed.engine.near_labels import NearLabels
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.pairs import Pairs
from laconic.packed.engine.parts import Part
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.transforms import Layer

P = TypeVar("P", bound=Part)
_FEW_PAIRS = 1_000_000  # values of more are not worth the memory that each process would convert them in
_IN_HALVES: dict[type[Part], tuple[str, ...]] = {
    Inception: ("dimension_attention", "narrow", "middle", "wide", "final"),
    Layer: ("weight",),
}
_LARGEST = 7  # of the numbers from -7 to 7 that half a byte holds


def smaller(part: P) -> P:
    """Return the part with label rows of one byte a number, word vectors of half a byte, layers in half precision and
    short lists of pairs.

    So are the parts that it is made of.
    """
    own: dict[str, Any] = {field.name: getattr(part, field.name) for field in fields(part)}
    changed: dict[str, Any] = {name: _smaller(value) for name, value in own.items()}
    if isinstance(part, Rows | NibbleRows):
        changed["fine"] = None
    if isinstance(part, Pairs) and len(part.numbers) <= _FEW_PAIRS:
        changed |= {"starts": part.starts.astype(np.int32), "values": part.values.astype(np.float16)}
        changed["numbers"] = _narrow(part.numbers)
    if isinstance(part, NearLabels):
        changed["text_labels"] = _narrow(part.text_labels)
    if isinstance(part, Inception | Summed) and part.word_scales is None:
        changed["words"], changed["word_scales"] = in_half_bytes(part.words)
    for name in _IN_HALVES.get(type(part), ()):
        changed[name] = None if own[name] is None else in_halves(own[name])
    if isinstance(part, Inception):
        changed["width"] = part.words.shape[1] if part.width is None else part.width
    new = {name: value for name, value in changed.items() if value is not own[name]}
    return replace(part, **new) if new else part  # a new one checks its arrays again, which takes seconds


def in_half_bytes(
    words: Float[np.ndarray, "ids dim"],
) -> tuple[UInt8[np.ndarray, "ids half"], Float16[np.ndarray, "ids blocks"]]:
    """Return word vectors as the packed engine reads them, with a scale for each block of numbers."""
    count, dim = words.shape
    padded = np.zeros((count, -(-dim // WORD_BLOCK) * WORD_BLOCK), dtype=np.float32)
    padded[:, :dim] = words
    blocks = padded.reshape(count, -1, WORD_BLOCK)
    scales = (np.abs(blocks).max(axis=2) / _LARGEST).astype(np.float16)
    steps = np.where(scales > 0, scales, 1).astype(np.float32)[:, :, None]
    whole = (np.rint(blocks / steps).clip(-_LARGEST, _LARGEST) + _LARGEST + 1).astype(np.uint8)
    low, high = whole[:, :, : WORD_BLOCK // 2], whole[:, :, WORD_BLOCK // 2 :]
    return (low | (high << 4)).reshape(count, -1), scales


def _narrow(numbers: Integer[np.ndarray, "n"]) -> Integer[np.ndarray, "n"]:
    return numbers.astype(np.uint16) if numbers.max(initial=0) <= np.iinfo(np.uint16).max else numbers


def _smaller(value: Any) -> Any:
    if isinstance(value, Part):
        return smaller(value)
    return tuple(map(_smaller, value)) if isinstance(value, tuple) else value
