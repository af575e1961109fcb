"""Stream texts for prediction from a file of any length or from standard input, in order, a few at a time.

lines   a text a line                          csv, tsv   a table, whose first line names its columns
jsonl   an object a line, its text in "text"   parquet    a table

A file's ending says which it is; .gz may follow, but for Parquet. Anything else is lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from laconic.data.formats.entries import Entries, Entry, OnBad, of_lines, of_parquet, of_records, of_table
from laconic.data.formats.lines import Unpacked, numbered, opened
from laconic.data.formats.records import excerpt
from laconic.data.formats.tabular import Columns
from laconic.errors import ConfigError, DataError

FORMS = ("lines", "jsonl", "csv", "tsv", "parquet")
_ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
_DELIMITERS = {"csv": "", "tsv": "\t"}  # what is called csv may well have another


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Settings of how texts are read."""

    form: str  # one of FORMS
    column: str = ""  # of a table, or the key of a record, that holds the text, or several; empty: the usual one
    fields: str = ""  # those of the model, which are read where no column is named and data has them

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ConfigError(f"--format must be {' or '.join(FORMS)}, but is {self.form!r}")
        if self.column and self.form == "lines":
            raise ConfigError(
                f"--column is {self.column!r}, but lines have no columns; --format csv, for one, is a table"
            )


class Stream(NamedTuple):
    """An open stream of texts with its size and position."""

    entries: Iterator[Entry]
    columns: Sequence[str]  # fields besides the text that a table of answers keeps
    size: int | None  # of all there is to read; None: unknown
    position: Callable[[], int]  # how much of it has been read


def form_of(path: Path) -> str | None:
    """Return the format that a file's ending tells; None: an unknown ending."""
    return _ENDINGS.get(Path(path.name.lower().removesuffix(".gz")).suffix)


@contextmanager
def opened_stream(path: Path, reading: Reading, on_bad: OnBad) -> Iterator[Stream]:
    """Open the texts of a file. What is wrong with a text goes to `on_bad`."""
    with opened(path) as file:
        is_packed = isinstance(file.raw, Unpacked)
        if reading.form != "parquet":
            position = file.raw.packed.tell if isinstance(file.raw, Unpacked) else file.tell
            yield Stream(*_entries(file, str(path), reading, on_bad), path.stat().st_size, position)
        elif not is_packed:
            yield _of_parquet(path, file, reading, on_bad)
        else:
            raise DataError(f"{path}: Parquet inside gzip cannot be read a few rows at a time; gunzip it first")


@contextmanager
def opened_streams(paths: Sequence[Path], reading: Callable[[Path], Reading], on_bad: OnBad) -> Iterator[Stream]:
    """Open several files as one stream; each text gets the name of its file as the field `file`.

    A table of answers keeps the columns of all of them.
    """
    columns = dict.fromkeys(["file"])
    for path in paths:  # what is wrong with any of them is said before the first text is answered
        with opened_stream(path, reading(path), on_bad) as one:
            columns |= dict.fromkeys(one.columns)
    done = 0

    def entries() -> Iterator[Entry]:
        nonlocal done
        for path in paths:
            with opened_stream(path, reading(path), on_bad) as one:
                yield from (entry._replace(fields={"file": str(path), **entry.fields}) for entry in one.entries)
            done += path.stat().st_size

    yield Stream(entries(), [*columns], sum(path.stat().st_size for path in paths), lambda: done)


def stream_of(file: IO[bytes], name: str, reading: Reading, on_bad: OnBad) -> Stream:
    """Stream the texts of an open file that cannot seek, such as standard input."""
    if reading.form == "parquet":
        raise DataError(f"{name}: Parquet is read from its end, so not from here; give the file's name")
    return Stream(*_entries(file, name, reading, on_bad), None, lambda: 0)


def in_pieces(entries: Iterable[Entry], size: int) -> Iterator[list[Entry]]:
    """Yield lists of at most `size` entries, in order."""
    piece: list[Entry] = []
    for entry in entries:
        piece.append(entry)
        if len(piece) == size:
            yield piece
            piece = []
    if piece:
        yield piece


def _entries(file: IO[bytes], name: str, reading: Reading, on_bad: OnBad) -> Entries:
    lines = numbered(file, name)
    if reading.form == "lines":
        return of_lines(lines, name, on_bad)
    if reading.form == "jsonl":
        return of_records(lines, name, Columns(text=reading.column, fields=reading.fields), on_bad)
    columns = Columns(text=reading.column, fields=reading.fields)
    return of_table(lines, name, columns, _DELIMITERS[reading.form], on_bad)


def _of_parquet(path: Path, file: IO[bytes], reading: Reading, on_bad: OnBad) -> Stream:
    import pyarrow.lib
    import pyarrow.parquet

    try:
        # Not buffered ahead: that would be whole columns of a row group at a time.
        table = pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
        rows, columns = of_parquet(path, table, Columns(text=reading.column, fields=reading.fields), on_bad)
    except (pyarrow.lib.ArrowException, OSError, UnicodeDecodeError) as error:  # names of columns may be anything
        raise DataError(f"{path}: this is not a whole Parquet file ({excerpt(str(error))}); write it again") from None
    read = 0

    def counted(rows: Iterator[Entry]) -> Iterator[Entry]:
        nonlocal read
        for row in rows:
            read += 1
            yield row

    return Stream(counted(rows), columns, table.metadata.num_rows, lambda: read)
