"""Find where every so manieth line of a file begins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_BLOCK = 1 << 22  # bytes that are searched at a time


def line_starts(file: Path, step: int) -> list[int]:
    """Return where every `step`th line begins, in bytes; an empty file has one start."""
    starts, lines, position = [0], 0, 0
    with file.open("rb", buffering=0) as opened:
        while block := opened.read(_BLOCK):
            starts += [position + at + 1 for at in last_ends(block, lines, step)]
            lines, position = lines + block.count(b"\n"), position + len(block)
    return starts if starts[-1] < position or len(starts) == 1 else starts[:-1]


def last_ends(block: bytes, lines: int, step: int) -> Iterator[int]:
    """Yield the positions of line ends in a block after every `step`th line; `lines` ended before the block."""
    if (lines + block.count(b"\n")) // step == lines // step:
        return
    at = -1
    while (at := block.find(b"\n", at + 1)) >= 0:
        lines += 1
        if lines % step == 0:
            yield at
