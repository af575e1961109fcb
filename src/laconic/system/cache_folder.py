"""The folder in which a user's own caches are kept; everything in it can be made again."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def cache_folder(name: str) -> Path | None:
    """Make and return a private folder inside the user's cache, or return None where there can be none.

    It is `laconic/NAME` below XDG_CACHE_HOME or ~/.cache. One that belongs to somebody else, or that others may write
    to, is not used.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        home = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
        folder = home / "laconic" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError):  # a read-only system, or a user without a home
        return None
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        return None
    return folder
