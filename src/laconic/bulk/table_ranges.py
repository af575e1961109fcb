"""Divide a table in CSV or TSV into ranges of lines that begin with a row.

Cells in quotes may hold line ends, so rows are found by the reader of tables itself. Where a block of a file has no
quotes, or none but those around cells of one line, and no blank lines, it has a row per line, and its line ends are
only counted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from laconic.bulk.line_ends import last_ends
from laconic.data.formats.lines import Lines, delimited_rows, delimiter_in, numbered
from laconic.errors import DataError

LONGEST_CELL = 1 << 20  # characters; a quote that is never closed would swallow all the rest
REMEDY = "double a quote inside quotes, and close every quote"
_BLOCK = 1 << 20  # bytes that are looked at together


@dataclass(frozen=True)
class Range:
    """Some lines of a table."""

    row: int  # number of the first line
    count: int | None  # of lines; None: to the end of the file
    byte: int  # where the first line begins
    header: int  # lines of the header, which this range lacks


class _Start(NamedTuple):
    line: int
    byte: int


def table_ranges(path: Path, delimiter: str, rows: int) -> list[Range]:
    """Return ranges of so many rows, the first with the header; without a delimiter, the first line reveals it."""
    with path.open("rb") as file:
        table = _Table(file, str(path), delimiter)
        header = table.read_header()
        starts = [_Start(1, 0)] if header is None else [_Start(1, 0), *table.starts(rows)]
    if len(starts) > 1 and starts[-1].byte == path.stat().st_size:
        starts.pop()
    ends = [*(start.line for start in starts[1:]), None]
    return [
        Range(start.line, None if end is None else end - start.line, start.byte, header if start.byte and header else 0)
        for start, end in zip(starts, ends, strict=True)
    ]


class _Table:
    """An open table, which is read up to the end of a row."""

    def __init__(self, file: BufferedReader, name: str, delimiter: str) -> None:
        self._file, self._name, self._delimiter = file, name, delimiter
        self._line = 0  # number of the last line that was read

    def read_header(self) -> int | None:
        """Return the number of lines up to the first row, which names the columns; None: it cannot be read."""
        first = self._file.readline()
        self._file.seek(0)
        self._delimiter = self._delimiter or delimiter_in(first.decode(errors="replace"))
        found = next((cells for cells in self._rows(sys.maxsize) if cells), None)
        return None if found is None or isinstance(found, DataError) else self._line

    def starts(self, step: int) -> Iterator[_Start]:
        """Yield where every `step`th row after the header begins, but for the first; blank lines are no rows."""
        rows = 0
        while self._file.peek(1):
            here, block = self._file.tell(), self._plain_block()
            for more, end in enumerate(last_ends(block, rows, step)):
                yield _Start(self._line + (rows // step + more + 1) * step - rows + 1, here + end + 1)
            rows, self._line = rows + block.count(b"\n"), self._line + block.count(b"\n")
            if not block:
                for cells in self._rows(here + _BLOCK):
                    rows += bool(cells)
                    if cells and rows % step == 0:
                        yield _Start(self._line + 1, self._file.tell())

    def _plain_block(self) -> bytes:
        """Read lines that are a row each; nothing, where the following ones may not be."""
        here = self._file.tell()
        block = self._file.read(_BLOCK)
        block = block[: block.rfind(b"\n") + 1]
        has_blank = block[:1] in (b"\n", b"\r") or b"\n\n" in block or b"\n\r" in block
        if has_blank or (b'"' in block and not _single_lines(self._delimiter).fullmatch(block)):
            block = b""
        self._file.seek(here + len(block))
        return block

    def _rows(self, until: int) -> Iterator[list[str] | DataError]:
        """Read rows, up to one that ends at a byte or after it."""
        lines = self._counted(numbered(self._file, self._name, self._line + 1))
        try:
            every = delimited_rows(lines, self._name, self._delimiter, longest=LONGEST_CELL, remedy=REMEDY)
            for _, cells in every:
                yield cells
                if self._file.tell() >= until:
                    return
        except DataError as error:  # the first of these lines is not UTF-8
            yield error

    def _counted(self, lines: Lines) -> Lines:
        for self._line, line in lines:
            yield self._line, line


@cache
def _single_lines(delimiter: str) -> re.Pattern[bytes]:
    """Return what matches lines that are a row each; others may be so too."""
    sign = re.escape(delimiter.encode())
    cell = rb'(?:"(?:[^"\n]++|"")*+"|[^"\r\n' + sign + rb"]*+)"
    return re.compile(b"(?:" + cell + b"(?:" + sign + cell + rb")*+\r*+\n)*+")
