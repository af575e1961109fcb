"""InceptionXML's encoder: convolutions along the embedding dimension of a short text (paper, section 4).

GELU and BatchNorm throughout and the layers' widths are those of the code that gave the paper's figures; its text says
ReLU. Axis words: batch; words; dim (embedding width); channels; places (steps along the embedding dimension).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laconic.data.vectors import SPREAD
from laconic.encoders.base import WordEncoder
from laconic.layers import DimensionAttention, WordAttention, xavier
from laconic.types import Inputs

CHANNELS = 32
KERNELS = (4, 8, 16)
STRIDE = 4


class InceptionEncoder(WordEncoder):
    """Token ids to vectors; shorter texts cost less. `attention` False: without both attentions (Figure 5).

    `projection_dropout` is `dropout` unless it is given: InceptionXML+ has none there.
    """

    def __init__(
        self,
        *,
        num_ids: int,
        length: int,
        embedding: int = 300,
        dropout: float = 0.25,
        attention: bool = True,
        projection_dropout: float | None = None,
    ) -> None:
        super().__init__(num_ids=num_ids, length=length, embedding=embedding)
        self.drop_words = nn.Dropout(dropout)
        self.word_attention = WordAttention(length) if attention else None
        self.dimension_attention = DimensionAttention(embedding) if attention else None
        self.projection = xavier(nn.Linear(length, CHANNELS))
        self.projection_norm = nn.BatchNorm1d(CHANNELS)
        self.drop_projection = nn.Dropout(dropout if projection_dropout is None else projection_dropout)
        self.branches = nn.ModuleList(xavier(nn.Conv1d(CHANNELS, CHANNELS, size, stride=STRIDE)) for size in KERNELS)
        self.branches_norm = nn.BatchNorm1d(len(KERNELS) * CHANNELS)
        self.drop_branches = nn.Dropout(dropout)
        places = (embedding - STRIDE) // STRIDE + 1
        size = min(max(KERNELS), places)
        self.final = xavier(nn.Conv1d(len(KERNELS) * CHANNELS, CHANNELS, size, stride=STRIDE))
        self.final_norm = nn.BatchNorm1d(CHANNELS)
        self.dim = CHANNELS * ((places - size) // STRIDE + 1)
        self.start_from(torch.empty(num_ids, embedding).uniform_(-SPREAD, SPREAD))

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        x = self.drop_words(self.embedding(self.cut(inputs).ids))
        h = self._projected(self._attended(x))
        h = torch.cat([_circular(h, branch) for branch in self.branches], dim=1)
        h = self.drop_branches(self.branches_norm(functional.gelu(h)))
        h = self.final_norm(functional.gelu(self.final(h)))
        return h.flatten(1)

    def _attended(self, x: Float[Tensor, "batch words dim"]) -> Float[Tensor, "batch words dim"]:
        if self.word_attention is None or self.dimension_attention is None:
            return x
        return self.dimension_attention(self.word_attention(x), x)

    def _projected(self, h: Float[Tensor, "batch words dim"]) -> Float[Tensor, "batch channels dim"]:
        # Words beyond the text are zero rows, so the weights of their positions may be cut off.
        weight = self.projection.weight[:, : h.shape[1]]
        projected = weight @ h + self.projection.bias[:, None]
        return self.drop_projection(self.projection_norm(functional.gelu(projected)))


def _circular(h: Float[Tensor, "batch channels dim"], branch: nn.Module) -> Float[Tensor, "batch channels places"]:
    """Every branch sees the embedding dimension as a ring, so that all have the same number of places."""
    assert isinstance(branch, nn.Conv1d)
    side = (branch.kernel_size[0] - STRIDE) // 2
    if side:
        h = torch.cat([h[..., -side:], h, h[..., :side]], dim=2)
    return branch(h)
