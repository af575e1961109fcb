"""Small models of every kind, and the commands that make and change them."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.campaign.children import command, outcome, quietly
from benchmarks.fingerprints import VARIANTS, planted
from laconic.config import Settings
from laconic.errors import UserError
from laconic.training.run import Run
from laconic.training.run_folder import RunFolder

TEXTS = ["word01aaa word01bbb common1", "word05aaa common2", "no word that is known", ""]
PATIENCE = 60.0  # seconds for a command that nobody disturbs
_OFTEN = 0.02  # seconds between checkpoints
_HASHED = (".safetensors", ".txt", ".utf8")


class Made(NamedTuple):
    """A trained model of one of our methods, and the data it was trained on."""

    variant: str
    folder: Path
    data: Path
    saves: int = 0  # files of its run that its training wrote


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
    """Train a variant and pack it, in this process: what it imports and compiles is there for all cases."""
    one = Made(variant, folder / "model", data_file(folder / "data"))
    saves: list[int] = []
    try:
        with_saves(lambda number: saves.append(number), partial(quietly, lambda: train(one, one.folder)))
    except UserError as error:
        raise SystemExit(f"{variant} cannot be trained: {error}") from error
    return one._replace(saves=len(saves))


def with_saves(saved: Callable[[int], None], work: Callable[[], Any]) -> None:
    """Do the work and call `saved` after each file of its run, with the number of files so far."""
    save, numbers = RunFolder.save, iter(range(1, 10**9))

    def reported(folder: RunFolder, *given: Any) -> None:
        save(folder, *given)
        saved(next(numbers))

    RunFolder.save = reported  # type: ignore[method-assign]  # put back below
    try:
        work()
    finally:
        RunFolder.save = save  # type: ignore[method-assign]  # as it was


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


def interrupted(one: Made, folder: Path, after: int) -> Path | None:
    """Return the folder of a training that was killed after so many saves; None if it cannot be resumed."""
    if not after:
        return None

    def kill(number: int) -> None:
        if number == after:
            os.kill(os.getpid(), signal.SIGKILL)

    outcome(lambda: with_saves(kill, lambda: train(one, folder)), PATIENCE)
    return folder if (folder / "run" / "manifest.json").exists() and not (folder / "manifest.json").exists() else None


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
