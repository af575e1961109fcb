"""InceptionXML's encoder: convolutions along the embedding dimension of a short text (paper, section 4).

GELU and BatchNorm throughout and the layers' widths are those of the code that gave the paper's figures; its text says
ReLU. Axis words: batch; words; dim (embedding width); channels; places (steps along the embedding dimension).
From the projection on channels come last: what a window sees then lies together.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from laconic.data.vectors import SPREAD
from laconic.models.encoders.base import WordEncoder
from laconic.models.layers import DimensionAttention, WordAttention, xavier
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
        h = functional.gelu(_windows(_ring(h), *self._branch_weights()))
        h = self.drop_branches(_normed(h, self.branches_norm))
        h = _normed(functional.gelu(_windows(h, self.final.weight, _bias(self.final))), self.final_norm)
        return h.mT.flatten(1)

    def _attended(self, x: Float[Tensor, "batch words dim"]) -> Float[Tensor, "batch words dim"]:
        if self.word_attention is None or self.dimension_attention is None:
            return x
        return self.dimension_attention(self.word_attention(x), x)

    def _projected(self, h: Float[Tensor, "batch words dim"]) -> Float[Tensor, "batch dim channels"]:
        # Words beyond the text are zero rows, so the weights of their positions may be cut off.
        weight = self.projection.weight[:, : h.shape[1]]
        projected = h.mT @ weight.T + self.projection.bias
        return self.drop_projection(_normed(functional.gelu(projected), self.projection_norm))

    def _branch_weights(self) -> tuple[Float[Tensor, "out channels size"], Float[Tensor, "out"]]:
        """Return all branches as one convolution with the widest window; narrower windows are centred in it."""
        sides = [(max(KERNELS) - size) // 2 for size in KERNELS]
        weights = [
            functional.pad(one.weight, (side, side)) for one, side in zip(self._convolutions(), sides, strict=True)
        ]
        return torch.cat(weights), torch.cat([_bias(one) for one in self._convolutions()])

    def _convolutions(self) -> list[nn.Conv1d]:
        return [one for one in self.branches if isinstance(one, nn.Conv1d)]


def _ring(h: Float[Tensor, "batch dim channels"]) -> Float[Tensor, "batch longer channels"]:
    """Extend the embedding dimension cyclically, so that all branches have equally many positions."""
    side = (max(KERNELS) - STRIDE) // 2
    return torch.cat([h[:, -side:], h, h[:, :side]], dim=1)


def _windows(
    h: Float[Tensor, "batch before channels"], weight: Float[Tensor, "out channels size"], bias: Float[Tensor, "out"]
) -> Float[Tensor, "batch places out"]:
    """Compute a convolution of stride STRIDE as a product of runs of STRIDE numbers, without copying windows."""
    if h.is_cuda and not torch.compiler.is_compiling() and not torch.is_autocast_enabled("cuda"):
        found: Tensor = _CopiedWindows.apply(h, weight, bias)  # type: ignore[no-untyped-call]  # of torch
        return found
    (batch, before, channels), (out, _, size) = h.shape, weight.shape
    places, runs = (before - size) // STRIDE + 1, -(-size // STRIDE)
    length = (places + runs - 1) * STRIDE
    h = functional.pad(h, (0, 0, 0, length - before))  # or cuts off what no window reaches
    parts = functional.pad(weight, (0, runs * STRIDE - size)).view(out, channels, runs, STRIDE)
    by_run = parts.permute(3, 1, 2, 0).reshape(STRIDE * channels, runs * out)
    products = torch.unflatten(h.reshape(batch, length // STRIDE, STRIDE * channels) @ by_run, 2, (runs, out))
    return sum((products[:, run : run + places, run] for run in range(runs)), start=bias)


class _CopiedWindows(torch.autograd.Function):
    """`_windows` by copying them, which takes few kernels: quicker on a GPU where no compiler joins small ones."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Float[Tensor, "batch before channels"],
        weight: Float[Tensor, "out channels size"],
        bias: Float[Tensor, "out"],
    ) -> Float[Tensor, "batch places out"]:
        (batch, before, channels), (out, _, size) = h.shape, weight.shape
        windows = h.reshape(batch, before * channels).unfold(1, size * channels, STRIDE * channels)
        places = windows.shape[1]
        rows, columns = windows.reshape(batch * places, -1), weight.permute(2, 1, 0).reshape(size * channels, out)
        ctx.save_for_backward(rows, columns)
        ctx.shape, ctx.size = h.shape, size
        return torch.addmm(bias, rows, columns).view(batch, places, out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, "batch places out"]) -> tuple[Tensor, Tensor, Tensor]:
        (batch, before, channels), size, (_, places, out) = ctx.shape, ctx.size, gradient.shape
        rows, columns = ctx.saved_tensors
        gradient = gradient.reshape(batch * places, out)
        by_weight = (rows.T @ gradient).view(size, channels, out).permute(2, 1, 0)
        by_window = (gradient @ columns.T).view(batch, places, size, channels)
        by_h = by_window.new_zeros(batch, before, channels)
        for first in range(0, size, STRIDE):
            run = by_window[:, :, first : first + STRIDE]
            strides = (before * channels, STRIDE * channels, channels, 1)
            by_h.as_strided(run.shape, strides, first * channels).add_(run)
        return by_h, by_weight, gradient.sum(0)


def _bias(layer: nn.Conv1d) -> Float[Tensor, "out"]:
    assert layer.bias is not None
    return layer.bias


def _normed(h: Float[Tensor, "batch places channels"], norm: nn.BatchNorm1d) -> Float[Tensor, "batch places channels"]:
    normed: Tensor = norm(h.flatten(0, 1))
    return normed.view_as(h)
