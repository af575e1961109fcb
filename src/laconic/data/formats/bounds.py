"""Bounds on what a file may ask for, by what it holds: a small one must not fill the memory or keep a reader busy."""

from __future__ import annotations

from contextvars import ContextVar

from laconic.errors import DataError
from laconic.units import counted

MEGABYTE = 1 << 20
LONGEST_LINE: ContextVar[int] = ContextVar("longest line in bytes", default=16 * MEGABYTE)

_UNPACKED, _TIMES = 64 * MEGABYTE, 100  # what any file may unpack to, and a larger one by its size
_ANNOUNCED, _BY_ENTRY = 1 << 22, 16  # rows or columns that any matrix may have, and a fuller one by its entries


def check_line(line: bytes, place: str) -> None:
    """Refuse a line that is longer than lines may be."""
    if len(line) > LONGEST_LINE.get():
        raise DataError(
            f"{place}: the line is longer than {LONGEST_LINE.get() // MEGABYTE} MB; break it into several, or allow "
            "longer ones (--max-line)"
        )


def check_unpacked(size: int, packed: int, place: str) -> None:
    """Refuse what unpacks to very many times its size."""
    if size > max(_UNPACKED, _TIMES * packed):
        raise DataError(
            f"{place}: its {packed:,} bytes unpack to more than {max(_UNPACKED, _TIMES * packed):,}, which could fill "
            "the memory; unpack the file first if you trust it"
        )


def check_announced(size: int, entries: int, place: str, what: str) -> None:
    """Refuse a number of rows or columns that is out of all proportion to the entries of a matrix."""
    if size > max(_ANNOUNCED, _BY_ENTRY * entries):
        raise DataError(
            f"{place}: {counted(size, what)} for {counted(entries, 'entry', 'entries')}, which cannot be right; mend "
            "the number, or write the file again"
        )
