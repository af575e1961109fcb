"""An encoder for vectors that exist already: dense features, or another encoder's cached output."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from laconic.models.encoders.base import Encoder
from laconic.types import Inputs, Tokens


class Identity(Encoder):
    """Returns its inputs."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim, self.num_ids = dim, 0

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        assert not isinstance(inputs, Tokens)
        return inputs
