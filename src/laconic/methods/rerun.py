"""Compare a model folder, finished or not, with what a training would produce."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from laconic.errors import ModelError
from laconic.storage.facts import ModelFacts
from laconic.storage.manifest import PACKED_MODEL, check_manifest, json_object, kind_of
from laconic.storage.model_folder import RUN, read_facts
from laconic.training.run_folder import ASKED, RunFolder, differences

_SHOWN = 3  # differences


class Choice(NamedTuple):
    """A method with its settings that `auto` has chosen."""

    method: str
    config: dict[str, Any]
    members: int = 1  # of an ensemble


def earlier_choice(folder: Path, asked: Mapping[str, Any], *, finished: bool) -> Choice | None:
    """Return what the same request chose before, as its unfinished run says or, if wanted, its finished model.

    The choice depends on the machine's cores, among other things; a run is resumed on another machine all the same.
    """
    facts: Any = RunFolder(folder / RUN).chosen_before(asked)
    if not facts and finished:
        with suppress(ModelError):
            model = _facts_of(folder)
            facts = model.get("run") if model.get(ASKED) == json.loads(json.dumps(asked)) else None
    match facts:
        case {"method": str(method), "config": dict(config), "ensemble": int(members)}:
            return Choice(method, config, members)
    return None


def what_differs(folder: Path, training: Mapping[str, Any], also: Mapping[str, Mapping[str, Any]]) -> str:
    """Describe how a folder's finished model differs from what this training would produce; empty: it does not.

    `also` has facts of the model that training does not decide, such as its storage.
    """
    try:
        facts = _facts_of(folder)
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


def _facts_of(folder: Path) -> ModelFacts:
    """Return the facts of a finished model, be it a packed one alone."""
    if kind_of(folder) != PACKED_MODEL:
        return read_facts(folder)
    check_manifest(folder, verify=False, kind=PACKED_MODEL)
    return ModelFacts(json_object(folder / "packed.json"))


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describe the method alone where that differs, and other data where nothing else does."""
    if before.get("method") != now["method"]:
        return f"it has method = {before.get('method')!r} (now {now['method']!r})"
    found = list(differences({**before, "data": now["data"]}, now))
    if found:
        return f"it has {', '.join(found[:_SHOWN])}" + f" and {len(found) - _SHOWN} more" * (len(found) > _SHOWN)
    return "" if before.get("data") == now["data"] else "it was trained on other data"
