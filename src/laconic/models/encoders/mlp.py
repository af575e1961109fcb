"""MACH's encoder: a two-layer perceptron over tf-idf, whose first layer is a bag of word vectors.

A row of tf-idf has few words, so its first layer is a bag: the weighted sum of the words' rows. Word order says nothing
to it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laconic.models.encoders.base import WordEncoder
from laconic.models.layers import xavier
from laconic.types import Inputs


class MlpEncoder(WordEncoder):
    """Token ids and weights to vectors. `hidden` is the second layer's width; 0: as wide as the first."""

    def __init__(
        self, *, num_ids: int, length: int, embedding: int = 300, dropout: float = 0.5, hidden: int = 0
    ) -> None:
        super().__init__(num_ids=num_ids, length=length, embedding=embedding)
        self.dim = hidden or embedding
        self.bias = nn.Parameter(torch.zeros(embedding))
        self.drop_first = nn.Dropout(dropout)
        self.second = xavier(nn.Linear(embedding, self.dim))
        self.drop_second = nn.Dropout(dropout)
        start = nn.init.xavier_uniform_(torch.empty(num_ids, embedding), gain=nn.init.calculate_gain("relu"))
        self.start_from(start)

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        h = self.drop_first(functional.relu(self.summed(inputs) + self.bias))
        return self.drop_second(functional.relu(self.second(h)))
