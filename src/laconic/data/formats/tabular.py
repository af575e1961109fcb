"""Tables of one text a row: CSV, TSV and Parquet. The columns are found by their usual names, or named by the user."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laconic.data.formats.assemble import LARGEST, Row
from laconic.data.formats.lines import lines
from laconic.data.formats.records import excerpt, integer, text
from laconic.errors import ConfigError, DataError

USUAL_NAMES = {
    "text": ("text", "title", "query", "name"),
    "labels": ("labels", "label", "tags", "categories"),
    "id": ("id",),
    "weight": ("weight",),
}
USUAL_SEPARATORS = ("|", ";", ",")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which column is what; an empty name means: look for the usual ones."""

    text: str = ""
    labels: str = ""
    id: str = ""
    weight: str = ""
    separator: str = ""  # between the labels of a cell
    quotes: bool = True  # in CSV and TSV, "..." may hold the delimiter; without, a quote is a character like any other

    def __post_init__(self) -> None:
        if self.separator and self.separator.isspace() and self.separator != " ":
            raise ConfigError(f"the label separator must be a sign or a single space, but is {self.separator!r}")


Cells = dict[str, Any]  # a row's cells by their role


def delimited_cells(path: Path, columns: Columns) -> Iterator[tuple[str, Cells]]:
    """The rows of a CSV or TSV file, whose first line names the columns, each with its place."""
    table = _delimited(path, columns)
    header = next(table)[1]
    place_of = {role: _find(header, role, columns, str(path)) for role in USUAL_NAMES}
    for number, line in table:
        if line:
            yield f"{path}:{number}", _cells(line, place_of, header, f"{path}:{number}")


def parquet_cells(path: Path, columns: Columns) -> Iterator[tuple[str, Cells]]:
    """The rows of a Parquet file, each with its place; labels may be a list column, or one of text with separators."""
    import pyarrow.lib
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
        header = table.column_names
    except (pyarrow.lib.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: this is not a whole Parquet file ({excerpt(str(error))}); write it again") from None
    found = {role: _find(header, role, columns, str(path)) for role in USUAL_NAMES}
    data = {role: _values(table.column(number), path) for role, number in found.items() if number is not None}
    for number in range(table.num_rows):
        yield f"{path}, row {number + 1}", {role: values[number] for role, values in data.items()}


def table_rows(tables: Mapping[str, Iterable[tuple[str, Cells]]], columns: Columns) -> dict[str, Iterator[Row]]:
    """The texts of some tables, whose labels are separated by the same sign in all of them."""
    read = {name: list(table) for name, table in tables.items()}
    labels = (cell["labels"] for table in read.values() for _, cell in table)
    separator = columns.separator or _usual_separator(cell for cell in labels if isinstance(cell, str))
    return {name: (_row(cell, separator, place) for place, cell in table) for name, table in read.items()}


def _values(column: Any, path: Path) -> list[Any]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except ValueError:  # once more, slowly, for the row's number
        for number, value in enumerate(column, 1):
            try:
                value.as_py()
            except ValueError as error:
                raise DataError(f"{path}, row {number}: not to be read ({error}); write it again as UTF-8") from None
        raise


def _delimited(path: Path, columns: Columns) -> Iterator[tuple[int, list[str]]]:
    source = lines(path)
    _, first = next(source)
    delimiter = next((sign for sign in "\t,;" if sign in first), ",")
    ended = (line + "\n" for line in _with_first(first, source))
    csv.field_size_limit(2**30)
    rules = csv.QUOTE_MINIMAL if columns.quotes else csv.QUOTE_NONE
    reader = csv.reader(ended, delimiter=delimiter, quoting=rules, strict=True)  # type: ignore[arg-type]
    begun = 1
    try:
        for line in reader:
            yield begun, line
            begun = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}:{begun}: not a whole row ({error}); double a quote inside quotes, or say that quotes mean nothing "
            "(--table quotes=false)"
        ) from None


def _with_first(first: str, rest: Iterable[tuple[int, str]]) -> Iterator[str]:
    yield first
    for _, line in rest:
        yield line


def _find(header: Sequence[str], role: str, columns: Columns, place: str) -> int | None:
    """The number of the column that plays a role; texts and labels must have one."""
    asked = getattr(columns, role)
    names = (asked,) if asked else USUAL_NAMES[role]
    folded = [name.strip().lower() for name in header]
    for name in names:
        if name.lower() in folded:
            return folded.index(name.lower())
    if asked or role in ("text", "labels"):
        has = ", ".join(excerpt(name, 30) for name in header)
        raise DataError(
            f"{place}: no column {' or '.join(map(repr, names))}; the columns are: {has}. "
            f"Name the one that holds the {role} (--table {role}=NAME)"
        )
    return None


def _cells(line: Sequence[str], place_of: dict[str, int | None], header: Sequence[str], place: str) -> Cells:
    if len(line) != len(header):
        raise DataError(
            f"{place}: {len(line)} cells, where the first line names {len(header)} columns; mend the row or its quotes"
        )
    return {role: line[number] for role, number in place_of.items() if number is not None}


def _usual_separator(cells: Iterable[str]) -> str:
    """The first of the usual separators that any cell has."""
    seen = set[str]()
    for cell in cells:
        seen.update(sign for sign in USUAL_SEPARATORS if sign in cell)
        if USUAL_SEPARATORS[0] in seen:
            break
    return next((sign for sign in USUAL_SEPARATORS if sign in seen), USUAL_SEPARATORS[0])


def _row(cell: Cells, separator: str, place: str) -> Row:
    id = cell.get("id")
    return Row(
        place,
        _text(cell["text"], f"{place}: the text"),
        _labels(cell["labels"], separator, place),
        id=None if id is None or id == "" else str(id),
        weight=_weight(cell.get("weight"), place),
    )


def _labels(value: Any, separator: str, place: str) -> list[str | int]:
    if value is None:
        return []
    if isinstance(value, list):
        return [
            integer(label, place) if isinstance(label, int) else _text(label, f"{place}: a label") for label in value
        ]
    parts = [part.strip() for part in _text(value, f"{place}: the labels").split(separator)]
    return [part for part in parts if part]


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):  # Parquet has many types
        raise DataError(f"{place} is {excerpt(repr(value))}, where text is needed; write the column as text")
    return text(value, place)


def _weight(value: Any, place: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        weight = float(value)
    except (TypeError, ValueError):
        weight = math.nan
    if not 0 <= weight <= LARGEST:
        raise DataError(f"{place}: the weight of a text must be a number of 0 or more, but is {excerpt(str(value))!r}")
    return weight
