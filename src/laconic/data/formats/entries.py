"""Stream texts one by one with the other fields of their records, from each file format.

A row that cannot be read is handed to `on_bad`, which raises its error or lets the next one come. What is wrong with a
file as a whole is an error at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from laconic.data.formats.lines import Lines, decoded, delimited_rows
from laconic.data.formats.records import excerpt, record_of, text, text_of
from laconic.data.formats.tabular import USUAL_NAMES, check_cells, column_of, no_column
from laconic.errors import DataError

_LONGEST_CELL = 1 << 20  # characters; a quote that is never closed would swallow all the rest
_ROWS = 1024  # of a Parquet file that are unpacked at a time

R = TypeVar("R")
OnBad: TypeAlias = Callable[[DataError], None]


class Entry(NamedTuple):
    """A text with the other fields of its record."""

    text: str
    fields: dict[str, Any]  # a record's own, as they came; of a table the id


class Entries(NamedTuple):
    """Entries in order, and whether they may have ids."""

    rows: Iterator[Entry]
    have_ids: bool  # whether records of this form may have one


def of_lines(lines: Lines, name: str, on_bad: OnBad) -> Entries:
    """Read a text per line; an empty line is an empty text."""

    def entry(numbered: tuple[int, bytes]) -> Entry:
        number, line = numbered
        return Entry(decoded(line, f"{name}:{number}"), {})

    return Entries(_good(lines, entry, on_bad), have_ids=False)


def of_records(lines: Lines, name: str, key: str, on_bad: OnBad) -> Entries:
    """Read a JSON object per line, with its text under that key. Blank lines are skipped."""

    def entry(numbered: tuple[int, bytes]) -> Entry:
        number, line = numbered
        place = f"{name}:{number}"
        record = record_of(decoded(line, place), place)
        return Entry(text_of(record, key, place), record)

    written = (numbered for numbered in lines if numbered[1].strip())
    return Entries(_good(written, entry, on_bad), have_ids=True)


def of_table(lines: Lines, name: str, column: str, delimiter: str, on_bad: OnBad) -> Entries:
    """Read a text per row of a table; the first row names the columns and, if no delimiter is given, reveals it."""
    remedy = "double a quote inside quotes, and close every quote"
    every = delimited_rows(lines, name, delimiter, longest=_LONGEST_CELL, remedy=remedy)
    rows = (row for row in every if row[1])  # blank ones say nothing
    _, header = next(rows)
    if isinstance(header, DataError):
        raise header
    columns = _columns(header, column, name)

    def entry(row: tuple[str, list[str] | DataError]) -> Entry:
        place, cells = row
        if isinstance(cells, DataError):
            raise cells
        check_cells(cells, header, place)
        own_text, *id = (cells[number] for number in columns)
        return Entry(own_text, {"id": id[0]} if id else {})

    return Entries(_good(rows, entry, on_bad), have_ids=len(columns) > 1)


def of_parquet(path: Path, file: Any, column: str, on_bad: OnBad) -> Entries:
    """Read a text per row of an open `pyarrow.parquet.ParquetFile`."""
    header = file.schema_arrow.names
    names = [header[number] for number in _columns(header, column, str(path))]

    def entry(row: tuple[int, Sequence[Any]]) -> Entry:
        number, cells = row
        place = f"{path}, row {number}"
        own_text, *id = (_cell(cell, f"{place}: {name!r}") for cell, name in zip(cells, names, strict=True))
        if not isinstance(own_text, str):
            raise DataError(f"{place}: {names[0]!r} is {excerpt(repr(own_text))}, where a text is needed; write one")
        return Entry(text(own_text, place), {"id": id[0]} if id else {})

    rows = enumerate(_parquet_rows(path, file, names), 1)
    return Entries(_good(rows, entry, on_bad), have_ids=len(names) > 1)


def _good(rows: Iterable[R], entry: Callable[[R], Entry], on_bad: OnBad) -> Iterator[Entry]:
    for row in rows:
        try:
            found = entry(row)
        except DataError as error:
            on_bad(error)
        else:
            yield found


def _columns(header: Sequence[str], asked: str, place: str) -> list[int]:
    """Return the column of the texts and, where there is one, of the ids."""
    names = (asked,) if asked else USUAL_NAMES["text"]
    texts, ids = column_of(header, names), column_of(header, USUAL_NAMES["id"])
    if texts is None:
        raise no_column(header, names, place, "the texts (--column NAME)")
    columns = [texts] if ids in (None, texts) else [texts, ids]
    for number in columns:
        if list(header).count(header[number]) > 1:
            raise DataError(f"{place}: the column {header[number]!r} is there twice; rename one")
    return columns


def _cell(scalar: Any, place: str) -> Any:
    """Return a Parquet value in JSON's types: texts and integers as they are, others as written."""
    try:
        value = scalar.as_py()
    except ValueError as error:
        raise DataError(f"{place} cannot be read ({error}); write it again as UTF-8") from None
    return value if value is None or isinstance(value, str | int) else str(value)


def _parquet_rows(path: Path, file: Any, names: Sequence[str]) -> Iterator[Sequence[Any]]:
    import pyarrow.lib

    try:
        for batch in file.iter_batches(batch_size=_ROWS, columns=list(names)):
            yield from zip(*(batch.column(name) for name in names), strict=True)
    except (pyarrow.lib.ArrowException, OSError) as error:
        raise DataError(f"{path}: this is not a whole Parquet file ({excerpt(str(error))}); write it again") from None
