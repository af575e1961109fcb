"""Files and folders that appear whole or not at all: written under another name, flushed to disk, then renamed."""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from laconic.errors import UserError

_PARTIAL = ".partial-"
_AT_CURRENT_FOLDER, _EXCHANGE = -100, 2  # of renameat2(2)


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to. It takes the place of `path` when the block ends well; otherwise `path` stays as it was."""
    with replacing_file(path) as partial, partial.open("wb") as file:
        yield file


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """The same for those who open files themselves: a path to write to."""
    partial = path.with_name(f".{path.name}{_PARTIAL}{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        _sync_file(partial)
        partial.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise _explained(error, path) from error
    finally:
        with suppress(OSError):
            partial.unlink()


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """An empty folder to fill. It takes the place of `folder` when the block ends well; otherwise that stays."""
    folder = Path(os.path.realpath(folder))  # what a link points at is replaced, not the link
    partial = folder.with_name(f".{folder.name}{_PARTIAL}{os.getpid()}")
    try:
        for path in left_behind(folder):
            shutil.rmtree(path, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        for path in partial.rglob("*"):
            if path.is_file():
                _sync_file(path)
        _sync_folder(partial)
        _put_in_place(partial, folder)
        _sync_folder(folder.parent)
    except OSError as error:
        raise _explained(error, folder) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_writable(folder: Path) -> None:
    """Refuse a folder that could not be written, before any work is done for it."""
    folder = Path(os.path.realpath(folder))
    try:
        above = next(parent for parent in folder.parents if parent.exists())
        with TemporaryDirectory(prefix=f".{folder.name}{_PARTIAL}", dir=above):
            pass
    except OSError as error:
        raise _explained(error, folder) from error


def left_behind(folder: Path) -> list[Path]:
    """What a writer of that folder that was killed has left beside it; the next one takes it away."""
    return list(folder.parent.glob(glob.escape(f".{folder.name}{_PARTIAL}") + "*"))


def _put_in_place(partial: Path, folder: Path) -> None:
    if not folder.exists():
        partial.rename(folder)
    elif not _exchanged(partial, folder):
        # Without the exchange there is a moment without any folder, but never one with half a folder.
        old = folder.with_name(f".{folder.name}{_PARTIAL}old")
        folder.rename(old)
        partial.rename(folder)
        shutil.rmtree(old)


def _exchanged(one: Path, other: Path) -> bool:
    """Swaps two folders in one step, where the system can."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    here = ctypes.c_int(_AT_CURRENT_FOLDER)
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), ctypes.c_uint(_EXCHANGE)) == 0)


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _explained(error: OSError, path: Path) -> Exception:
    """Return an error for people; that nobody reads our output is no trouble with the file."""
    if isinstance(error, BrokenPipeError):
        return error
    known = {errno.ENOSPC: "the disk is full", errno.EACCES: "writing is not permitted", errno.EROFS: "it is read-only"}
    reason = known.get(error.errno or 0) or f"cannot be written ({error.strerror or error})"
    return UserError(f"{path}: {reason}; nothing was changed there")
