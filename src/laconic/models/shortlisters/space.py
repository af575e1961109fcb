"""Shortlist the labels whose own texts are nearest to a text in a learnt space.

A label with few training texts has no centroid worth the name, but its text has a place in the space like any other's.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from laconic.models.shortlisters.base import Shortlister, join_rankings, pad_ranking
from laconic.models.shortlisters.selection import largest
from laconic.models.siamese_ranker import SiameseRanker
from laconic.types import Inputs, Ranking

_AT_ONCE = 1 << 26  # cosines held at a time


class NearestInSpace(Shortlister):
    """Lists the labels that siamese finds, by the cosine of text and label in its space."""

    temperature: Tensor

    def __init__(self, siamese: SiameseRanker, size: int, temperature: float) -> None:
        super().__init__()
        self.siamese, self.size = siamese, size
        self.num_labels = siamese.num_labels
        device = siamese.labels.weight.device
        self.register_buffer("temperature", torch.tensor(temperature, device=device))  # that the rows are divided by

    def over(self, siamese: SiameseRanker) -> NearestInSpace:
        """Return the shortlister over another space, of the same temperature."""
        return NearestInSpace(siamese, self.size, float(self.temperature))

    def forward(self, inputs: Inputs, vectors: Float[Tensor, "batch dim"], size: int) -> Ranking:
        rows, best = self.siamese.labels.weight, min(size, self.num_labels)
        texts = torch.split(self.siamese.space(inputs) * self.temperature, max(1, _AT_ONCE // self.num_labels))
        return pad_ranking(join_rankings([largest((some @ rows.T).detach(), best) for some in texts]), size)
