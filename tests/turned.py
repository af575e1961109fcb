"""The simplest encoder that can learn, for tests of tasks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from laconic.models.encoders import Encoder
from laconic.types import Inputs


class Turned(Encoder):
    """Turns and stretches the vectors that it is given."""

    num_ids = 0

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.matrix = nn.Parameter(torch.randn(dim, dim))

    def forward(self, inputs: Inputs) -> Tensor:
        assert isinstance(inputs, Tensor)
        return inputs @ self.matrix
