"""What another library has to be able to do here. Knows none of them."""

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
    """What is learnt from. No text is blank, and each has a label."""

    texts: Sequence[str]
    labels: csr_array  # texts × labels; whatever is stored is true


@runtime_checkable
class Peer(Protocol):
    """One way of asking a library. Its module is imported inside `train` and `open` alone."""

    @property
    def name(self) -> str:
        """In tables."""

    @property
    def module(self) -> str:
        """What it is imported as."""

    @property
    def install(self) -> str:
        """The command that installs it."""

    @property
    def how(self) -> str:
        """How it is asked, for people who would do the same."""

    def train(self, examples: Examples, folder: Path, threads: int) -> None:
        """Learns, and writes all that answering takes into an empty folder."""

    def open(self, folder: Path) -> Rank:
        """What was written there, ready to answer on one thread."""


def ranked(rows: Iterable[Iterable[tuple[int, float]]], k: int) -> Ranked:
    """Labels with their scores, best first, filled up to k."""
    found = [list(row)[:k] for row in rows]
    labels = np.full((len(found), k), NO_LABEL, dtype=np.int64)
    scores = np.zeros((len(found), k), dtype=np.float32)
    for row, pairs in enumerate(found):
        if pairs:
            labels[row, : len(pairs)], scores[row, : len(pairs)] = zip(*pairs, strict=True)
    return Ranked(labels, scores)
