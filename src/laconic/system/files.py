"""Write files and folders atomically: under another name first, flushed to disk, then renamed.

A folder is exchanged with the one that takes its place in one step, where system and file system can (Linux, macOS; not
some network file systems). Elsewhere the old folder is set aside under a name of its own first, and goes when the new
one is in place. A writer that is killed in between leaves no folder; the next reader or writer restores the one set
aside (`restore`), which is not removed as long as there is none in its place.

A folder has one writer at a time (`locks.py`), so what a writer finds half written is of one that was killed.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from laconic.system.locks import lock_of, locked
from laconic.system.write_errors import explained

log = logging.getLogger(__name__)
_PARTIAL = ".partial-"
_SET_ASIDE = ".set-aside"
_AT_CURRENT_FOLDER, _EXCHANGE = -100, 2  # of renameat2(2) on Linux
_SWAP = 2  # of renamex_np(2) on macOS
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)  # what rename says of a name that a folder has
_TRIES = 100  # to put a folder in place while readers put the old one back


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces `path` when the block ends well; otherwise `path` stays."""
    with replacing_file(path) as partial, partial.open("wb") as file:
        yield file


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which replaces `path` when the block ends well."""
    partial = _partial_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        _sync_file(partial)
        partial.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise explained(error, path) from error
    finally:
        with suppress(OSError):
            partial.unlink()


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to fill, which replaces `folder` when the block ends well; otherwise that stays.

    A folder that another process or thread is writing is refused (`LockedError`).
    """
    folder = _real(folder)  # what a link points at is replaced, not the link
    partial, here = _partial_of(folder), _current_folder()
    try:
        with locked(folder) as alone:
            try:
                restore(folder)
                _sweep(folder, partials=alone)
                partial.mkdir(parents=True)
                yield partial
                _sync(partial)
                _put_in_place(partial, folder)
                _sync_folder(folder.parent)
                _enter_again(here, folder)
            finally:
                with suppress(OSError):
                    restore(folder)  # where the new one could not be put in its place
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise explained(error, folder) from error


def restore(folder: Path) -> None:
    """Restore the folder that a killed writer had set aside, if it left none in its place."""
    folder = _real(folder)
    aside = set_aside(folder)
    if folder.exists() or not aside.exists():
        return
    try:
        aside.rename(folder)
    except OSError as error:
        # Another process may have restored it, or the writer lives and has put the new one in its place.
        if error.errno not in (errno.ENOENT, *_TAKEN):
            raise
    else:
        _sync_folder(folder.parent)


def bytes_in(folder: Path) -> int:
    """Return the size of the files that lie in a folder; folders inside it are not counted."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def set_aside(folder: Path) -> Path:
    """Return the name under which the old folder is kept until the new one is in place."""
    return folder.with_name(f".{folder.name}{_SET_ASIDE}")


def check_writable(folder: Path) -> None:
    """Refuse a folder that could not be written, before any work is done for it."""
    folder = Path(os.path.realpath(folder))
    try:
        above = next(parent for parent in folder.parents if parent.exists())
        with TemporaryDirectory(prefix=f".{folder.name}{_PARTIAL}", dir=above):
            pass
    except OSError as error:
        raise explained(error, folder) from error


def left_behind(folder: Path) -> list[Path]:
    """List the leftovers of a killed writer of that folder; the next writer removes them."""
    return [*_partials(folder), *(path for path in (set_aside(folder), lock_of(folder)) if path.exists())]


def sweep_files(folder: Path, *also: str) -> None:
    """Remove the half-written files of killed writers, and those of patterns, from a folder with no other writer."""
    for path in (one for pattern in (f".*{_PARTIAL}*", *also) for one in folder.glob(pattern)):
        path.unlink(missing_ok=True)


def _put_in_place(partial: Path, folder: Path) -> None:
    if _exchanged(partial, folder):
        return
    for attempt in range(_TRIES):
        if folder.exists():
            _discard(set_aside(folder))  # of a writer that was killed when its own folder was in place
            folder.rename(set_aside(folder))
            if not attempt:  # a slow disk would give readers the time to restore it again and again
                _sync_folder(folder.parent)
        try:
            partial.rename(folder)
        except OSError as error:
            if error.errno not in _TAKEN:  # a reader took this for a killed writer's doing, and put the old one back
                raise
        else:
            _sync_folder(folder.parent)
            _discard(set_aside(folder))
            return
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(folder))


def _sweep(folder: Path, *, partials: bool) -> None:
    """Remove leftovers of killed writers; a folder set aside only if there is one in its place."""
    if folder.exists():
        _discard(set_aside(folder))
    for path in _partials(folder) if partials else ():
        shutil.rmtree(path, ignore_errors=True)


def _discard(aside: Path) -> None:
    """Remove a folder that was set aside, renaming it first so that no partial folder can be restored."""
    if aside.exists():
        gone = aside.with_name(f"{aside.name.removesuffix(_SET_ASIDE)}{_PARTIAL}{_token()}")
        aside.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _partial_of(path: Path) -> Path:
    return path.with_name(f".{path.name}{_PARTIAL}{_token()}")


def _token() -> str:
    """Return a name that no other writer has."""
    return secrets.token_hex(8)


def _partials(folder: Path) -> list[Path]:
    return list(folder.parent.glob(glob.escape(f".{folder.name}{_PARTIAL}") + "*"))


def _real(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system or the file system cannot, or one is not there."""
    system = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if hasattr(system, "renameat2"):
        here = ctypes.c_int(_AT_CURRENT_FOLDER)
        return bool(system.renameat2(here, names[0], here, names[1], ctypes.c_uint(_EXCHANGE)) == 0)
    if hasattr(system, "renamex_np"):
        return bool(system.renamex_np(*names, ctypes.c_uint(_SWAP)) == 0)
    return False


def _current_folder() -> Path | None:
    """Return the current folder; None if it was removed."""
    with suppress(FileNotFoundError):
        return Path.cwd()
    return None


def _enter_again(here: Path | None, folder: Path) -> None:
    """Enter the current folder again, if it was replaced or lies in the folder that was."""
    if here is not None and here.is_relative_to(folder):
        log.warning("%s: the current folder was replaced; enter it again (cd .)", folder)
        os.chdir(here if here.is_dir() else folder)


def _sync(folder: Path) -> None:
    """Flush a folder with everything in it to disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            _sync_file(path)
        elif path.is_dir():
            _sync_folder(path)
    _sync_folder(folder)


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
