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
    fields: dict[str, Any]  # a record's own, as they came; of a table the id and the cells of all other columns


class Entries(NamedTuple):
    """Entries in order, and the names of fields that a table of answers keeps."""

    rows: Iterator[Entry]
    columns: Sequence[str]  # besides the text; of records, whose keys may differ, the id alone


def of_lines(lines: Lines, name: str, on_bad: OnBad) -> Entries:
    """Read a text per line; an empty line is an empty text."""

    def entry(numbered: tuple[int, bytes]) -> Entry:
        number, line = numbered
        return Entry(decoded(line, f"{name}:{number}"), {})

    return Entries(_good(lines, entry, on_bad), columns=())


def of_records(lines: Lines, name: str, key: str, on_bad: OnBad) -> Entries:
    """Read a JSON object per line, with its text under that key. Blank lines are skipped."""

    def entry(numbered: tuple[int, bytes]) -> Entry:
        number, line = numbered
        place = f"{name}:{number}"
        record = record_of(decoded(line, place), place)
        return Entry(text_of(record, key, place), record)

    written = (numbered for numbered in lines if numbered[1].strip())
    return Entries(_good(written, entry, on_bad), columns=("id",))


def of_table(lines: Lines, name: str, column: str, delimiter: str, on_bad: OnBad) -> Entries:
    """Read a text per row of a table; the first row names the columns and, if no delimiter is given, reveals it."""
    remedy = "double a quote inside quotes, and close every quote"
    every = delimited_rows(lines, name, delimiter, longest=_LONGEST_CELL, remedy=remedy)
    rows = (row for row in every if row[1])  # blank ones say nothing
    _, header = next(rows)
    if isinstance(header, DataError):
        raise header
    columns, names = _columns(header, column, name)

    def entry(row: tuple[str, list[str] | DataError]) -> Entry:
        place, cells = row
        if isinstance(cells, DataError):
            raise cells
        check_cells(cells, header, place)
        own_text, *others = (cells[number] for number in columns)
        return Entry(own_text, dict(zip(names, others, strict=True)))

    return Entries(_good(rows, entry, on_bad), columns=names)


def of_parquet(path: Path, file: Any, column: str, on_bad: OnBad) -> Entries:
    """Read a text per row of an open `pyarrow.parquet.ParquetFile`."""
    header = file.schema_arrow.names
    columns, names = _columns(header, column, str(path))
    read = [header[number] for number in columns]

    def entry(row: tuple[int, Sequence[Any]]) -> Entry:
        number, cells = row
        place = f"{path}, row {number}"
        own_text, *others = (_cell(cell, f"{place}: {name!r}") for cell, name in zip(cells, read, strict=True))
        if not isinstance(own_text, str):
            raise DataError(f"{place}: {read[0]!r} is {excerpt(repr(own_text))}, where a text is needed; write one")
        return Entry(text(own_text, place), dict(zip(names, others, strict=True)))

    rows = enumerate(_parquet_rows(path, file, read), 1)
    return Entries(_good(rows, entry, on_bad), columns=names)


def _good(rows: Iterable[R], entry: Callable[[R], Entry], on_bad: OnBad) -> Iterator[Entry]:
    for row in rows:
        try:
            found = entry(row)
        except DataError as error:
            on_bad(error)
        else:
            yield found


def _columns(header: Sequence[str], asked: str, place: str) -> tuple[list[int], list[str]]:
    """Return the columns to read, that of the texts first, and the names of the others: of the ids, if any, first."""
    names = (asked,) if asked else USUAL_NAMES["text"]
    texts, ids = column_of(header, names), column_of(header, USUAL_NAMES["id"])
    if texts is None:
        raise no_column(header, names, place, "the texts (--column NAME)")
    columns = [texts] if ids in (None, texts) else [texts, ids]
    for number in columns:
        if list(header).count(header[number]) > 1:
            raise DataError(f"{place}: the column {header[number]!r} is there twice; rename one")
    taken = ["text", "id"]  # names of the text and of its id in answers
    others = [number for number, name in enumerate(header) if name not in taken and header.index(name) == number]
    others = [number for number in others if number not in columns]
    return columns + others, ["id"] * (len(columns) - 1) + [header[number] for number in others]


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
