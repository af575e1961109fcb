"""Read bytes, lines and rows of cells of plain or gzip'd files, with errors that say where."""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from io import BufferedReader, FileIO, RawIOBase
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeAlias

from laconic.data.formats.bounds import LONGEST_LINE, check_line, check_unpacked
from laconic.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"
_BUFFER = 1 << 17  # bytes that are unpacked at a time
_HEAD = 1 << 14  # bytes by which a format is recognised
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
READ: ContextVar[Callable[[int], object] | None] = ContextVar("is told of bytes that were read", default=None)
Lines: TypeAlias = Iterator[tuple[int, bytes]]  # numbered


def contents(path: Path) -> bytes:
    """Return the whole file, decompressed."""
    with opened(path) as file:
        data = file.read()
    if not data:
        raise DataError(f"{path}: the file is empty")
    return data


def lines(path: Path, *, may_be_empty: bool = False) -> Iterator[tuple[int, str]]:
    """Yield every line with its number from 1, without its line end. Only a newline ends a line."""
    number = 0
    with opened(path) as file:
        for number, line in numbered(file, str(path)):
            yield number, decoded(line, f"{path}:{number}")
    if number == 0 and not may_be_empty:
        raise DataError(f"{path}: the file is empty")


def numbered(file: IO[bytes], name: str, first: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield every line of an open file as bytes, numbered from `first` on; one that is too long is an error."""
    longest = LONGEST_LINE.get()
    for number, line in enumerate(iter(partial(file.readline, longest + 1), b""), first):
        if len(line) > longest:
            check_line(line, f"{name}:{number}")
        yield number, (line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line).rstrip(b"\r\n")


def decoded(line: bytes, place: str) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = " ".join(f"{byte:02x}" for byte in line[error.start : error.start + 4])
        raise DataError(
            f"{place}: byte {error.start + 1} of the line is not UTF-8 (hex {bad}); "
            "convert the file first, for example: iconv -f latin1 -t utf-8"
        ) from None


def delimited_rows(
    lines: Lines, name: str, delimiter: str = "", *, quotes: bool = True, longest: int | None = None, remedy: str
) -> Iterator[tuple[str, list[str] | DataError]]:
    """Yield the rows of CSV or TSV with their positions, or the errors they have.

    No cell may be longer than `longest`, or else than a line. Without a delimiter, the first line reveals it.
    """
    feed = _Feed(lines, name)
    first = next(feed, None)
    if first is None:
        raise DataError(f"{name}: the file is empty; its first line must name the columns")
    delimiter = delimiter or delimiter_in(first)
    csv.field_size_limit(longest or LONGEST_LINE.get())
    rules: Any = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    reader = csv.reader(chain([first], feed), delimiter=delimiter, quoting=rules, strict=True)
    while True:
        try:
            cells = next(reader)
            yield f"{name}:{feed.begun}", cells
        except StopIteration:
            return
        except DataError as error:
            yield name, error
        except csv.Error as error:
            yield name, DataError(f"{name}:{feed.begun}: not a whole row ({error}); {remedy}")
        feed.begun = 0


def delimiter_in(line: str) -> str:
    """Return the delimiter of a table by its first line."""
    return next((sign for sign in "\t,;" if sign in line), ",")


class _Feed:
    """Feed lines to a CSV reader, keeping the number of a row's first line and surviving lines that are not UTF-8."""

    def __init__(self, lines: Lines, name: str) -> None:
        self.lines, self.name, self.begun = lines, name, 0  # 0: no line of the row was read

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        number, line = next(self.lines)
        self.begun = self.begun or number
        return decoded(line, f"{self.name}:{number}") + "\n"


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """Open the file for reading, decompressed if its first bytes are gzip's, whatever its name."""
    with _opened(path) as raw:
        yield BufferedReader(Unpacked(path, raw), _BUFFER) if raw.peek(2)[:2] == GZIP_MAGIC else raw


class _Watched(FileIO):
    """A file whose reader may want to know how far it is."""

    def readinto(self, buffer: Any) -> int | None:
        count, told = super().readinto(buffer), READ.get()
        if told is not None and count:
            told(count)
        return count


def _opened(path: Path) -> BufferedReader:
    try:
        return BufferedReader(_Watched(path), _BUFFER)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder, where a file is needed") from None
    except PermissionError:
        raise DataError(f"{path}: reading it is not permitted") from None


class Unpacked(RawIOBase):
    """The content of a gzip'd file; one that is damaged, or unpacks to far more than its size, is an error."""

    def __init__(self, path: Path, packed: BufferedReader) -> None:
        self._path, self.packed, self._file = path, packed, gzip.GzipFile(fileobj=packed)
        self._size, self._read = os.fstat(packed.fileno()).st_size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count = self._file.readinto(buffer)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(
                f"{self._path}: the gzip data is cut off or damaged ({error}); fetch or write the file again"
            ) from None
        self._read += count
        check_unpacked(self._read, self._size, str(self._path))
        return count


def head_of(path: Path) -> bytes:
    """Return the first bytes of a file, without a byte order mark; it must not be empty."""
    with opened(path) as file:
        head = file.read(_HEAD)
    if not head:
        raise DataError(f"{path}: the file is empty")
    return head.removeprefix(_BYTE_ORDER_MARK)


def form_of_content(path: Path) -> str:
    """Tell what a file of records is by its first bytes: parquet, json (an object a line) or delimited (CSV, TSV)."""
    head = head_of(path)
    if head.startswith(b"PAR1"):
        return "parquet"
    return "json" if head.lstrip().startswith(b"{") else "delimited"


def first_lines(path: Path) -> str:
    """Return the first lines of a file, as far as they are whole; what is not UTF-8 in them is replaced."""
    head = head_of(path)
    whole = head.rpartition(b"\n")[0] if len(head) >= _HEAD - len(_BYTE_ORDER_MARK) and b"\n" in head else head
    return whole.decode("utf-8", errors="replace")
