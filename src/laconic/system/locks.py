"""Locks of folders: one thread of one process writes a folder at a time.

The lock of a folder is that of a file beside it, `.NAME.lock`, which holds the process and the machine of its writer.
The system releases it when the process ends, however it ends. Network file systems have such locks too; where a file
system has none, this is logged, and the folder is written without one.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from laconic.errors import UserError
from laconic.system.write_errors import explained

log = logging.getLogger(__name__)
_HELD_BY_OTHERS = (errno.EWOULDBLOCK, errno.EACCES)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF)
_LONGEST = 300  # bytes that are read of a lock file

_held: ContextVar[frozenset[Path]] = ContextVar("folders whose lock this thread holds", default=frozenset())
_descriptors: set[int] = set()  # of this process's lock files


class LockedError(UserError):
    """Another process, or another thread of this one, writes the folder."""


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder's writer, or raise `LockedError`; yield whether the file system has locks.

    A thread may take a lock again that it holds.
    """
    folder = Path(os.path.realpath(folder))
    if folder in _held.get():
        yield True
        return
    path = lock_of(folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _acquired(path, folder)
    except OSError as error:
        raise explained(error, folder) from error
    if descriptor is None:
        yield False
        return
    token = _held.set(_held.get() | {folder})
    try:
        yield True
    finally:
        _held.reset(token)
        if descriptor in _descriptors:  # a process that was forked meanwhile has closed it
            with suppress(OSError):
                path.unlink()  # before the lock is released: who opens the file from now on makes a new one
            _descriptors.remove(descriptor)
            os.close(descriptor)


def lock_of(folder: Path) -> Path:
    """Return the lock file of a folder."""
    return folder.with_name(f".{folder.name}.lock")


def _acquired(path: Path, folder: Path) -> int | None:
    """Return the descriptor of the locked file; None where the file system has no locks."""
    while True:
        descriptor, own = _opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, _LONGEST, 0).decode("utf-8", "replace").strip()
            os.close(descriptor)
            if error.errno in _HELD_BY_OTHERS:
                raise LockedError(
                    f"{folder}: {holder or 'another process'} is writing this folder; wait until it has ended, or "
                    "choose another folder"
                ) from None
            if error.errno not in _NO_LOCKS:
                raise
            log.warning(
                "%s: this file system has no locks (%s), so two writers of one folder would not notice each other",
                folder,
                error.strerror,
            )
            if own:
                path.unlink(missing_ok=True)
            return None
        if own and _is(path, descriptor):
            with suppress(OSError):  # on a full disk, others are told less
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
            _descriptors.add(descriptor)
            return descriptor
        if not own:  # of another user, who was killed
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _opened(path: Path) -> tuple[int, bool]:
    """Open a lock file; return whether it can be written, which one of another user cannot."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644), True
    except PermissionError:
        return os.open(path, os.O_RDONLY), False


def _is(path: Path, descriptor: int) -> bool:
    """Return whether the open file still has that name; its last holder may have removed it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ESTALE):
            raise
        return False


def _close_in_child() -> None:
    """Close the parent's lock files in a forked process, which would otherwise hold the locks when the parent ends."""
    for descriptor in _descriptors:
        with suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()
    _held.set(frozenset())


os.register_at_fork(after_in_child=_close_in_child)
