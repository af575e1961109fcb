"""Read tables of one text per row: CSV, TSV and Parquet, with columns found by usual names or named by the user."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from laconic.data.corpus import TableFacts
from laconic.data.fields import Fields, joined_fields, parse_fields, spec_of
from laconic.data.formats.assemble import LARGEST, Row
from laconic.data.formats.bounds import check_unpacked
from laconic.data.formats.label_cells import (
    AUTO,
    CANDIDATES,
    NONE,
    Familiar,
    best_separator,
    familiar_separator,
    has_sign,
    listed,
    notes_on_choice,
    notes_on_request,
    split_cell,
)
from laconic.data.formats.lines import delimited_rows, numbered, opened
from laconic.data.formats.records import excerpt, integer, text
from laconic.errors import ConfigError, DataError
from laconic.units import counted

USUAL_NAMES = {
    "text": ("text", "title", "query", "name"),
    "labels": ("labels", "label", "tags", "categories", "subject_uris"),
    "id": ("id",),
    "weight": ("weight",),
    "group": (),  # has no usual name: who has groups must say so
}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of the columns to read; an empty name means: look for the usual ones."""

    text: str = ""
    labels: str = ""
    id: str = ""
    weight: str = ""
    group: str = ""  # texts of one group are held out together
    model_group: str = ""  # that of a model, which is read where none is named and data has it
    fields: str = ""  # those of a model, which are read where no column of texts is named and data has them
    separator: str = AUTO  # between the labels of a cell; none, or nothing: each cell is one label
    quotes: bool = True  # in CSV and TSV, "..." may hold the delimiter; without, a quote is a character like any other

    def __post_init__(self) -> None:
        if self.separator and self.separator.isspace() and self.separator != " ":
            raise ConfigError(f"the label separator must be a sign or a single space, but is {self.separator!r}")
        self.of_text()

    def of_group(self) -> str:
        """Return the column of the groups: the one that is named, or that of a model."""
        return self.group or self.model_group

    def of_text(self) -> Fields:
        """Return the fields of texts: those that are named, or those of a model."""
        return parse_fields(self.text or self.fields)


_ROWS = 256  # of a Parquet file that are unpacked at a time
Cells = dict[str, Any]  # a row's cells by their role
Find = Callable[[Sequence[str]], Mapping[str, int]]  # from a header to the number of the column that plays a role


class Table(NamedTuple):
    """An open table: its columns, those of them that are read, and its rows with their positions."""

    header: Sequence[str]
    used: Mapping[str, int]  # the number of the column that plays a role
    rows: Iterator[tuple[str, Cells]]
    weights: Sequence[int] = (1,)  # of the columns that hold the texts


class TableRows(NamedTuple):
    """The rows of some tables, with how they were read."""

    rows: Mapping[str, Iterator[Row]]
    facts: TableFacts | None  # None: there is no table
    notes: Sequence[str]


def delimited_table(path: Path, columns: Columns) -> Table:
    """Open a CSV or TSV file of texts with labels, whose first line names the columns."""
    return _weighted(delimited(path, lambda header: _used(header, columns, str(path)), quotes=columns.quotes), columns)


def parquet_table(path: Path, columns: Columns) -> Table:
    """Open a Parquet file of texts with labels; these may be a list column, or one of text with separators."""
    return _weighted(parquet(path, lambda header: _used(header, columns, str(path))), columns)


def _weighted(table: Table, columns: Columns) -> Table:
    found = text_columns(table.header, columns.text, columns.fields, "")
    return table._replace(weights=[weight for _, weight in found])


def delimited(path: Path, find: Find, *, quotes: bool = True) -> Table:
    """Open any CSV or TSV file; `find` says which of its columns are read, and by which name."""
    rows = _whole_rows(path, quotes=quotes)
    _, header = next(rows)
    used = find(header)
    return Table(header, used, ((place, _cells(line, used, header, place)) for place, line in rows if line))


def parquet(path: Path, find: Find) -> Table:
    """Open any Parquet file; `find` says which of its columns are read, and by which name."""
    import pyarrow.lib
    import pyarrow.parquet

    wrong = pyarrow.lib.ArrowException, OSError, UnicodeDecodeError
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            header = file.schema_arrow.names
            used = find(header)
    except wrong as error:
        raise _not_parquet(path, error) from None

    def rows() -> Iterator[tuple[str, Cells]]:
        try:
            with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
                yield from _parquet_rows(file, path, used)
        except wrong as error:
            raise _not_parquet(path, error) from None

    return Table(header, used, rows())


def _not_parquet(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: this is not a whole Parquet file ({excerpt(str(error))}); write it again")


def _parquet_rows(file: Any, path: Path, used: Mapping[str, int]) -> Iterator[tuple[str, Cells]]:
    """Read columns of an open Parquet file by number, a few rows at a time: a value may be packed once for all rows."""
    names, packed, size, first = file.schema_arrow.names, path.stat().st_size, 0, 1
    # They are found by their names.
    read = sorted({*used.values()}) if len({*names}) == len(names) else [*range(len(names))]
    for batch in file.iter_batches(batch_size=_ROWS, columns=[names[number] for number in read]):
        size += batch.nbytes
        check_unpacked(size, packed, str(path))
        columns = [_values(batch.column(read.index(number)), path, first) for number in used.values()]
        for place, cells in enumerate(zip(*columns, strict=True), first):
            yield f"{path}, row {place}", dict(zip(used, cells, strict=True))
        first += batch.num_rows


def table_rows(tables: Mapping[str, Table], columns: Columns, familiar: Familiar | None = None) -> TableRows:
    """Read the texts of some tables, whose labels are separated in the same way in all of them.

    `familiar` says which labels a model has, where the tables are for one.
    """
    if not tables:
        return TableRows({}, None, ())
    read = {name: list(table.rows) for name, table in tables.items()}
    every = [row for rows in read.values() for row in rows]
    lists = 0
    if columns.separator == AUTO:
        lists = sum(_read_list(cells, place) for place, cells in every)
    labels = [(place, cells["labels"]) for place, cells in every if isinstance(cells["labels"], str)]
    separator, notes = _separator(labels, columns.separator, familiar)
    if lists:
        notes = [f"{counted(lists, 'cell is a list', 'cells are lists')} of labels", *notes]
    facts = TableFacts(
        columns={name: [*table.header] for name, table in tables.items()},
        used={name: {role: table.header[at] for role, at in table.used.items()} for name, table in tables.items()},
        separator=separator,
        lists=lists,
        fields=spec_of(columns.of_text()) if any(table.weights != [1] for table in tables.values()) else "",
    )
    rows = {
        name: (_row(cells, separator or NONE, place, tables[name].weights) for place, cells in own)
        for name, own in read.items()
    }
    return TableRows(rows, facts, notes)


def rows_of(table: Table, separator: str) -> Iterator[Row]:
    """Yield the texts of one table as it is read; labels that are text need a separator."""
    for place, cells in table.rows:
        if separator == AUTO and isinstance(cells["labels"], str):
            raise DataError(
                f"{place}: the labels are text, and what separates them is not chosen by one part of the cells; name "
                "it (--separator SIGN, or none where each cell is one label)"
            )
        yield _row(cells, separator or NONE, place, table.weights)


def _read_list(cells: Cells, place: str) -> bool:
    """Replace a cell that is a list by its labels."""
    cell = cells["labels"]
    if not isinstance(cell, str):
        return False
    try:
        labels = listed(cell)
    except ValueError as error:
        raise DataError(
            f"{place}: the labels {excerpt(cell)!r} are not a whole list ({error}); mend the cell, or read cells as "
            "they stand (--separator none)"
        ) from None
    if labels is None:
        return False
    cells["labels"] = labels
    return True


def _separator(labels: Sequence[tuple[str, str]], asked: str, familiar: Familiar | None) -> tuple[str, list[str]]:
    """Return what separates labels, or nothing where no cell could tell, and notes about it."""
    if asked != AUTO:
        separator = asked or NONE
        return separator, list(notes_on_request(labels, separator))
    cells = Counter(cell for _, cell in labels)
    separator = best_separator(cells) if familiar is None else familiar_separator(cells, familiar)
    notes = list(notes_on_choice(labels, separator))
    signs = any(has_sign(cell, sign) for cell in cells for sign in CANDIDATES)
    return separator if signs else "", notes


def _values(column: Any, path: Path, first: int) -> list[Any]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except ValueError:  # once more, slowly, for the row's number
        for number, value in enumerate(column, first):
            try:
                value.as_py()
            except ValueError as error:
                raise DataError(f"{path}, row {number}: not to be read ({error}); write it again as UTF-8") from None
        raise


def _whole_rows(path: Path, *, quotes: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of a CSV or TSV file; refuse it at the first that cannot be read."""
    remedy = "double a quote inside quotes, or say that quotes mean nothing (--column quotes=false)"
    with opened(path) as file:
        for place, cells in delimited_rows(numbered(file, str(path)), str(path), quotes=quotes, remedy=remedy):
            if isinstance(cells, DataError):
                raise cells
            yield place, cells


def _used(header: Sequence[str], columns: Columns, place: str) -> dict[str, int]:
    usual = (*USUAL_NAMES["text"], *USUAL_NAMES["labels"])
    if not (columns.text or columns.fields or columns.labels) and column_of(header, usual) is None:
        remedy = "(--column text=NAME --column labels=NAME); if this is the first text, write such names above it"
        raise no_column(header, usual, place, f"the text and the one that holds the labels {remedy}")
    texts = [number for number, _ in text_columns(header, columns.text, columns.fields, place)]
    found = {role: _find(header, role, columns, place) for role in USUAL_NAMES if role != "text"}
    of_text = dict(zip(_text_roles(len(texts)), texts, strict=True))
    return of_text | {role: number for role, number in found.items() if number is not None}


def _text_roles(count: int) -> list[str]:
    """Return the roles of the columns that hold the fields of texts."""
    return ["text", *(f"text {number}" for number in range(2, count + 1))]


def text_columns(header: Sequence[str], asked: str, usual: str, place: str) -> list[tuple[int, int]]:
    """Return number and weight of the columns that hold the texts.

    They are those that are asked for or, without such, the fields of a model if the table has any of them, and else the
    first column of a usual name.
    """
    exact = column_of(header, (asked,)) if asked else None
    if exact is not None:
        return [(exact, 1)]
    fields = parse_fields(asked or usual)
    found = [(column_of(header, (name,)), weight) for name, weight in fields]
    if asked or any(number is not None for number, _ in found):
        missing = next((field.name for field, (number, _) in zip(fields, found, strict=True) if number is None), None)
        if missing is not None:
            whose = "" if asked else f"; the model was trained on {usual}"
            raise no_column(header, (missing,), place, f"the text (--column text=NAME){whose}")
        return [(number, weight) for number, weight in found if number is not None]
    number = column_of(header, USUAL_NAMES["text"])
    if number is None:
        raise no_column(header, USUAL_NAMES["text"], place, "the text (--column text=NAME)")
    return [(number, 1)]


def _find(header: Sequence[str], role: str, columns: Columns, place: str) -> int | None:
    """Return the number of the column with a role; labels must have one."""
    asked = getattr(columns, role)
    usual = (columns.model_group,) if role == "group" else USUAL_NAMES[role]
    names = (asked,) if asked else usual
    found = column_of(header, names)
    if found is None and role != "group" and (asked or role == "labels"):
        raise no_column(header, names, place, f"the {role} (--column {role}=NAME)")
    return found


def column_of(header: Sequence[str], names: Sequence[str]) -> int | None:
    """Return the number of the first of these columns that the header has."""
    folded = [name.strip().lower() for name in header]
    return next((folded.index(name.lower()) for name in names if name.lower() in folded), None)


def no_column(header: Sequence[str], names: Sequence[str], place: str, what: str) -> DataError:
    has = ", ".join(excerpt(name, 30) for name in header)
    return DataError(
        f"{place}: no column {' or '.join(map(repr, names))}; the columns are: {has}. Name the one that holds {what}"
    )


def check_cells(cells: Sequence[str], header: Sequence[str], place: str) -> None:
    """Refuse a row of more or fewer cells than the header."""
    if len(cells) != len(header):
        raise DataError(
            f"{place}: {counted(len(cells), 'cell')}, where the first line names {counted(len(header), 'column')}; "
            "mend the row or its quotes"
        )


def _cells(line: Sequence[str], used: Mapping[str, int], header: Sequence[str], place: str) -> Cells:
    check_cells(line, header, place)
    return {role: line[number] for role, number in used.items()}


def _row(cell: Cells, separator: str, place: str, weights: Sequence[int]) -> Row:
    id, group = cell.get("id"), cell.get("group")
    return Row(
        place,
        _joined(cell, place, weights),
        _labels(cell["labels"], separator, place),
        id=None if id is None or id == "" else str(id),
        weight=_weight(cell.get("weight"), place),
        group=None if group is None or group == "" else str(group),
    )


def _joined(cell: Cells, place: str, weights: Sequence[int]) -> str:
    if list(weights) == [1]:
        return _text(cell["text"], f"{place}: the text")
    values = [cell[role] for role in _text_roles(len(weights))]
    return joined_fields(["" if value is None else _text(value, f"{place}: the text") for value in values], weights)


def _labels(value: Any, separator: str, place: str) -> list[str | int]:
    if value is None:
        return []
    if isinstance(value, list):
        return [
            integer(label, place) if isinstance(label, int) else _text(label, f"{place}: a label") for label in value
        ]
    return [*split_cell(_text(value, f"{place}: the labels"), separator)]


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
