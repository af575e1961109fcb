"""Packed models whose every answer is known before a server is asked, versions of them that differ, and broken ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from laconic.packed.folder import FORMAT, open_packed, write_packed
from laconic.predict.packed_predictor import PackedPredictor
from laconic.storage.manifest import MANIFEST, PACKED_MODEL, write_manifest
from laconic.system.files import replacing

Said: TypeAlias = list[tuple[str, float]]  # labels and scores, best first
_NEAR = 1e-6


@dataclass(frozen=True, kw_only=True)
class Known:
    """A packed folder, and what it answers."""

    folder: Path
    version: str
    texts: Sequence[str]
    answers: Sequence[Said]  # one a text

    @staticmethod
    def of(folder: Path, texts: Sequence[str], k: int = 5) -> Known:
        answerer = PackedPredictor.open(folder)
        answers = [[(one.label, one.score) for one in answer] for answer in answerer.predict(texts, k)]
        return Known(folder=folder, version=answerer.version, texts=texts, answers=answers)


def said(answer: dict[str, Any]) -> Said:
    """Of one text, as the service has it."""
    return [(one["label"], one["score"]) for one in answer["predictions"]]


def same(one: Said, other: Said) -> bool:
    """But for last digits, which depend on the texts that were answered together, and the order of labels as near."""
    if len(one) != len(other):
        return False
    pairs = zip(one, other, strict=True)
    if any(abs(score - its) > _NEAR for (_, score), (_, its) in pairs):
        return False
    scores, its_scores = dict(one), dict(other)
    least = one[-1][1] if one else 0.0
    return all(
        abs(scores.get(label, least) - its_scores.get(label, least)) <= 2 * _NEAR for label in {*scores, *its_scores}
    )


def id_coded(texts: Sequence[str], count: int) -> list[str]:
    """Texts of which no two are the same, each made of two; as many squared as there are can be had."""
    size = len(texts)
    return [f"{texts[number % size]} {texts[(7 * number + number // size) % size]}" for number in range(count)]


def other_version(folder: Path, place: Path) -> Path:
    """Return the model with other label names and scores, so that no answer can belong to both."""
    model = open_packed(folder)
    curve = {"scores": [0.0, 1.0, 100.0], "probabilities": [0.01, 0.3, 0.6]}
    names = [f"{name} (other)" for name in model.labels]
    write_packed(replace(model, labels=names, facts={**model.facts, "calibration": curve}), place)
    return place


def put(source: Path, place: Path, spoil: Callable[[Path], None] = lambda folder: None) -> None:
    """A copy of the folder takes the place of another in one step, as a model that is packed anew does."""
    with replacing(place) as partial:
        shutil.copytree(source, partial, dirs_exist_ok=True)
        spoil(partial)


def flip_a_byte(folder: Path) -> None:
    path = folder / "arrays.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_a_file(folder: Path) -> None:
    path = folder / "labels.utf8"
    path.write_bytes(path.read_bytes()[:-1])


def lose_a_file(folder: Path) -> None:
    (folder / "vocabulary.utf8").unlink()


def spoil_the_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text("{")


def tell_another_size(folder: Path) -> None:
    """Every byte is as the manifest says, but the parts do not fit."""
    facts = json.loads((folder / "packed.json").read_text(encoding="utf-8"))
    facts["sizes"]["labels"] += 1
    (folder / "packed.json").write_text(json.dumps(facts), encoding="utf-8")
    write_manifest(folder, format=FORMAT, kind=PACKED_MODEL)


SPOILS = (flip_a_byte, cut_a_file, lose_a_file, spoil_the_manifest, tell_another_size)
