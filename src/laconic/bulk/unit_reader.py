"""Read the texts of a unit, some thousands at a time, as Arrow tables with all columns that the input has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from laconic.bulk.arrow_labels import ANSWERS, arrow_numbers
from laconic.bulk.table_ranges import LONGEST_CELL, REMEDY
from laconic.bulk.table_texts import TextColumns, arrow_values, row_texts
from laconic.bulk.units import Unit
from laconic.data.fields import parse_fields
from laconic.data.formats.entries import OnBad
from laconic.data.formats.lines import decoded, delimited_rows, numbered, opened
from laconic.data.formats.records import Record, excerpt, record_of, record_text
from laconic.data.formats.tabular import check_cells
from laconic.errors import DataError
from laconic.predict.output import cell_text

AT_ONCE = 4096  # texts; a multiple of those that a model answers together
_ROWS = 1024  # of Parquet that are unpacked at a time


class Piece(NamedTuple):
    """Some texts, and the table of their rows."""

    texts: list[str]
    table: Any


class Wanted(NamedTuple):
    """Which columns hold the texts."""

    column: str  # those that are asked for; empty: none is
    fields: str  # those of the model


def pieces(unit: Unit, wanted: Wanted, on_bad: OnBad) -> Iterator[Piece]:
    """Yield the texts of a unit in order; there is at least one piece, which may be empty.

    What is wrong with a row goes to `on_bad`, and what is wrong with the file is an error.
    """
    read = {"parquet": _of_parquet, "jsonl": _of_records, "lines": _of_lines}.get(unit.form, _of_table)
    return read(unit, wanted, on_bad)


def check_columns(unit: Unit, wanted: Wanted) -> None:
    """Refuse a unit that lacks the columns of texts, or is of another format than it seems."""
    next(pieces(unit, wanted, lambda error: None))


def _of_parquet(unit: Unit, wanted: Wanted, on_bad: OnBad) -> Iterator[Piece]:
    import pyarrow.lib
    import pyarrow.parquet

    try:
        # Not buffered ahead: that would be whole columns of a row group at a time.
        with pyarrow.parquet.ParquetFile(unit.file, pre_buffer=False, buffer_size=1 << 20) as file:
            header = file.schema_arrow.names
            columns, names = TextColumns.of(header, *wanted, str(unit.file)), free_names(header, str(unit.file))
            first = unit.row
            for rows in _parquet_rows(file, unit):
                place = partial(_row_place, unit, first)
                found = row_texts(columns, lambda name, rows=rows: arrow_values(rows[name]), place, on_bad)  # type: ignore[misc]
                kept = rows if len(found.texts) == rows.num_rows else rows.take(arrow_numbers(found.rows, np.int64))
                yield Piece(found.texts, kept.rename_columns(names))
                first += rows.num_rows
    except (pyarrow.lib.ArrowException, OSError, UnicodeDecodeError) as error:  # names of columns may be anything
        reason = excerpt(str(error))
        raise DataError(f"{unit.file}: this is not a whole Parquet file ({reason}); write it again") from None


def _row_place(unit: Unit, first: int, row: int) -> str:
    return f"{unit.file}, row {first + row}"


def _parquet_rows(file: Any, unit: Unit) -> Iterator[Any]:
    """Yield the rows of a unit as tables of AT_ONCE rows, the last with what is left; one is empty if all are."""
    import pyarrow

    groups, skipped = _row_groups(file.metadata, unit.row - 1, unit.count or 0)
    left, waiting = unit.count or 0, pyarrow.Table.from_batches([], file.schema_arrow)  # empty_table imports pandas
    for batch in file.iter_batches(batch_size=_ROWS, row_groups=groups):
        rows = batch.slice(min(skipped, batch.num_rows), left)
        skipped, left = max(0, skipped - batch.num_rows), left - rows.num_rows
        waiting = pyarrow.concat_tables([waiting, pyarrow.Table.from_batches([rows])])
        if waiting.num_rows >= AT_ONCE:
            yield waiting.slice(0, AT_ONCE)
            waiting = waiting.slice(AT_ONCE)
        if not left:
            break
    if waiting.num_rows or not unit.count:
        yield waiting


def _row_groups(metadata: Any, first: int, count: int) -> tuple[list[int], int]:
    """Return the row groups that hold some rows, and the rows of the first group that come before."""
    groups: list[int] = []
    before = start = 0
    for number in range(metadata.num_row_groups):
        end = start + metadata.row_group(number).num_rows
        if start < first + count and end > first:
            before = before if groups else first - start
            groups.append(number)
        start = end
    return groups, before


def _of_lines(unit: Unit, wanted: Wanted, on_bad: OnBad) -> Iterator[Piece]:
    def row(line: tuple[int, bytes]) -> tuple[str, list[str]]:
        text = decoded(line[1], f"{unit.file}:{line[0]}")
        return text, [text]

    yield from _in_pieces(["text"], _good(_lines(unit), row, on_bad), unit)


def _of_records(unit: Unit, wanted: Wanted, on_bad: OnBad) -> Iterator[Piece]:
    fields, asked = parse_fields(wanted.column or wanted.fields), bool(wanted.column)
    header: dict[str, None] = {}  # the keys of all records, which Parquet must know before the first
    for line in _lines(unit):
        with suppress(DataError):
            header |= dict.fromkeys(_record(unit, line))

    def row(line: tuple[int, bytes]) -> tuple[str, list[str | None]]:
        record = _record(unit, line)
        text = record_text(record, fields, f"{unit.file}:{line[0]}", asked=asked)
        return text, [cell_text(record.get(key)) for key in header]

    written = (line for line in _lines(unit) if line[1].strip())
    yield from _in_pieces([*header] or ["text"], _good(written, row, on_bad), unit)


def _record(unit: Unit, line: tuple[int, bytes]) -> Record:
    place = f"{unit.file}:{line[0]}"
    return record_of(decoded(line[1], place), place)


def _of_table(unit: Unit, wanted: Wanted, on_bad: OnBad) -> Iterator[Piece]:
    name, delimiter = str(unit.file), "\t" if unit.form == "tsv" else ""
    every = delimited_rows(_lines(unit), name, delimiter, longest=LONGEST_CELL, remedy=REMEDY)
    rows = (row for row in every if row[1])  # blank ones say nothing
    _, header = next(rows, (name, DataError(f"{name}: no line names the columns; write one")))
    if isinstance(header, DataError):
        raise header
    columns = TextColumns.of(header, *wanted, name)
    numbers = [header.index(column) for column in columns.names]

    def row(line: tuple[str, list[str] | DataError]) -> tuple[str, list[str]]:
        place, cells = line
        if isinstance(cells, DataError):
            raise cells
        check_cells(cells, header, place)
        return columns.text([cells[number] for number in numbers], place), cells

    yield from _in_pieces(header, _good(rows, row, on_bad), unit)


def _lines(unit: Unit) -> Iterator[tuple[int, bytes]]:
    with opened(unit.file) as file:
        yield from islice(numbered(file, str(unit.file)), unit.header)
        if unit.byte:
            file.seek(unit.byte)
        yield from islice(numbered(file, str(unit.file), unit.row), unit.count)


def _good(lines: Iterable[Any], row: Any, on_bad: OnBad) -> Iterator[tuple[str, list[str | None]]]:
    """Yield the text and the cells of each line that can be read."""
    for line in lines:
        try:
            yield row(line)
        except DataError as error:
            on_bad(error)


def _in_pieces(header: Sequence[str], rows: Iterator[tuple[str, list[str | None]]], unit: Unit) -> Iterator[Piece]:
    """Yield rows of cells as tables of strings; at least one, which may be empty."""
    import pyarrow

    names = free_names(header, str(unit.file))
    schema = pyarrow.schema([(name, pyarrow.string()) for name in names])
    some = list(islice(rows, AT_ONCE))
    while True:
        columns = zip(*(cells for _, cells in some), strict=True) if some else [[]] * len(names)
        arrays = [pyarrow.array(column, pyarrow.string()) for column in columns]
        yield Piece([text for text, _ in some], pyarrow.table(arrays, schema=schema))
        some = list(islice(rows, AT_ONCE))
        if not some:
            return


def free_names(header: Sequence[str], place: str) -> list[str]:
    """Return the names of columns; those that answers have get `input_` before them."""
    names = [f"input_{name}" if name in ANSWERS else name for name in header]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{place}: the column {twice!r} would be there twice in the output; rename one")
    return names
