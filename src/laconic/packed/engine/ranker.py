"""The interface of packed rankers: that of laconic.models.rankers, over numpy arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from laconic.packed.engine.parts import Part
from laconic.packed.engine.texts import Inputs, Ranked


@dataclass(frozen=True, kw_only=True, eq=False)
class PackedRanker(Part, ABC):
    """A ranker of the packed engine; safe to call from several threads, each of which does its own work."""

    @property
    @abstractmethod
    def num_labels(self) -> int: ...

    @abstractmethod
    def rank(self, inputs: Inputs, k: int) -> Ranked:
        """Return the best k labels of each text, best first."""

    @abstractmethod
    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        """Return the scores of the given labels; 0 for NO_LABEL."""

    @abstractmethod
    def with_beam(self, beam: int) -> PackedRanker:
        """Return the ranker with this many clusters or cells probed, at most all; itself if it has none."""

    @abstractmethod
    def exact(self) -> PackedRanker:
        """Return the ranker with exact search."""


def nesting(value: Any) -> int:
    """Return how many rankers lie in each other in a part or a tuple of parts."""
    if isinstance(value, tuple):
        return max(map(nesting, value), default=0)
    if not isinstance(value, Part):
        return 0
    return isinstance(value, PackedRanker) + max(
        (nesting(getattr(value, one.name)) for one in fields(value)), default=0
    )
