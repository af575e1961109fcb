"""What every shortlister is: for each text, the labels that are worth scoring."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from laconic.types import Inputs, Ranking


class Shortlister(nn.Module, ABC):
    num_labels: int
    size: int  # labels that it gives a text where nobody asks for more

    @abstractmethod
    def forward(self, inputs: Inputs, vectors: Float[Tensor, "batch dim"], size: int) -> Ranking:
        """The best labels of each text, which is given as it came and as its vector; rows end in NO_LABEL."""
