"""Small models of every kind, and the commands that make and change them."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.campaign.children import command, killed_after, outcome
from benchmarks.fingerprints import VARIANTS, planted
from laconic.config import Settings
from laconic.training.run import Run

TEXTS = ["word01aaa word01bbb common1", "word05aaa common2", "no word that is known", ""]
_PATIENCE = 120.0  # seconds for a command that nobody disturbs
_OFTEN = 0.2  # seconds between checkpoints
_HASHED = (".safetensors", ".txt", ".utf8")


class Made(NamedTuple):
    """A trained model of one of our methods, and the data it was trained on."""

    variant: str
    folder: Path
    data: Path
    seconds: float  # that its training took


def data_file(folder: Path) -> Path:
    """Write texts that predict their labels, with texts of the labels beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    texts, labels, label_texts = planted()
    rows = [{"text": text, "labels": true} for text, true in zip(texts, labels, strict=True)]
    _write(folder / "train.jsonl", rows)
    _write(folder / "test.jsonl", rows[:40])
    _write(folder / "labels.jsonl", [{"id": name, "text": text} for name, text in label_texts.items()])
    _write(folder / "more.jsonl", [{"id": "new", "text": "word01aaa word02bbb"}])
    return folder


def made(variant: str, folder: Path) -> Made:
    """Train a variant and pack it."""
    one = Made(variant, folder / "model", data_file(folder / "data"), 0.0)
    ended = outcome(lambda: train(one, one.folder), _PATIENCE)
    if ended.bad or ended.kind != "done":
        raise SystemExit(f"{variant} cannot be trained: {ended.value}")
    return one._replace(seconds=ended.seconds)


def train(one: Made, folder: Path) -> str:
    """Train or resume a model in this process; return the hash of what it has learnt."""
    method, settings = VARIANTS[one.variant]
    given = [f"--set={name}={json.dumps(value)}" for name, value in _flat(settings) if name != "ensemble"]
    if "ensemble" in settings:
        given.append(f"--ensemble={settings['ensemble']}")
    Run.__init__.__kwdefaults__["seconds"] = _OFTEN  # the usual minute would leave nothing to resume
    command("train", one.data, "--method", method, "--out", folder, "--device", "cpu", *given)
    return learnt(folder)


def learnt(folder: Path) -> str:
    """Return one hash of all numbers and names of a model and of what is packed of it; empty if there is none."""
    if not (folder / "manifest.json").exists():
        return ""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in _HASHED and "run" not in path.relative_to(folder).parts:
            found.update(f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:16]


def interrupted(one: Made, folder: Path) -> Path | None:
    """Return the folder of a training that was killed and can be resumed; None if it leaves nothing to resume."""
    for share in (0.5, 0.7, 0.8, 0.9, 0.3, 0.6, 0.75, 0.85):
        shutil.rmtree(folder, ignore_errors=True)
        killed_after(share * one.seconds, lambda: train(one, folder))
        if (folder / "run" / "manifest.json").exists() and not (folder / "manifest.json").exists():
            return folder
    return None


def _flat(settings: Settings, prefix: str = "") -> list[tuple[str, Any]]:
    found = []
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            found += _flat(value, f"{prefix}{name}.")
        else:
            found.append((prefix + name, value))
    return found


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
