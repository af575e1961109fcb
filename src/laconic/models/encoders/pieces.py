"""A transformer that reads ids of words: each word stands for its pieces, so that other parts can read whole words."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from laconic.models.encoders.base import Encoder
from laconic.models.encoders.transformer import TransformerEncoder
from laconic.types import PAD, Inputs, Tokens


class PieceEncoder(Encoder):
    """Word ids to the vector that a transformer has for the words' pieces (data/word_pieces.py)."""

    starts: Tensor
    pieces: Tensor
    ends: Tensor

    def __init__(
        self,
        transformer: TransformerEncoder,
        starts: Int[Tensor, "ids+1"],
        pieces: Int[Tensor, "total"],
        ends: Int[Tensor, "2"],
    ) -> None:
        super().__init__()
        self.num_ids, self.dim = len(starts) - 1, transformer.dim
        self.transformer = transformer
        self.register_buffer("starts", starts)
        self.register_buffer("pieces", pieces)
        self.register_buffer("ends", ends)

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        assert isinstance(inputs, Tokens)
        vectors: Tensor = self.transformer(self.cut(inputs))
        return vectors

    def cut(self, inputs: Tokens) -> Tokens:
        """Return the pieces of the words, between the tokens before and after a text; weights are 0."""
        ids = inputs.ids.long()
        begins = self.starts[ids].flatten()
        counts = (self.starts[ids + 1] - self.starts[ids]).flatten()
        lengths = counts.view_as(ids).sum(1)
        word = torch.repeat_interleave(counts)
        nth = torch.arange(len(word), device=ids.device)
        text = word // ids.shape[1]
        place = nth - (lengths.cumsum(0) - lengths)[text] + 1
        nth = nth - (counts.cumsum(0) - counts)[word]
        longest = int(lengths.max()) + 2 if len(lengths) else 2
        found = torch.full((len(ids), longest), PAD, dtype=inputs.ids.dtype, device=ids.device)
        found[:, 0] = self.ends[0]
        found[torch.arange(len(ids), device=ids.device), lengths + 1] = self.ends[1].to(found.dtype)
        found[text, place] = self.pieces[begins[word] + nth].to(found.dtype)
        return Tokens(found, torch.zeros(found.shape, device=ids.device))
