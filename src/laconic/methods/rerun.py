"""Whether a model folder holds what a training would make."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laconic.errors import ModelError
from laconic.storage.model_folder import read_facts
from laconic.training.run import differences

_TOLD = 3  # differences


def what_differs(folder: Path, training: Mapping[str, Any], also: Mapping[str, Mapping[str, Any]]) -> str:
    """Tell why the finished model of a folder is not what this training would make; empty: it is.

    `also` are facts of the model that training does not decide, such as its storage.
    """
    try:
        facts = read_facts(folder)
    except ModelError as error:
        return str(error)
    run, kept = facts.get("run"), {name: facts.get(name) for name in also}
    if isinstance(run, dict) and all(isinstance(one, dict) for one in kept.values()):
        if facts.get("changes"):
            return f"it was changed by {_verbs(facts['changes'])} since it was trained"
        now = {name: {**(kept[name] or {}), **one} for name, one in also.items()}
        return _difference({**run, **kept}, {**training, **now})
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
