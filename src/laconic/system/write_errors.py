"""Errors of writing, in words for people."""

from __future__ import annotations

import errno
from pathlib import Path

from laconic.errors import UserError

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EIO: "the disk failed (input/output error)",
    errno.EACCES: "writing is not permitted",
    errno.EPERM: "writing is not permitted",
    errno.EROFS: "it is read-only",
    errno.ENOTDIR: "a part of its path is a file",
}


class WriteError(UserError):
    """A file or folder that the system does not let us write."""


def explained(error: OSError, path: Path) -> Exception:
    """Return an error for people; a closed output pipe is no error of the file."""
    if isinstance(error, BrokenPipeError):
        return error
    reason = _REASONS.get(error.errno or 0) or f"cannot be written ({error.strerror or error})"
    return WriteError(f"{path}: {reason}; nothing was changed there")
