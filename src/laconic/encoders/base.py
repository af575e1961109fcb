"""What every encoder is: inputs to one vector each."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from laconic.types import Inputs


class Encoder(nn.Module, ABC):
    dim: int
    num_ids: int  # token ids that it knows; 0: it reads no tokens

    @abstractmethod
    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]: ...
