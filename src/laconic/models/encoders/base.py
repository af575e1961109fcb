"""The base classes of encoders."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laconic.types import PAD, UNKNOWN, Inputs, Tokens


class Encoder(nn.Module, ABC):
    """Maps inputs to one vector each."""

    dim: int
    """Numbers of a vector."""
    num_ids: int
    """Token ids that it knows. 0: it reads no tokens."""

    @abstractmethod
    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        """Return one vector per text; padding must not change it."""


class Transformed(Encoder):
    """An encoder followed by a layer whose vectors have `dim` numbers."""

    def __init__(self, encoder: Encoder, transform: nn.Module, dim: int) -> None:
        super().__init__()
        self.num_ids, self.dim = encoder.num_ids, dim
        self.encoder, self.transform = encoder, transform

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        vectors: Tensor = self.transform(self.encoder(inputs))
        return vectors


class UnitVectors(Encoder):
    """An encoder whose vectors are divided by their length; vectors of length 0 stay 0."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.num_ids, self.dim = encoder.num_ids, encoder.dim
        self.encoder = encoder

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        return functional.normalize(self.encoder(inputs), dim=1)


class WordEncoder(Encoder):
    """An encoder with a vector for every token id; texts are cut at `length` words."""

    def __init__(self, *, num_ids: int, length: int, embedding: int) -> None:
        super().__init__()
        self.length, self.num_ids = length, num_ids
        self.embedding = nn.Embedding(num_ids, embedding, padding_idx=PAD)

    @torch.no_grad()
    def start_from(self, vectors: Float[Tensor, "ids dim"]) -> None:
        """Initialise word vectors. Those of padding and of unknown words are zero."""
        self.embedding.weight.copy_(vectors)
        self.embedding.weight[[PAD, UNKNOWN]] = 0

    def cut(self, inputs: Inputs) -> Tokens:
        """Return the tokens within the encoder's length."""
        assert isinstance(inputs, Tokens)
        return Tokens(inputs.ids[:, : self.length], inputs.weights[:, : self.length])

    def summed(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        """Return the weighted sum of each text's word vectors."""
        ids, weights = self.cut(inputs)
        # One pass over the table: the words' vectors are summed where they lie and never copied out.
        return functional.embedding_bag(
            ids,
            self.embedding.weight,
            mode="sum",
            per_sample_weights=weights,
            padding_idx=PAD,
            sparse=self.embedding.sparse,
        )
