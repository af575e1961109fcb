"""Encode dense features, such as an image model's, by one linear layer, or take them as they are."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laconic.models.encoders.base import Encoder
from laconic.models.layers import xavier
from laconic.types import Inputs, Tokens


class DenseEncoder(Encoder):
    """A linear layer with ReLU and dropout over `num_ids` features."""

    def __init__(self, *, num_ids: int, length: int = 0, embedding: int = 300, dropout: float = 0.5) -> None:
        super().__init__()
        self.num_ids, self.dim = 0, embedding
        self.norm = nn.BatchNorm1d(num_ids)  # features come on any scale
        self.linear = xavier(nn.Linear(num_ids, embedding))
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch width"]:
        assert not isinstance(inputs, Tokens)
        return self.dropout(functional.relu(self.linear(self.norm(inputs))))


class Identity(Encoder):
    """Returns vectors that exist already: dense features, or another encoder's cached output."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim, self.num_ids = dim, 0

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        assert not isinstance(inputs, Tokens)
        return inputs
