"""Planted peers: one that learns which labels a word goes with, and others that go wrong as libraries do."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from laconic.analysis.peers.peer import Examples, Rank, ranked
from laconic.packed.engine.texts import Ranked


@dataclass(frozen=True, kw_only=True)
class Toy:
    name: str = "toy"
    module: str = "json"  # which is always there
    install: str = "pip install toy"
    how: str = "toy.train(words | labels)"

    def train(self, examples: Examples, folder: Path, threads: int) -> None:
        counts: dict[str, Counter[int]] = {}
        for row, text in enumerate(examples.texts):
            for word in text.split():
                counts.setdefault(word, Counter()).update(examples.labels[[row]].indices.tolist())
        shares = {
            word: {label: (count / own.total()) ** 2 for label, count in own.items()} for word, own in counts.items()
        }
        (folder / "shares.json").write_text(json.dumps(shares))

    def open(self, folder: Path) -> Rank:
        shares = json.loads((folder / "shares.json").read_text())

        def rank(texts: Sequence[str], k: int) -> Ranked:
            return ranked((_best(text, shares) for text in texts), k)

        return rank


@dataclass(frozen=True, kw_only=True)
class Killed(Toy):
    name: str = "killed"

    def train(self, examples: Examples, folder: Path, threads: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class Leaving(Toy):
    """Ends the process as if all were well."""

    name: str = "leaving"

    def train(self, examples: Examples, folder: Path, threads: int) -> None:
        os._exit(0)


@dataclass(frozen=True, kw_only=True)
class Endless(Toy):
    """Says so, and then does not come to an end."""

    name: str = "endless"

    def train(self, examples: Examples, folder: Path, threads: int) -> None:
        (folder / "begun").touch()
        time.sleep(600)


@dataclass(frozen=True, kw_only=True)
class Raising(Toy):
    name: str = "raising"

    def open(self, folder: Path) -> Rank:
        raise ValueError("the toy is broken")


@dataclass(frozen=True, kw_only=True)
class Astray(Toy):
    """Answers with a label that there is not."""

    name: str = "astray"

    def open(self, folder: Path) -> Rank:
        return lambda texts, k: ranked([[(10**6 if len(texts) > 1 else 0, 1.0)] for _ in texts], k)


TOY, KILLED, LEAVING, ENDLESS = Toy(), Killed(), Leaving(), Endless()
RAISING, ASTRAY = Raising(), Astray()
ABSENT = Toy(name="absent", module="surely_not_installed", install="pip install absent")


def _best(text: str, shares: dict[str, dict[str, float]]) -> list[tuple[int, float]]:
    sums = Counter[int]()
    for word in text.split():
        for label, share in shares.get(word, {}).items():
            sums[int(label)] += share  # type: ignore[assignment]  # rows of numpy are Any to mypy
    return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))
