"""Small layers of encoders and classifiers.

Axis words: batch; words (positions of a text); dim (embedding width); in, out (channels).
"""

from __future__ import annotations

from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class SpectralWeight(nn.Module):
    """A matrix divided by its largest singular value, tracked by one step of power iteration per forward pass."""

    left: Tensor
    right: Tensor

    def __init__(self, rows: int, columns: int, *, identity: bool = False) -> None:
        super().__init__()
        start = torch.eye(rows, columns) if identity else nn.init.xavier_normal_(torch.empty(rows, columns))
        self.matrix = nn.Parameter(start)
        self.register_buffer("left", functional.normalize(torch.randn(rows), dim=0))
        self.register_buffer("right", functional.normalize(torch.randn(columns), dim=0))
        for _ in range(15):  # so that the first estimate is sound
            self._iterate()

    def forward(self) -> Float[Tensor, "out in"]:
        if self.training:
            self._iterate()
        # Clones, because the next step writes to the buffers before this step's backward pass might read them.
        norm = self.left.clone() @ self.matrix @ self.right.clone()
        return self.matrix / norm

    @torch.no_grad()
    def _iterate(self) -> None:
        self.left.copy_(functional.normalize(self.matrix @ self.right, dim=0))
        self.right.copy_(functional.normalize(self.matrix.T @ self.left, dim=0))


class WordAttention(nn.Module):
    """x + γ (x xᵀ)(W x): words mix by similarity, without softmax or heads. γ starts at 0.

    A zero row stays zero and changes no other row, so a text may be encoded at its own length with W cut to it.
    """

    def __init__(self, length: int) -> None:
        super().__init__()
        self.weight = SpectralWeight(length, length)
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, x: Float[Tensor, "batch words dim"]) -> Float[Tensor, "batch words dim"]:
        words = x.shape[1]
        values = self.weight()[:words, :words] @ x
        return x + self.gamma * ((x @ x.mT) @ values)


class DimensionAttention(nn.Module):
    """Attention across embedding dimensions, scored between h and the word vectors: hᵀ + γ (hᵀ x)(W hᵀ).

    There is no softmax, so (hᵀ x)(W hᵀ) = hᵀ (x W hᵀ): words × words instead of dim × dim scores.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = SpectralWeight(dim, dim)
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(
        self, h: Float[Tensor, "batch words dim"], x: Float[Tensor, "batch words dim"]
    ) -> Float[Tensor, "batch words dim"]:
        scores = x @ self.weight() @ h.mT
        return h + self.gamma * (scores.mT @ h)


class Residual(nn.Module):
    """x + BatchNorm(GELU(Linear(x))): InceptionXML's hidden layer with its skip, a classifier's private transform.

    Where a `width` is given that differs from x's, x is averaged to it.
    """

    def __init__(self, dim: int, width: int = 0, *, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = xavier(nn.Linear(dim, width or dim))
        self.norm = nn.BatchNorm1d(width or dim)

    def forward(self, x: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch width"]:
        hidden = functional.gelu(self.linear(self.dropout(x)))
        normed: Tensor = self.norm(hidden)
        return _averaged(x, normed.shape[1]) + normed


class SpectralResidual(nn.Module):
    """x + GELU(Linear(x)) with the linear layer's spectral norm held at 1 (InceptionXML, section 5.1).

    Heads on one encoder cannot drift far from it, nor from each other. Where `width` differs from x's, x is averaged
    to it.
    """

    def __init__(self, dim: int, width: int, *, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.dropout = nn.Dropout(dropout)
        self.weight = SpectralWeight(width, dim)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch width"]:
        hidden = functional.gelu(functional.linear(self.dropout(x), self.weight(), self.bias))
        return _averaged(x, self.width) + hidden


def _averaged(x: Float[Tensor, "batch dim"], width: int) -> Float[Tensor, "batch width"]:
    """Average neighbours to that width."""
    return x if x.shape[1] == width else functional.adaptive_avg_pool1d(x[:, None], width)[:, 0]


class Transfer(nn.Module):
    """x + ReLU(R x + b), with dropout on the second term: DeepXML's transfer of vectors to another task.

    R starts as the identity and is held to a spectral norm of 1, so that the vectors' nearest labels stay what they
    were (DeepXML, Theorem 1). As ablations: `bounded` False lets R grow, `skip` False leaves out x itself.
    """

    def __init__(self, dim: int, *, dropout: float, bounded: bool = True, skip: bool = True) -> None:
        super().__init__()
        self.skip = skip
        self.weight = SpectralWeight(dim, dim, identity=True) if bounded else FreeWeight(torch.eye(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        hidden = self.dropout(functional.relu(functional.linear(x, self.weight(), self.bias)))
        return x + hidden if self.skip else hidden


class Combination(nn.Module):
    """σ(α) ⊙ x + σ(β) ⊙ y: weights for each dimension that start as 1/2 (DECAF, Figure 2)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(dim))
        self.beta = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Float[Tensor, "n dim"], y: Float[Tensor, "n dim"]) -> Float[Tensor, "n dim"]:
        return self.alpha.sigmoid() * x + self.beta.sigmoid() * y


class EmbeddingBlock(nn.Module):
    """σ(α) ⊙ (R ReLU(e) + b) + σ(β) ⊙ e: DECAF's transform of a bag of words, of a document or a label.

    R starts as the identity and is held to a spectral norm of 1.
    """

    def __init__(self, dim: int, *, dropout: float) -> None:
        super().__init__()
        self.weight = SpectralWeight(dim, dim, identity=True)
        self.bias = nn.Parameter(torch.zeros(dim))
        self.combination = Combination(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, e: Float[Tensor, "n dim"]) -> Float[Tensor, "n dim"]:
        hidden = self.dropout(functional.relu(e))
        combined: Tensor = self.combination(functional.linear(hidden, self.weight(), self.bias), e)
        return combined


class DocumentBlock(nn.Module):
    """ReLU of an embedding block, with dropout: DECAF's document vector.

    Of wider inputs it reads `dim` numbers from the position `first` on.
    """

    def __init__(self, dim: int, *, dropout: float, first: int = 0) -> None:
        super().__init__()
        self.block = EmbeddingBlock(dim, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.dim, self.first = dim, first

    def forward(self, e: Float[Tensor, "batch width"]) -> Float[Tensor, "batch dim"]:
        dropped: Tensor = self.dropout(functional.relu(self.block(e[:, self.first : self.first + self.dim])))
        return dropped


class FreeWeight(nn.Module):
    """An unconstrained matrix."""

    def __init__(self, start: Float[Tensor, "out in"]) -> None:
        super().__init__()
        self.matrix = nn.Parameter(start)

    def forward(self) -> Float[Tensor, "out in"]:
        return self.matrix


Layer = TypeVar("Layer", nn.Linear, nn.Conv1d)


def xavier(layer: Layer) -> Layer:
    """Initialise a layer with Xavier-uniform weights and zero bias."""
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
