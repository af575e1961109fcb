"""A classifier whose rows come from the labels' own texts plus a learnt refinement (DECAF, section 3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from laconic.models.classifiers.base import Classifier
from laconic.models.classifiers.linear import LinearClassifier
from laconic.models.layers import Combination, EmbeddingBlock


class Texts(nn.Module):
    """Bags of words embedded by a word table that belongs to another module."""

    def __init__(self, bags: csr_array, table: nn.Embedding) -> None:
        super().__init__()
        self._table = (table,)  # in a tuple: as a part of this module it would be kept twice
        self.bags, self.words = Bags(bags), Bags(csr_array(bags.T))
        self.shape = (bags.shape[0], table.embedding_dim)

    def forward(self) -> Float[Tensor, "texts dim"]:
        table = self._table[0].weight
        if table.is_cuda:
            return self.bags(table)
        summed: Tensor = _Product.apply(table, self.bags, self.words)  # type: ignore[no-untyped-call]
        return summed


class Bags(nn.Module):
    """Sparse rows, to multiply with."""

    starts: Tensor
    ids: Tensor
    weights: Tensor

    def __init__(self, rows: csr_array) -> None:
        super().__init__()
        for name, part in {"starts": rows.indptr, "ids": rows.indices}.items():
            self.register_buffer(name, torch.from_numpy(part.astype(np.int64)), persistent=False)
        self.register_buffer("weights", torch.from_numpy(rows.data.astype(np.float32)), persistent=False)

    def forward(self, table: Float[Tensor, "ids dim"]) -> Float[Tensor, "rows dim"]:
        return functional.embedding_bag(
            self.ids, table, self.starts, mode="sum", per_sample_weights=self.weights, include_last_offset=True
        )


class _Product(torch.autograd.Function):
    """Multiply by the transposed rows for the gradient: on a CPU ten times as fast as torch's own."""

    @staticmethod
    def forward(ctx: Any, table: Float[Tensor, "ids dim"], bags: Bags, words: Bags) -> Float[Tensor, "texts dim"]:
        ctx.words = words
        summed: Tensor = bags(table)
        return summed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Float[Tensor, "texts dim"]) -> tuple[Tensor, None, None]:
        return ctx.words(gradients), None, None


class FixedTexts(nn.Module):
    """Texts with constant vectors."""

    vectors: Tensor

    def __init__(self, vectors: Float[Tensor, "texts dim"]) -> None:
        super().__init__()
        self.register_buffer("vectors", vectors, persistent=False)
        self.shape = vectors.shape

    def forward(self) -> Float[Tensor, "texts dim"]:
        return self.vectors


class LabelText(Classifier):
    """Rows are σ(α) ⊙ refinement + σ(β) ⊙ block(text), or whichever of the two exists."""

    starts: Tensor | None

    def __init__(
        self,
        texts: Texts | FixedTexts | None,
        refinement: Float[Tensor, "labels dim"] | None,
        transform: nn.Module,
        *,
        dropout: float,
        bias: bool = True,
        starts: Int[Tensor, "bounds"] | None = None,
    ) -> None:
        """Build the classifier; with `starts`, a row is of a cluster and sums the texts from one start to the next."""
        super().__init__()
        known = refinement if texts is None else texts
        assert known is not None, "a row is made of a text, of a refinement vector, or of both"
        (count, dim), has_both = known.shape, texts is not None and refinement is not None
        self.num_labels = count if starts is None else len(starts) - 1
        self.texts, self.transform = texts, transform
        self.register_buffer("starts", starts, persistent=False)
        self.block = None if texts is None else EmbeddingBlock(dim, dropout=dropout)
        self.refinement = None if refinement is None else nn.Parameter(refinement.clone())
        self.combination = Combination(dim) if has_both else None
        self.bias = nn.Parameter(torch.zeros(self.num_labels)) if bias else None

    def rows(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n dim"]:
        every = self._rows()
        return every if self._are_all(labels) else every[labels]

    def biases(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n"]:
        if self.bias is None:
            return next(self.parameters()).new_zeros(self.num_labels)[labels]
        return self.bias if self._are_all(labels) else self.bias[labels]

    @torch.no_grad()
    def materialised(self) -> LinearClassifier:
        """Return a linear classifier with the current rows, which needs no label texts. Its transform is shared."""
        every = slice(0, self.num_labels)
        rows = self.rows(every)
        with torch.device("meta"):
            linear = LinearClassifier(rows.shape[1], self.num_labels, transform=self.transform)
        linear.weight, linear.bias = nn.Parameter(rows), nn.Parameter(self.biases(every).clone())
        return linear

    def _are_all(self, labels: Int[Tensor, "n"] | slice) -> bool:
        """Tell whether all labels are selected: then slicing, whose gradient would be a copy, is not needed."""
        return isinstance(labels, slice) and labels == slice(0, self.num_labels)

    def _rows(self) -> Float[Tensor, "labels dim"]:
        if self.texts is None or self.block is None:
            assert self.refinement is not None
            return self.refinement
        text: Tensor = self.block(self.texts())
        if self.starts is not None:
            order = torch.arange(len(text), device=text.device)
            text = functional.embedding_bag(order, text, self.starts, mode="sum", include_last_offset=True)
        if self.refinement is None or self.combination is None:
            return text
        combined: Tensor = self.combination(self.refinement, text)
        return combined
