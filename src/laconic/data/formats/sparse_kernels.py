"""Compiled parsing loops of `sparse_text`: bytes in, rows of sparse matrices out.

They check bytes, not bounds. The caller ensures that the bytes end in a newline, which no inner loop steps over, that
there are at least as many newlines as rows, and that there is space for an entry per colon, and for a label per comma
and per row. Then no bytes lead out of the arrays. `at` is a position in the bytes; a negative one says that the token
which begins at -at is wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int, UInt8

from laconic.kernels.jit import compiled

Bytes = UInt8[np.ndarray, "size"]

_NEWLINE, COLON, _COMMA, _POINT, _PLUS, _MINUS = (ord(character) for character in "\n:,.+-")
_SPACE, _TAB, _RETURN, _SMALL_E, _LARGE_E, _ZERO, _NINE = (ord(character) for character in " \t\reE09")

_EXACT_INTEGERS = 1 << 53  # every integer up to here is a double,
_POWERS_OF_TEN = np.array([float(10**n) for n in range(23)])  # and so is every power of ten up to here
_ROOM_FOR_A_DIGIT = 10**17  # an integer below this takes one more digit without overflow
_DOUBT = 2.0**-50  # more than the relative error of two roundings and of the digits beyond the eighteenth
FLOAT32_END = 3.4028235677973366e38  # from here on a double rounds to float32's infinity


class Rows(NamedTuple):
    """The rows of a matrix while they are being read."""

    starts: Int[np.ndarray, "rows_and_one"]
    indices: Int[np.ndarray, "entries"]
    values: Float32[np.ndarray, "entries"]
    columns: int

    @classmethod
    def of(cls, rows: int, columns: int, *, at_most: int) -> Rows:
        index = np.int32 if columns <= np.iinfo(np.int32).max else np.int64
        return cls(np.zeros(rows + 1, np.int64), np.empty(at_most, index), np.empty(at_most, np.float32), columns)


@compiled
def tally(data: Bytes) -> tuple[int, int, int]:
    """Count newlines, colons and commas in one pass, which is faster than three of `bytes.count`."""
    newlines, colons, commas = 0, 0, 0
    for byte in data:
        newlines += 1 if byte == _NEWLINE else 0
        colons += 1 if byte == COLON else 0
        commas += 1 if byte == _COMMA else 0
    return newlines, colons, commas


@compiled
def fill_rows(data: Bytes, at: int, rows: Rows) -> int:
    filled = 0
    for row in range(len(rows.starts) - 1):
        at, filled = _fill_row(data, at, rows, filled)
        if at < 0:
            return at
        rows.starts[row + 1] = filled
        at += 1
    return at


@compiled
def fill_labelled_rows(data: Bytes, at: int, labels: Rows, features: Rows) -> int:
    num_labels, num_features = 0, 0
    for row in range(len(features.starts) - 1):
        at, num_labels = _fill_label_row(data, at, labels, num_labels)
        if at < 0:
            return at
        at, num_features = _fill_row(data, at, features, num_features)
        if at < 0:
            return at
        labels.starts[row + 1] = num_labels
        features.starts[row + 1] = num_features
        at += 1
    return at


@compiled
def _fill_row(data: Bytes, at: int, rows: Rows, filled: int) -> tuple[int, int]:
    """Read `index:value` up to the line's end, and return the position there."""
    while True:
        while _is_blank(data[at]):
            at += 1
        if data[at] == _NEWLINE:
            return at, filled
        token = at
        at, index = _index(data, at, rows.columns)
        if at < 0 or data[at] != COLON:
            return -token, filled
        at, value = _value(data, at + 1)
        if at < 0 or not (data[at] == _NEWLINE or _is_blank(data[at])):
            return -token, filled
        rows.indices[filled] = index
        rows.values[filled] = value
        filled += 1


@compiled
def _fill_label_row(data: Bytes, at: int, rows: Rows, filled: int) -> tuple[int, int]:
    """Read `label,label` at the beginning of a line, if any, and return the position after it."""
    token = at
    while _is_digit(data[at]):
        at += 1
    if data[at] == COLON or (at == token and (data[at] == _NEWLINE or _is_blank(data[at]))):
        return token, filled
    at = token
    while True:
        at, label = _index(data, at, rows.columns)
        if at < 0:
            return -token, filled
        rows.indices[filled] = label
        filled += 1
        if data[at] == _NEWLINE or _is_blank(data[at]):
            return at, filled
        if data[at] != _COMMA:
            return -token, filled
        at += 1


@compiled
def _index(data: Bytes, at: int, columns: int) -> tuple[int, int]:
    """Return the position after a number below `columns`, and the number; the position is -1 if there is none."""
    begin = at
    index = 0
    while _is_digit(data[at]):
        index = index * 10 + _digit(data[at])
        if index >= columns:
            return -1, index
        at += 1
    return (at if at > begin else -1), index


@compiled
def _value(data: Bytes, at: int) -> tuple[int, float]:
    """Return the position after a decimal number, and the number, NaN if uncertain; -1 as position if there is none."""
    negative = data[at] == _MINUS
    if negative or data[at] == _PLUS:
        at += 1
    begin = at
    at, mantissa, dropped = _digits(data, at, 0)
    scale = dropped
    digits = at - begin
    if data[at] == _POINT:
        begin = at + 1
        at, mantissa, dropped = _digits(data, begin, mantissa)
        digits += at - begin
        scale -= at - begin - dropped
    if digits == 0:
        return -1, 0.0
    if data[at] == _SMALL_E or data[at] == _LARGE_E:
        at, exponent = _exponent(data, at + 1)
        scale += exponent
    value = _scaled(mantissa, scale)
    return at, (-value if negative else value)


@compiled
def _digits(data: Bytes, at: int, number: int) -> tuple[int, int, int]:
    """Return the position after the digits, the number with them appended, and how many digits did not fit."""
    dropped = 0
    while _is_digit(data[at]):
        if number < _ROOM_FOR_A_DIGIT:
            number = number * 10 + _digit(data[at])
        else:
            dropped += 1
        at += 1
    return at, number, dropped


@compiled
def _exponent(data: Bytes, at: int) -> tuple[int, int]:
    """Return the position after an exponent's digits, and the exponent; the position is -1 without digits."""
    negative = data[at] == _MINUS
    if negative or data[at] == _PLUS:
        at += 1
    begin = at
    at, exponent, _ = _digits(data, at, 0)
    return (at if at > begin else -1), (-exponent if negative else exponent)


@compiled
def _scaled(mantissa: int, scale: int) -> float:
    """Return mantissa · 10^scale, equal as float32 to Python's `float`; NaN where that is not certain.

    Two exact doubles give the nearest double in one operation. Otherwise the result is off by a few units in its last
    place, which matters only where it lies that close to the middle between two float32 neighbours.
    """
    if mantissa == 0:
        return 0.0
    if scale < -22 or scale > 22:
        return np.nan
    value: float = mantissa * _POWERS_OF_TEN[scale] if scale >= 0 else mantissa / _POWERS_OF_TEN[-scale]
    if value >= FLOAT32_END:
        return np.nan
    if mantissa > _EXACT_INTEGERS and np.float32(value * (1 - _DOUBT)) != np.float32(value * (1 + _DOUBT)):
        return np.nan
    return value


@compiled
def _digit(byte: int) -> int:
    return np.int64(byte) - _ZERO  # type: ignore[return-value]  # a byte is too small to count in


@compiled
def _is_digit(byte: int) -> bool:
    return _ZERO <= byte <= _NINE


@compiled
def _is_blank(byte: int) -> bool:
    return byte in (_SPACE, _TAB, _RETURN)
