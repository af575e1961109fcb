"""XML-CNN's encoder: filters over windows of words, dynamic max-pooling, and a bottleneck.

The sizes are ours, for titles of three to ten words: windows of 1, 2 and 4 words (2, 4 and 8 do no better), 128 filters
of each, 2 parts of a text (4 do worse; documents may want more), 512 numbers in the end.
Axis words: batch; words; dim (embedding width); filters (of all widths); places (where a window begins).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laconic.data.vectors import SPREAD
from laconic.models.encoders.base import WordEncoder
from laconic.models.layers import xavier
from laconic.types import Inputs

WIDTHS = (1, 2, 4)
FILTERS = 128
CHUNKS = 2
BOTTLENECK = 512


class CnnEncoder(WordEncoder):
    """Token ids to vectors. A window begins at each of `length` positions; after the text's end it sees zeros."""

    def __init__(self, *, num_ids: int, length: int, embedding: int = 300, dropout: float = 0.25) -> None:
        super().__init__(num_ids=num_ids, length=length, embedding=embedding)
        self.chunks = min(CHUNKS, length)
        self.drop_words = nn.Dropout(dropout)
        self.branches = nn.ModuleList(xavier(nn.Conv1d(embedding, FILTERS, width, bias=False)) for width in WIDTHS)
        self.bias = nn.Parameter(torch.zeros(len(WIDTHS) * FILTERS))
        self.drop_pooled = nn.Dropout(dropout)
        self.bottleneck = xavier(nn.Linear(len(WIDTHS) * FILTERS * self.chunks, BOTTLENECK))
        self.dim = BOTTLENECK
        self.start_from(torch.empty(num_ids, embedding).uniform_(-SPREAD, SPREAD))

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        x = self.drop_words(self.embedding(self.cut(inputs).ids))
        pooled = functional.adaptive_max_pool1d(self._filtered(x), self.chunks)
        # Bias and ReLU after the maximum: neither changes which place is the largest.
        h = self.drop_pooled(functional.relu(pooled + self.bias[:, None])).flatten(1)
        return functional.relu(self.bottleneck(h))

    def _filtered(self, x: Float[Tensor, "batch words dim"]) -> Float[Tensor, "batch filters places"]:
        """Compute only windows that begin in the text; those beyond give zero."""
        words = x.shape[1]
        x = functional.pad(x.mT, (0, max(WIDTHS) - 1))
        h = [branch(x[..., : words + width - 1]) for branch, width in zip(self.branches, WIDTHS, strict=True)]
        return functional.pad(torch.cat(h, dim=1), (0, self.length - words))
