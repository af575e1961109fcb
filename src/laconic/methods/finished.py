"""Whether a model folder holds what a training would make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from laconic.checkpoint import read_facts
from laconic.errors import ModelError
from laconic.run import differences
from laconic.tensor_files import Storage

_TOLD = 3  # differences


def what_differs(folder: Path, training: Mapping[str, Any], storage: Storage) -> str:
    """Tell why the finished model of a folder is not what this training would make; empty: it is."""
    try:
        facts = read_facts(folder)
    except ModelError as error:
        return str(error)
    match facts:
        case {"run": dict(run), "storage": dict(stored)}:
            if changes := facts.get("changes"):
                return (
                    f"it was changed by {', '.join(dict.fromkeys(one['verb'] for one in changes))} since it was trained"
                )
            return _difference(run | {"storage": stored}, {**training, "storage": {**stored, **asdict(storage)}})
    return "it does not tell what it was trained with"


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Tell the method alone, where that differs; other data, where nothing else does."""
    if before.get("method") != now["method"]:
        return f"it has method = {before.get('method')!r} (now {now['method']!r})"
    told = list(differences({**before, "data": now["data"]}, now))
    if told:
        return f"it has {', '.join(told[:_TOLD])}" + f" and {len(told) - _TOLD} more" * (len(told) > _TOLD)
    return "" if before.get("data") == now["data"] else "it was trained on other data"


def _verbs(changes: Any) -> str:
    """Name what was done to a model; a model may come from anywhere."""
    listed = changes if isinstance(changes, list) else []
    verbs = [str(change.get("verb")) for change in listed if isinstance(change, dict)]
    return ", ".join(dict.fromkeys(verbs)) or "somebody"
