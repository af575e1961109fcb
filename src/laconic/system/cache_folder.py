"""Folders of the user's own caches, which nobody else may write to; everything in them can be made again."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def cache_folder(name: str) -> Path | None:
    """Make and return a private folder inside the user's cache, or return None where there can be none."""
    folder = user_cache(name)
    if folder is None:
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # a read-only system
        return None
    return folder if is_private(folder) else None


def user_cache(name: str) -> Path | None:
    """Return `laconic/NAME` below XDG_CACHE_HOME or ~/.cache; None for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "laconic" / name
    except RuntimeError:
        return None


def is_private(folder: Path) -> bool:
    """Return whether only the user and the administrator can write to a folder, which is not a link to another."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    return not hasattr(os, "geteuid") or (
        found.st_uid in (os.geteuid(), 0) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
