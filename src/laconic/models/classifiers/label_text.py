"""A classifier whose rows come from the labels' own texts plus a learnt refinement (DECAF, section 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call
from torch.nn import functional

from laconic.data.shards import Shard
from laconic.models.classifiers.base import Classifier
from laconic.models.classifiers.linear import LinearClassifier
from laconic.models.layers import Combination, EmbeddingBlock
from laconic.system.ranks import Ranks

Through = Callable[[Tensor], Tensor]


class Texts(nn.Module):
    """Bags of words embedded by a word table that belongs to another module."""

    def __init__(self, bags: csr_array, table: nn.Embedding) -> None:
        super().__init__()
        self._table = (table,)  # in a tuple: as a part of this module it would be kept twice
        self.bags, self.words = Bags(bags), Bags(csr_array(bags.T))
        self.shape = (bags.shape[0], table.embedding_dim)

    def forward(self, through: Through = lambda table: table) -> Float[Tensor, "texts dim"]:
        """Return the texts' sums of word vectors, after the table has passed `through`."""
        table = through(self._table[0].weight)
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

    def forward(self, through: Through = lambda table: table) -> Float[Tensor, "texts dim"]:
        return self.vectors


class RowDropout(nn.Dropout):
    """Dropout of the rows of a shard: the numbers that are set to 0 are those of the same rows in one process."""

    def __init__(self, p: float, shard: Shard) -> None:
        super().__init__(p)
        self.shard = shard

    def forward(self, rows: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
        if self.shard.ranks.world == 1 or not (self.training and self.p):
            return super().forward(rows)
        # Of all rows, as the random state must be the same on all ranks.
        kept = rows.new_empty((self.shard.total, rows.shape[1])).bernoulli_(1 - self.p)
        return rows * kept[self.shard.own].div_(1 - self.p)


class LabelText(Classifier):
    """Rows are σ(α) ⊙ refinement + σ(β) ⊙ block(text), or whichever of the two exists.

    With a shard, texts, refinement and biases are of its labels. All ranks share the block and the word table, so that
    their gradients are summed over ranks.
    """

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
        shard: Shard | None = None,
    ) -> None:
        """Build the classifier; with `starts`, a row is of a cluster and sums the texts from one start to the next."""
        super().__init__()
        known = refinement if texts is None else texts
        assert known is not None, "a row is made of a text, of a refinement vector, or of both"
        (count, dim), has_both = known.shape, texts is not None and refinement is not None
        self.num_labels = count if starts is None else len(starts) - 1
        self._shard = shard or Shard.whole(self.num_labels)
        assert len(self._shard) == self.num_labels
        self.texts, self.transform = texts, transform
        self.register_buffer("starts", starts, persistent=False)
        self.block = None if texts is None else EmbeddingBlock(dim, dropout=dropout)
        if self.block is not None:
            self.block.dropout = RowDropout(dropout, self._shard)
        self.refinement = None if refinement is None else nn.Parameter(refinement.clone())
        self.combination = Combination(dim) if has_both else None
        self.bias = nn.Parameter(torch.zeros(self.num_labels)) if bias else None

    @property
    def shard(self) -> Shard:
        return self._shard

    def rows(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n dim"]:
        every = self._rows()
        return every if self._are_all(labels) else every[labels].float()

    def biases(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n"]:
        if self.bias is None:
            return next(self.parameters()).new_zeros(self.num_labels, dtype=torch.float32)[labels]
        return self.bias if self._are_all(labels) else self.bias[labels]

    @torch.no_grad()
    def materialised(self) -> LinearClassifier:
        """Return a linear classifier with the current rows, which needs no label texts. Its transform is shared."""
        every = slice(0, self.num_labels)
        rows = self.rows(every).float()
        with torch.device("meta"):
            total = self._shard.total
            linear = LinearClassifier(rows.shape[1], total, transform=self.transform, shard=self._shard)
        linear.weight, linear.bias = nn.Parameter(rows), nn.Parameter(self.biases(every).clone())
        return linear

    def _are_all(self, labels: Int[Tensor, "n"] | slice) -> bool:
        """Tell whether all labels are selected: then slicing, whose gradient would be a copy, is not needed."""
        return isinstance(labels, slice) and labels == slice(0, self.num_labels)

    def _rows(self) -> Float[Tensor, "labels dim"]:
        if self.texts is None or self.block is None:
            assert self.refinement is not None
            return self.refinement  # may be in half precision while it is learnt
        ranks = self._shard.ranks
        text: Tensor = _shared_by_ranks(self.block, ranks, self.texts(ranks.sum_gradients))
        if self.starts is not None:
            order = torch.arange(len(text), device=text.device)
            text = functional.embedding_bag(order, text, self.starts, mode="sum", include_last_offset=True)
        if self.refinement is None or self.combination is None:
            return text
        return _shared_by_ranks(self.combination, ranks, self.refinement.float(), text)


def _shared_by_ranks(module: nn.Module, ranks: Ranks, *inputs: Tensor) -> Tensor:
    """Call a module with the rows of one rank; the gradients of its parameters are the sums of all ranks'."""
    shared = {name: ranks.sum_gradients(parameter) for name, parameter in module.named_parameters()}
    found: Tensor = module(*inputs) if ranks.world == 1 else functional_call(module, shared, inputs)
    return found
