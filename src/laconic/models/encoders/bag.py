"""Encode a text by the tf-idf weighted sum of its word vectors (DeepXML, section 4; DECAF; MACH).

The transforms of DeepXML and DECAF, a residual or an embedding block, are the classifier's own. Word order says nothing
to any of these encoders.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laconic.models.encoders.base import WordEncoder
from laconic.models.layers import xavier
from laconic.types import Inputs


class BagEncoder(WordEncoder):
    """The sum with ReLU and dropout: Astec's encoder."""

    def __init__(self, *, num_ids: int, length: int, embedding: int = 300, dropout: float = 0.5) -> None:
        super().__init__(num_ids=num_ids, length=length, embedding=embedding)
        self.dropout = nn.Dropout(dropout)
        self.dim = embedding
        start = nn.init.xavier_uniform_(torch.empty(num_ids, embedding), gain=nn.init.calculate_gain("relu"))
        self.start_from(start)

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        return self.dropout(functional.relu(self.summed(inputs)))


class SumEncoder(WordEncoder):
    """The plain sum: DECAF's encoder, with He initialisation of word vectors (DECAF, section 3.1)."""

    def __init__(self, *, num_ids: int, length: int, embedding: int = 300) -> None:
        super().__init__(num_ids=num_ids, length=length, embedding=embedding)
        self.dim = embedding
        self.start_from(nn.init.kaiming_uniform_(torch.empty(num_ids, embedding)))

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        return self.summed(inputs)


class MlpEncoder(WordEncoder):
    """MACH's perceptron over tf-idf: a row has few words, so that the first of its two layers is such a sum.

    `hidden` is the second layer's width; 0: as wide as the first.
    """

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
