"""Divide files of texts into units: ranges of a file that are read, answered and written by themselves.

A unit of Parquet is a range of rows, and a unit of plain JSON Lines, lines, CSV or TSV a range of bytes. What is gzip'd
is one unit per file. Units begin at multiples of `TEXTS` rows or lines: models answer some texts at a time, and how
many shows in the last bits of scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from laconic.bulk.line_ends import line_starts
from laconic.bulk.table_ranges import table_ranges
from laconic.data.formats.lines import GZIP_MAGIC
from laconic.data.streams import FORMS, form_of
from laconic.errors import DataError

TEXTS = 65_536  # of a unit: some seconds of work, which a killed process loses
_KEPT = "-_.+"  # signs of a file's name that the name of its parts has


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A range of a file."""

    file: Path
    form: str  # of laconic.data.streams.FORMS
    name: str  # of its part
    row: int = 1  # number of its first row or line
    count: int | None = None  # rows, or lines at most; None: to the end of the file
    byte: int = 0  # where its first line begins
    header: int = 0  # lines at the beginning of the file that name the columns of a table, where the unit lacks them

    def __str__(self) -> str:
        return str(self.file) if self.count is None else f"{self.file}, from {self.row:,} on"


def files_in(names: Sequence[str | Path]) -> list[Path]:
    """Return the paths of files and of those inside folders, in order, without names that begin with . or _."""
    found: dict[Path, None] = {}
    for path in (Path(name).absolute() for name in names):
        inside = sorted(one for one in path.rglob("*") if _is_data(one, path)) if path.is_dir() else [path]
        if not inside:
            raise DataError(f"{path}: there is no file of texts in this folder")
        found |= dict.fromkeys(inside)
    return [*found]


def _is_data(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    return path.is_file() and form_of(path) is not None and not any(part.startswith((".", "_")) for part in parts)


def units_of(files: Sequence[Path], form: str = "", texts: int = TEXTS) -> list[Unit]:
    """Return the units of files, in order; without a form, their endings tell it."""
    return [unit for number, file in enumerate(files) for unit in _units(file, form, f"{number:05}", texts)]


def _units(file: Path, form: str, number: str, texts: int) -> Iterator[Unit]:
    form = form or form_of(file) or "lines"
    assert form in FORMS
    stem = "".join(sign if sign.isalnum() or sign in _KEPT else "-" for sign in file.name.partition(".")[0])[:60]

    def unit(at: int, count: int | None, byte: int = 0) -> Unit:
        return Unit(file=file, form=form, name=name(at), row=1 + at * texts, count=count, byte=byte)

    def name(at: int) -> str:
        return f"{number}-{stem}-{at:05}.parquet"

    if form == "parquet":
        rows = parquet_rows(file)
        yield from (unit(at, min(texts, rows - at * texts)) for at in range(max(1, -(-rows // texts))))
    elif _is_gzip(file):
        yield unit(0, None)
    elif form in ("csv", "tsv"):
        ranges = table_ranges(file, "\t" if form == "tsv" else "", texts)
        yield from (Unit(file=file, form=form, name=name(at), **asdict(one)) for at, one in enumerate(ranges))
    else:
        yield from (unit(at, texts, byte) for at, byte in enumerate(line_starts(file, texts)))


def parquet_rows(file: Path) -> int:
    """Return the number of rows of a Parquet file."""
    import pyarrow.lib
    import pyarrow.parquet

    try:
        return int(pyarrow.parquet.read_metadata(file).num_rows)
    except FileNotFoundError:
        raise DataError(f"{file}: there is no such file") from None
    except (pyarrow.lib.ArrowException, OSError) as error:
        raise DataError(f"{file}: this is not a whole Parquet file ({error}); write it again") from None


def _is_gzip(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(2) == GZIP_MAGIC
    except FileNotFoundError:
        raise DataError(f"{file}: there is no such file") from None
