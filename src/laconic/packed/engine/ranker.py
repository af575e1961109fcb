"""What every packed ranker is: the contract of laconic.models.rankers in arrays, for texts of any number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from laconic.packed.engine.parts import Part
from laconic.packed.engine.texts import Inputs, Ranked


@dataclass(frozen=True, kw_only=True, eq=False)
class PackedRanker(Part, ABC):
    """It may be asked by many threads at once, and works in the one that asks."""

    @property
    @abstractmethod
    def num_labels(self) -> int: ...

    @abstractmethod
    def rank(self, inputs: Inputs, k: int) -> Ranked:
        """The best k labels of each text, best first."""

    @abstractmethod
    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        """The scores of the given labels; NO_LABEL has 0."""

    @abstractmethod
    def opening(self, beam: int) -> PackedRanker:
        """The same with so many clusters or cells opened, or as many as there are; itself, where there are none."""

    @abstractmethod
    def exact(self) -> PackedRanker:
        """The same with nothing passed over."""
