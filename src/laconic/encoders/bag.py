"""Astec's encoder: a text is the sum of its words' vectors, weighted by tf-idf (DeepXML, section 4).

Word order says nothing to it. Its transform, a residual block, is the classifier's own.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laconic.encoders.base import WordEncoder
from laconic.types import Inputs


class BagEncoder(WordEncoder):
    """Token ids and weights to vectors as wide as the words'."""

    def __init__(self, *, num_ids: int, length: int, embedding: int = 300, dropout: float = 0.5) -> None:
        super().__init__(num_ids=num_ids, length=length, embedding=embedding)
        self.dropout = nn.Dropout(dropout)
        self.dim = embedding
        start = nn.init.xavier_uniform_(torch.empty(num_ids, embedding), gain=nn.init.calculate_gain("relu"))
        self.start_from(start)

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        return self.dropout(functional.relu(self.summed(inputs)))
