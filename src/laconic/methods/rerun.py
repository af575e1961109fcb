"""Compare a finished model folder with what a training would produce."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laconic.errors import ModelError
from laconic.storage.model_folder import read_facts
from laconic.training.run import differences

_SHOWN = 3  # differences


def what_differs(folder: Path, training: Mapping[str, Any], also: Mapping[str, Mapping[str, Any]]) -> str:
    """Describe how a folder's finished model differs from what this training would produce; empty: it does not.

    `also` has facts of the model that training does not decide, such as its storage.
    """
    try:
        facts = read_facts(folder)
    except ModelError as error:
        return str(error)
    run, kept = facts.get("run"), {name: facts.get(name) for name in also}
    if isinstance(run, dict) and all(isinstance(one, dict) for one in kept.values()):
        if facts.get("changes"):
            verbs = dict.fromkeys(str(change.get("verb")) for change in facts.changes)
            return f"it was changed by {', '.join(verbs) or 'somebody'} since it was trained"
        now = {name: {**(kept[name] or {}), **one} for name, one in also.items()}
        return _difference({**run, **kept}, {**training, **now})
    return "it does not say what it was trained with"


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describe the method alone where that differs, and other data where nothing else does."""
    if before.get("method") != now["method"]:
        return f"it has method = {before.get('method')!r} (now {now['method']!r})"
    found = list(differences({**before, "data": now["data"]}, now))
    if found:
        return f"it has {', '.join(found[:_SHOWN])}" + f" and {len(found) - _SHOWN} more" * (len(found) > _SHOWN)
    return "" if before.get("data") == now["data"] else "it was trained on other data"
