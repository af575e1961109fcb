"""The base class of shortlisters."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from laconic.types import Inputs, Ranking


class Shortlister(nn.Module, ABC):
    """Selects, for each text, the labels that are worth scoring."""

    num_labels: int
    """Number of labels."""
    size: int
    """Labels per text by default."""

    @abstractmethod
    def forward(self, inputs: Inputs, vectors: Float[Tensor, "batch dim"], size: int) -> Ranking:
        """Return the best labels of each text, given as inputs and as vectors; rows end in NO_LABEL."""
