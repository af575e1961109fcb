"""kill -9 at any moment of a verb that writes: the old or the new model is left, and the same command ends the work."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.campaign.children import command, killed_after, outcome, quietly
from benchmarks.campaign.materials import PATIENCE, Made, learnt, made, train
from benchmarks.campaign.mutations import copied
from benchmarks.chaos.claims import Claim, exceptions, found_and_claimed
from laconic.errors import UserError

_KILLS_OF_A_RUN = 3


class Verb(NamedTuple):
    name: str
    before: Path | None  # the folder that it changes; None: it makes one
    run: Callable[[Path], Any]
    after: str  # hash of what it leaves
    seconds: float


def kills(scratch: Path, wanted: int, variants: Sequence[str]) -> dict[str, Any]:
    """Kill so many times, shared among verbs and methods; each folder is carried to its end afterwards."""
    verbs = [verb for variant in variants for verb in _verbs(made(variant, scratch / variant), scratch)]
    chance, complaints, killed = random.Random(1), [], Counter[str]()
    number = 0
    while sum(killed.values()) < wanted or number % len(verbs):  # each verb of each method as often
        if number % len(verbs) == 0:
            print(f"{sum(killed.values())} kills of {len(verbs)} commands, {len(complaints)} complaints", flush=True)
        verb = verbs[number % len(verbs)]
        number += 1
        place = _prepared(verb.before, scratch / "case")
        old, reported = learnt(place), len(complaints)
        for _ in range(chance.randint(1, _KILLS_OF_A_RUN)):
            if killed_after(chance.uniform(0.02, 1.0) * verb.seconds, partial(verb.run, place)):
                break
            killed[verb.name.split(", ")[1]] += 1
            if learnt(place) not in (old, verb.after):
                complaints.append(f"{verb.name}: a kill left neither the old nor the new model")
        if learnt(place) != verb.after or verb.before is None:
            ended = outcome(partial(verb.run, place), PATIENCE)
            if ended.kind != "done" or learnt(place) != verb.after:
                complaints.append(f"{verb.name}: not the unbroken result: {ended.kind} {str(ended.value)[-600:]}")
        left = [path.name for path in place.parent.iterdir() if "partial" in path.name or "set-aside" in path.name]
        if left:
            complaints.append(f"{verb.name}: {left[0]} was left behind")
        for said in complaints[reported:]:
            print(said, flush=True)
    total = sum(killed.values())
    return found_and_claimed(
        {"kills": total, "by verb": dict(killed), "commands": number, "complaints": complaints[:50]},
        Claim(
            f"{total} kills in {number} commands of {len(variants)} methods: the old or the new model, then bit-equal",
            exceptions(len(complaints)),
            not complaints,
        ),
    )


def _verbs(one: Made, scratch: Path) -> list[Verb]:
    data = one.data
    unpacked = copied(one.folder, scratch / f"unpacked-{one.variant}")
    shutil.rmtree(unpacked / "packed")
    changes: dict[str, tuple[Path | None, Callable[[Path], Any]]] = {
        "train": (None, partial(train, one)),
        "pack": (unpacked, lambda folder: command("pack", folder, "--data", data, "--device", "cpu")),
        "update": (one.folder, lambda folder: command("update", folder, data, "--epochs", 2, "--device", "cpu")),
        "add-labels": (one.folder, lambda folder: command("add-labels", folder, data / "more.jsonl")),
        "remove-labels": (one.folder, lambda folder: command("remove-labels", folder, "--label", "L1")),
    }
    verbs = []
    for name, (before, run) in changes.items():
        place = scratch / "reference"
        try:
            quietly(partial(run, _prepared(before, place)))  # what it imports and compiles is there for all cases
        except UserError as error:
            print(f"{one.variant}, {name}: left out, since it is refused: {error}", flush=True)
            continue
        after = learnt(place)
        ended = outcome(partial(run, _prepared(before, place)), PATIENCE)
        if ended.kind != "done" or learnt(place) != after:
            raise SystemExit(f"{one.variant}, {name}: a second time is not the first: {ended}")
        verbs.append(Verb(f"{one.variant}, {name}", before, run, after, ended.seconds))
    return verbs


def _prepared(before: Path | None, place: Path) -> Path:
    """Return the place with what a verb changes; empty for one that makes a model."""
    shutil.rmtree(place, ignore_errors=True)
    return place if before is None else copied(before, place)
