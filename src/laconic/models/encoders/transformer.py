"""A pre-trained transformer of BERT's form as an encoder: token ids to the mean of its last layer's vectors.

Written out here instead of imported from `transformers`: it is short, needs nothing that is not installed anyway, and
its step can be compiled and captured. Layer norm comes after the skip, as in BERT. On a GPU its products are in
bfloat16, in training and in prediction; weights stay float32.
Axis words: batch; words (token positions); dim (width of the encoder); heads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from laconic.models.encoders.base import WordEncoder
from laconic.types import PAD, Inputs

EPS = 1e-12  # of BERT's layer norms
DROPOUT = 0.1  # with which BERT and its like were trained


class TransformerEncoder(WordEncoder):
    """Token ids to the mean vector of a text's tokens."""

    def __init__(self, *, num_ids: int, length: int, embedding: int, layers: int, heads: int, inner: int) -> None:
        super().__init__(num_ids=num_ids, length=length, embedding=embedding)
        self.dim = embedding
        self.positions = nn.Parameter(torch.zeros(length, embedding))
        self.norm = nn.LayerNorm(embedding, EPS)
        self.dropout = nn.Dropout(DROPOUT)
        self.layers = nn.ModuleList(_Layer(embedding, heads, inner) for _ in range(layers))

    @torch.no_grad()
    def load(self, weights: Mapping[str, Float[np.ndarray, "..."]]) -> None:
        """Take the weights of a pre-trained encoder, by the names of this module's parameters.

        Positions beyond this encoder's length are left out, as are layers beyond its own.
        """
        for name, parameter in self.named_parameters():
            parameter.copy_(torch.from_numpy(weights[name][: len(parameter)]))

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        ids = self.cut(inputs).ids
        there = ids != PAD
        with torch.autocast("cuda", torch.bfloat16, enabled=ids.is_cuda):
            h = self.dropout(self.norm(self.embedding(ids) + self.positions[: ids.shape[1]]))
            seen = _seen(there)
            for layer in self.layers:
                h = layer(h, seen)
        h = h.float() * there[:, :, None]
        return h.sum(1) / there.sum(1, keepdim=True).clamp(min=1)


class _Layer(nn.Module):
    """Self-attention and a two-layer perceptron, each with a skip and a layer norm after it."""

    def __init__(self, dim: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention = nn.Linear(dim, 3 * dim)  # queries, keys and values
        self.attended = nn.Linear(dim, dim)
        self.attention_norm = nn.LayerNorm(dim, EPS)
        self.first, self.second = nn.Linear(dim, inner), nn.Linear(inner, dim)
        self.norm = nn.LayerNorm(dim, EPS)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, h: Float[Tensor, "batch words dim"], seen: Tensor) -> Float[Tensor, "batch words dim"]:
        h = self.attention_norm(h + self.dropout(self.attended(self._attend(h, seen))))
        return self.norm(h + self.dropout(self.second(functional.gelu(self.first(h)))))

    def _attend(self, h: Float[Tensor, "batch words dim"], seen: Tensor) -> Float[Tensor, "batch words dim"]:
        queries, keys, values = self.attention(h).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        chance = DROPOUT if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=seen, dropout_p=chance)
        return mixed.transpose(1, 2).flatten(2)


def _seen(there: Bool[Tensor, "batch words"]) -> Bool[Tensor, "batch 1 1 words"]:
    """Return which positions attention looks at; of a text without tokens the first, since it must look somewhere."""
    first = torch.arange(there.shape[1], device=there.device) == 0
    return (there | first)[:, None, None]
