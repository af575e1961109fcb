"""Damaged and hostile model, packed and run folders: each is refused in words, or answers; none hurts who opens it."""

from __future__ import annotations

import json
import random
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.campaign.children import MOST_MEMORY, SLOWEST, Outcome, outcome, quietly
from benchmarks.campaign.materials import PATIENCE, TEXTS, Made, interrupted, learnt, made, train
from benchmarks.campaign.mutations import blind, copied, informed
from benchmarks.chaos.claims import Claim, exceptions, found_and_claimed
from laconic.storage.manifest import MANIFEST, MODEL, PACKED, PACKED_MODEL, write_manifest

_OFTENER = 36  # cases of models for each of a run: there are more of them, and they take seconds
_NEWS = 500  # cases between two lines of progress


class Kind(NamedTuple):
    name: str
    folder: Path  # in its right state
    opened: Callable[[Path], Any]  # answers by which a change would be noticed
    sealed: Callable[[Path], None]  # writes hashes as somebody does who has changed the files
    seconds: float = SLOWEST
    harmless: str = ""  # an answer that shows that what was changed does not matter


def folders(scratch: Path, cases: int, variants: Sequence[str]) -> dict[str, Any]:
    """Try so many damaged folders, shared among kinds and methods; half by chance, half with the hashes put right."""
    kinds = [kind for variant in variants for kind in _kinds(made(variant, scratch / variant), scratch)]
    for kind in kinds:
        quietly(
            partial(kind.opened, copied(kind.folder, scratch / "warm"))
        )  # what is compiled is compiled before forks
    resumed = sum(bool(kind.harmless) for kind in kinds)
    print(f"{len(kinds)} kinds of folders of {len(variants)} methods, {resumed} of them runs", flush=True)
    kinds = [kind for kind in kinds for _ in range(1 if kind.harmless else _OFTENER)]
    found: Counter[str] = Counter()
    complaints, longest, largest = [], [0.0, 0.0], 0.0  # seconds of opening, and of resuming
    chance = random.Random(1)
    number = 0
    while (tried := sum(found.values())) < cases:
        if tried % _NEWS == 0:
            print(f"{tried} folders, {len(complaints)} complaints", flush=True)
        number += 1
        kind, by_chance = kinds[number % len(kinds)], number // len(kinds) % 2 == 0
        place = copied(kind.folder, scratch / "case")
        said = (blind if by_chance else informed)(place, chance)
        if not said:
            continue
        if not by_chance:
            kind.sealed(place)
        ended = outcome(partial(kind.opened, place), kind.seconds)
        longest[bool(kind.harmless)] = max(longest[bool(kind.harmless)], ended.seconds)
        largest = max(largest, ended.megabytes)
        if kind.harmless and ended.value == kind.harmless:
            ended = ended._replace(kind="no matter")  # a log, or a checkpoint that was not needed any more
        found[f"{'by chance' if by_chance else 'informed'}: {ended.kind}"] += 1
        if ended.bad or (by_chance and ended.kind == "done"):
            complaints.append(f"{kind.name}, {'by chance' if by_chance else 'informed'}, {said}: {_told(ended)}")
            print(complaints[-1], flush=True)
    silent = found["by chance: done"]
    figures = {
        "folders": tried,
        **found,
        "complaints": complaints[:50],
        "slowest_opening_s": round(longest[0], 2),
        "slowest_resuming_s": round(longest[1], 2),
        "most_mb": round(largest),
    }
    return found_and_claimed(
        figures,
        Claim(f"{tried:,} damaged folders: each is refused, or opens", exceptions(len(complaints)), not complaints),
        Claim("no damage by chance opens without a word", f"{silent} of {_sum(found, 'by chance'):,}", not silent),
        Claim(
            "no memory over 1 GB, no opening over 5 s, no resumed training over 60 s",
            f"{largest:.0f} MB, {longest[0]:.1f} s, {longest[1]:.1f} s",
            largest < MOST_MEMORY and longest[0] < SLOWEST and longest[1] < PATIENCE,
        ),
    )


def _sum(found: Counter[str], beginning: str) -> int:
    return sum(number for name, number in found.items() if name.startswith(beginning))


def _told(ended: Outcome) -> str:
    return f"{ended.kind}, {ended.seconds:.1f} s, {ended.megabytes:.0f} MB: {str(ended.value)[-600:]}"


def _kinds(one: Made, scratch: Path) -> list[Kind]:
    model = one.folder
    seal, seal_packed = partial(_seal, kind=MODEL), partial(_seal, kind=PACKED_MODEL)
    packed = copied(model / PACKED, scratch / f"packed-{one.variant}")
    alone = copied(model, scratch / f"model-{one.variant}")
    for path in sorted((alone / PACKED).iterdir()):
        path.unlink()
    (alone / PACKED).rmdir()
    kinds = [
        Kind(f"{one.variant}, model", alone, _model_answers, seal),
        Kind(f"{one.variant}, packed", packed, _packed_answers, seal_packed),
    ]
    for after in sorted({1, one.saves // 2, one.saves - 1} & {*range(1, one.saves + 1)}):
        run = interrupted(one, scratch / f"run-{one.variant}-{after}", after)
        if run is not None:
            name = f"{one.variant}, run after {after} of {one.saves} saves"
            kinds.append(Kind(name, run, partial(train, one), _seal_run, PATIENCE, learnt(model)))
    return kinds


def _model_answers(folder: Path) -> str:
    from laconic.predict.predictor import Predictor

    return repr(Predictor.open(folder, device="cpu").predict(TEXTS))


def _packed_answers(folder: Path) -> str:
    from laconic.predict.packed_predictor import PackedPredictor

    return repr(PackedPredictor.open(folder).predict(TEXTS))


def _seal(folder: Path, kind: str) -> None:
    if (folder / MANIFEST).exists():
        write_manifest(folder, format=1, kind=kind)


def _seal_run(folder: Path) -> None:
    """Give every file of a run that is there its size and checksum in the run's manifest."""
    run = folder / "run"
    try:
        manifest = json.loads((run / MANIFEST).read_text())
        files = manifest["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return  # the manifest itself is what was changed
    if not isinstance(files, dict):
        return
    for path in run.glob("*.safetensors"):
        content = path.read_bytes()
        files[path.name] = [{"bytes": len(content), "crc32": f"{zlib.crc32(content):08x}"}]
    (run / MANIFEST).write_text(json.dumps(manifest))
