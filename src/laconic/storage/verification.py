"""Verify the content of a folder's files when it is opened, and remember that, so that opening it again is instant.

A manifest has two hashes of a file. CRC-32 of every 16 MiB is quick to compute and finds damage: flipped bits, lost
pages, half a copy. SHA-256 identifies a file's content and takes several times as long; manifests of earlier versions
have it alone. Neither is a defence against somebody who writes the manifest too.

What was verified is remembered in the user's cache by the files' inodes, sizes and times. Any write to a file, and any
copy of it, changes these, and the folder is then verified again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from laconic.system.cache_folder import cache_folder
from laconic.system.machine import usable_cores

_CHUNK = 16 * 2**20  # bytes of a file that have a CRC-32 of their own, so that threads share a large file
_BUFFER = 2**18  # bytes read at a time; they stay in a core's cache
_RACE = 2 * 10**9  # nanoseconds: clocks of file systems are coarse, and a later write could bear the same time
_MOST_REMEMBERED = 1000  # folders
_CACHE = "verified"


class Content(NamedTuple):
    """What a manifest says of a file's content."""

    sha256: str
    crc32: tuple[int, ...] | None  # of every chunk; None: the manifest has none


def contents_of(paths: Sequence[Path]) -> list[Content]:
    """Compute the hashes of files, on all cores."""
    with ThreadPoolExecutor(usable_cores()) as threads:
        sha256 = list(threads.map(sha256_of, paths))
        crc32 = [tuple(threads.map(partial(_crc32, path), range(_chunks(path)))) for path in paths]
    return [Content(*found) for found in zip(sha256, crc32, strict=True)]


def first_damaged(contents: Mapping[Path, Content], *, thorough: bool = False) -> Path | None:
    """Return the first file whose content is not as the manifest says; None if all are intact.

    With `thorough`, both hashes are computed; otherwise CRC-32 alone, where there is one.
    """
    with ThreadPoolExecutor(usable_cores()) as threads:
        looks = [threads.submit(look) for path in contents for look in _looks(path, contents[path], thorough)]
        damaged = {path for path in (look.result() for look in looks) if path is not None}
    return next((path for path in contents if path in damaged), None)


def crc32_of(path: Path, start: int = 0, most: int | None = None) -> int:
    """Return the CRC-32 of a file's content from a byte on, of `most` bytes or of all."""
    found, left, buffer = 0, path.stat().st_size if most is None else most, memoryview(bytearray(_BUFFER))
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while left > 0 and (read := file.readinto(buffer[: min(left, _BUFFER)])):
            found, left = zlib.crc32(buffer[:read], found), left - read
    return found


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damaged_file(folder: Path, manifest: str, contents: Mapping[str, Content]) -> str | None:
    """Return the first damaged file of a folder; None if all are intact, which is remembered and not computed again."""
    stamps = _stamps(folder, [manifest, *contents])  # of before: a write from now on makes them differ
    entry = _entry(folder)
    if entry is not None and _remembered(entry) == stamps:
        return None
    damaged = first_damaged({folder / name: content for name, content in contents.items()})
    if damaged is not None:
        return damaged.name
    if entry is not None:
        _remember(entry, stamps)
    return None


def _remembered(entry: Path) -> object:
    try:
        return json.loads(entry.read_bytes())
    except (OSError, ValueError):
        return None


def _remember(entry: Path, stamps: Mapping[str, Sequence[int]]) -> None:
    """Remember files that are verified, unless they were written a moment ago."""
    if max(max(stamp[-2:]) for stamp in stamps.values()) > time.time_ns() - _RACE:
        return
    new = entry.with_suffix(f".{os.getpid()}-{time.time_ns()}")
    with suppress(OSError):  # a full disk: the folder is verified again next time
        _forget_oldest(entry.parent)
        new.write_text(json.dumps(stamps))
        new.replace(entry)


def _looks(path: Path, content: Content, thorough: bool) -> Iterator[Callable[[], Path | None]]:
    """Yield the pieces of work that verify a file; each returns its path if it is damaged."""
    if content.crc32 is not None:
        if len(content.crc32) != _chunks(path):
            yield lambda: path
        for number, expected in enumerate(content.crc32):
            yield partial(_differing, path, expected, partial(_crc32, path, number))
    if thorough or content.crc32 is None:
        yield partial(_differing, path, content.sha256, partial(sha256_of, path))


def _differing(path: Path, expected: object, found: Callable[[], object]) -> Path | None:
    return None if found() == expected else path


def _chunks(path: Path) -> int:
    return -(-path.stat().st_size // _CHUNK)


def _crc32(path: Path, number: int) -> int:
    return crc32_of(path, number * _CHUNK, _CHUNK)


def _entry(folder: Path) -> Path | None:
    cache = cache_folder(_CACHE)
    return None if cache is None else cache / f"{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]}.json"


def _stamps(folder: Path, names: Sequence[str]) -> dict[str, list[int]]:
    """Return what changes when a file is written to, or is another file; times are last."""
    found = {name: (folder / name).stat() for name in names}
    return {name: [of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns] for name, of in found.items()}


def _forget_oldest(cache: Path) -> None:
    entries = list(cache.iterdir())
    if len(entries) >= _MOST_REMEMBERED:
        for path in sorted(entries, key=lambda path: path.stat().st_mtime)[: _MOST_REMEMBERED // 2]:
            path.unlink(missing_ok=True)
