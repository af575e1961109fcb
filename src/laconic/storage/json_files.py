"""JSON objects in files: read with a limit of size, and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from laconic.errors import UserError

LARGEST = 16 * 2**20  # bytes


def read_json(path: Path, damaged: Callable[[str], UserError]) -> dict[str, Any]:
    """Return the object of a file; `damaged` makes the error of what is wrong with it. The system's errors pass."""
    if not path.is_file():
        raise damaged("it is missing")
    if path.stat().st_size > LARGEST:
        raise damaged(f"{path.stat().st_size:,} bytes are too many for such a file, which was not opened")
    return parse_json(path.read_bytes(), damaged)


def parse_json(written: bytes, damaged: Callable[[str], UserError]) -> dict[str, Any]:
    """Return the object that was written; `damaged` makes the error of what is wrong with it."""
    try:
        value = json.loads(written.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise damaged(f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise damaged("it must be a JSON object")
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object. Half a pair of surrogates, as a file's name may hold, is escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    path.write_bytes(text.encode("utf-8", "backslashreplace"))
