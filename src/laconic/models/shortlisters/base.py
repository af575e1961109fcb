"""The base class of shortlisters, and what they and rankers do with rankings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laconic.types import NO_LABEL, Inputs, Ranking


class Shortlister(nn.Module, ABC):
    """Selects, for each text, the labels that are worth scoring."""

    num_labels: int
    """Number of labels."""
    size: int
    """Labels per text by default."""

    @abstractmethod
    def forward(self, inputs: Inputs, vectors: Float[Tensor, "batch dim"], size: int) -> Ranking:
        """Return the best labels of each text, given as inputs and as vectors; rows end in NO_LABEL."""


def pad_ranking(ranking: Ranking, k: int) -> Ranking:
    """Pad rows with NO_LABEL up to k; nothing is copied if they are that wide."""
    missing = (0, k - ranking.labels.shape[1])
    if not missing[1]:
        return ranking
    return Ranking(functional.pad(ranking.labels, missing, value=NO_LABEL), functional.pad(ranking.scores, missing))


def join_rankings(parts: Sequence[Ranking], dim: int = 0) -> Ranking:
    """Concatenate rankings of consecutive texts or, along dimension 1, of the same texts."""
    return Ranking(torch.cat([part.labels for part in parts], dim), torch.cat([part.scores for part in parts], dim))
