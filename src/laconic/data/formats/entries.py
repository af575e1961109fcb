"""Stream texts one by one with the other fields of their records, from each file format.

A row that cannot be read is handed to `on_bad`, which raises its error or lets the next one come. What is wrong with a
file as a whole is an error at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from laconic.data.fields import joined_fields
from laconic.data.formats.lines import Lines, decoded, delimited_rows
from laconic.data.formats.records import excerpt, record_of, record_text, text
from laconic.data.formats.tabular import USUAL_NAMES, Columns, check_cells, column_of, text_columns
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


def of_records(lines: Lines, name: str, columns: Columns, on_bad: OnBad) -> Entries:
    """Read a JSON object per line, with its text under the keys that are named. Blank lines are skipped."""
    fields, asked = columns.of_text(), bool(columns.text)

    def entry(numbered: tuple[int, bytes]) -> Entry:
        number, line = numbered
        place = f"{name}:{number}"
        record = record_of(decoded(line, place), place)
        return Entry(record_text(record, fields, place, asked=asked), record)

    written = (numbered for numbered in lines if numbered[1].strip())
    return Entries(_good(written, entry, on_bad), columns=("id",))


def of_table(lines: Lines, name: str, named: Columns, delimiter: str, on_bad: OnBad) -> Entries:
    """Read a text per row of a table; the first row names the columns and, if no delimiter is given, reveals it."""
    remedy = "double a quote inside quotes, and close every quote"
    every = delimited_rows(lines, name, delimiter, longest=_LONGEST_CELL, remedy=remedy)
    rows = (row for row in every if row[1])  # blank ones say nothing
    _, header = next(rows)
    if isinstance(header, DataError):
        raise header
    texts, columns, names = _columns(header, named, name)
    weights = [weight for _, weight in texts]

    def entry(row: tuple[str, list[str] | DataError]) -> Entry:
        place, cells = row
        if isinstance(cells, DataError):
            raise cells
        check_cells(cells, header, place)
        own_text = _joined([cells[number] for number, _ in texts], weights)
        return Entry(own_text, {name: cells[number] for name, number in zip(names, columns, strict=True)})

    return Entries(_good(rows, entry, on_bad), columns=names)


def of_parquet(path: Path, file: Any, named: Columns, on_bad: OnBad) -> Entries:
    """Read a text per row of an open `pyarrow.parquet.ParquetFile`."""
    header = file.schema_arrow.names
    texts, columns, names = _columns(header, named, str(path))
    weights = [weight for _, weight in texts]
    read = [header[number] for number in [*(number for number, _ in texts), *columns]]

    def entry(row: tuple[int, Sequence[Any]]) -> Entry:
        number, cells = row
        place = f"{path}, row {number}"
        values = [_cell(cell, f"{place}: {name!r}") for cell, name in zip(cells, read, strict=True)]
        joined = text_of_cells(values[: len(texts)], read[: len(texts)], weights, place)
        return Entry(joined, dict(zip(names, values[len(texts) :], strict=True)))

    rows = enumerate(_parquet_rows(path, file, read), 1)
    return Entries(_good(rows, entry, on_bad), columns=names)


def text_of_cells(values: Sequence[Any], names: Sequence[str], weights: Sequence[int], place: str) -> str:
    """Return the text that the cells of a row hold in the columns of these names; one of several may be missing."""
    own = ["" if value is None and len(values) > 1 else value for value in values]
    for name, value in zip(names, own, strict=True):
        if not isinstance(value, str):
            raise DataError(f"{place}: {name!r} is {excerpt(repr(value))}, where a text is needed; write one")
    return _joined([text(value, place) for value in own], weights)


def _good(rows: Iterable[R], entry: Callable[[R], Entry], on_bad: OnBad) -> Iterator[Entry]:
    for row in rows:
        try:
            found = entry(row)
        except DataError as error:
            on_bad(error)
        else:
            yield found


def _joined(values: Sequence[str], weights: Sequence[int]) -> str:
    return values[0] if list(weights) == [1] else joined_fields(values, weights)


def _columns(header: Sequence[str], named: Columns, place: str) -> tuple[list[tuple[int, int]], list[int], list[str]]:
    """Return the columns of the texts with their weights, and the other columns with their names, ids first.

    Where a text has several columns, they are among the others too, as they came.
    """
    texts, ids = text_columns(header, named.text, named.fields, place), column_of(header, USUAL_NAMES["id"])
    own = [number for number, _ in texts]
    first = [] if ids is None or ids in own else [ids]
    for number in [*own, *first]:
        if list(header).count(header[number]) > 1:
            raise DataError(f"{place}: the column {header[number]!r} is there twice; rename one")
    taken = ["text", "id"]  # names of the text and of its id in answers
    others = [number for number, name in enumerate(header) if name not in taken and header.index(name) == number]
    hidden = [*first, *(own if len(own) == 1 else [])]
    others = [number for number in others if number not in hidden]
    return texts, first + others, ["id"] * len(first) + [header[number] for number in others]


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
        for batch in file.iter_batches(batch_size=_ROWS, columns=list(dict.fromkeys(names))):
            yield from zip(*(batch.column(name) for name in names), strict=True)
    except (pyarrow.lib.ArrowException, OSError) as error:
        raise DataError(f"{path}: this is not a whole Parquet file ({excerpt(str(error))}); write it again") from None
