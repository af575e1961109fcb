"""What prediction runs: inputs in, the best labels out. Texts, names and files are other rooms' business."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float, Int
from torch import Tensor, nn

from laconic.types import Inputs, Ranking


class Ranker(nn.Module, ABC):
    """Ranks labels for inputs. `score` gives the labels of `rank` the same scores, and any other label its own."""

    num_labels: int

    @abstractmethod
    def rank(self, inputs: Inputs, k: int) -> Ranking:
        """The best k labels of each input, best first; rows end in NO_LABEL where there are fewer than k labels."""

    @abstractmethod
    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        """The scores of the given labels."""
