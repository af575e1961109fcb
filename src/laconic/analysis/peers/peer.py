"""The interface of another library. Knows none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from scipy.sparse import csr_array

from laconic.packed.engine.texts import Ranked
from laconic.types import NO_LABEL

Rank: TypeAlias = Callable[[Sequence[str], int], Ranked]  # the best k labels of each text, in the examples' numbers


class Examples(NamedTuple):
    """Training texts; none is blank, and each has a label."""

    texts: Sequence[str]
    labels: csr_array  # texts × labels; whatever is stored is true


@runtime_checkable
class Peer(Protocol):
    """A library with settings. Its module is imported only inside `train` and `open`."""

    @property
    def name(self) -> str:
        """Return the name in tables."""

    @property
    def module(self) -> str:
        """Return the name of the module to import."""

    @property
    def install(self) -> str:
        """Return the command that installs it."""

    @property
    def how(self) -> str:
        """Describe the calls, for readers who want to repeat them."""

    def train(self, examples: Examples, folder: Path, threads: int) -> None:
        """Train, and write everything needed for prediction into an empty folder."""

    def open(self, folder: Path) -> Rank:
        """Open what `train` wrote, for prediction on one thread."""


def ranked(rows: Iterable[Iterable[tuple[int, float]]], k: int) -> Ranked:
    """Sort labels by score, best first, and pad to k."""
    found = [list(row)[:k] for row in rows]
    labels = np.full((len(found), k), NO_LABEL, dtype=np.int64)
    scores = np.zeros((len(found), k), dtype=np.float32)
    for row, pairs in enumerate(found):
        if pairs:
            labels[row, : len(pairs)], scores[row, : len(pairs)] = zip(*pairs, strict=True)
    return Ranked(labels, scores)
