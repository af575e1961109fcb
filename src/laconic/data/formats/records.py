"""Read JSON Lines strictly: an object per line, values requested by key and type.

A `place` is where a value stands, for the error message: `path:line` for a record, `path:line: "key"` for a value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from laconic.data.fields import Fields, joined_fields
from laconic.data.formats.lines import lines
from laconic.errors import DataError

Record = dict[str, Any]


def records(path: Path) -> Iterator[tuple[int, Record]]:
    """Yield every record with its line number, from 1. Blank lines are skipped."""
    for number, line in lines(path):
        if line and not line.isspace():
            yield number, record_of(line, f"{path}:{number}")


def record_of(line: str, place: str) -> Record:
    """Parse the object that a line holds."""
    try:
        value = _decoded(line)
    except json.JSONDecodeError as error:
        near = excerpt(line[max(error.pos - 20, 0) :])
        raise DataError(
            f"{place}: this is not JSON ({error.msg.removesuffix(' at')}, character {error.pos + 1}) near '{near}'; "
            "every line must be one whole JSON object"
        ) from None
    except RecursionError:
        raise DataError(f"{place}: brackets are nested too deep: '{excerpt(line)}'; mend the line") from None
    except ValueError as error:  # NaN and its kin, or an integer of thousands of digits
        reason = str(error).partition(";")[0]
        raise DataError(f"{place}: {reason}, in '{excerpt(line)}'; write a plain number") from None
    if not isinstance(value, dict):
        raise _wrong(value, f"{place}: the line", "a JSON object is needed, in { }")
    return value


def record_text(record: Record, fields: Fields, place: str, *, asked: bool) -> str:
    """Return the text of a record: of its fields, if it has any of them or they were asked for, or else its "text"."""
    there = [field for field in fields if record.get(field.name) is not None]
    if not fields or not (there or asked):
        return text_of(record, "text", place)
    if not there or len(fields) == 1:
        text_of(record, fields[0].name, place)  # says what is missing
    return joined_fields([text_of(record, name, place) for name, _ in there], [weight for _, weight in there])


def text_of(record: Record, key: str, place: str) -> str:
    return text(required(record, key, place), f'{place}: "{key}"')


def number_of(record: Record, key: str, place: str) -> float:
    return number(required(record, key, place), f'{place}: "{key}"')


def list_of(record: Record, key: str, place: str) -> list[Any]:
    value = required(record, key, place)
    if not isinstance(value, list):
        raise _wrong(value, f'{place}: "{key}"', "a list is needed, in [ ]")
    return value


def integers_of(record: Record, key: str, place: str) -> list[int]:
    return [integer(value, f'{place}: "{key}"') for value in list_of(record, key, place)]


def numbers_of(record: Record, key: str, place: str) -> list[float]:
    return [number(value, f'{place}: "{key}"') for value in list_of(record, key, place)]


def texts_of(record: Record, key: str, place: str) -> list[str]:
    return [text(value, f'{place}: "{key}"') for value in list_of(record, key, place)]


def required(record: Record, key: str, place: str) -> Any:
    """Return the value of that key, of any type."""
    if key not in record:
        has = ", ".join(f'"{excerpt(other, 20)}"' for other in list(record)[:8]) or "none"
        raise DataError(f'{place}: the key "{key}" is missing (the record\'s keys: {has}); add it')
    return record[key]


def text(value: Any, place: str) -> str:
    """Return the value if it is a text that can be encoded as UTF-8."""
    if not isinstance(value, str):
        raise _wrong(value, place, "a text is needed, in quotes")
    if not value.isascii():
        _refuse_lone_surrogates(value, place)
    return value


def number(value: Any, place: str) -> float:
    """Return the value if it is a finite number."""
    # `type`, not `isinstance`: true and false are integers to Python.
    if type(value) not in (int, float):
        raise _wrong(value, place, "a number is needed")
    try:
        finite = math.isfinite(value)
    except OverflowError:  # an integer of more than 308 digits
        finite = False
    if not finite:
        raise _wrong(value, place, "a number that a computer can hold is needed")
    return float(value)


def integer(value: Any, place: str) -> int:
    if type(value) is not int:
        raise _wrong(value, place, "an integer is needed, without quotes")
    return value


def excerpt(value: str, limit: int = 80) -> str:
    """Format a value for an error message: printable, on one line, cut after `limit` characters."""
    cut = value if len(value) <= limit else value[: limit - 1] + "…"
    return cut if cut.isprintable() else ascii(cut)[1:-1]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _decoded(line: str) -> Any:
    """Decode a line, at once where it is one value and nothing else: `decode` looks for spaces around it first."""
    with suppress(json.JSONDecodeError):
        value, end = _DECODER.raw_decode(line)
        if end == len(line):
            return value
    return _DECODER.decode(line)


def _refuse_lone_surrogates(value: str, place: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"{place} holds half of a character, \\u{ord(value[error.start]):04x}, at position {error.start + 1}: "
            f"'{excerpt(value)}'; write the text again as UTF-8"
        ) from None


def _wrong(value: Any, place: str, needed: str) -> DataError:
    return DataError(f"{place} is {excerpt(_as_json(value))}, where {needed}")


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):  # an integer too long to print
        return f"a {type(value).__name__}"
