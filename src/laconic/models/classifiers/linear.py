"""Linear classifiers: a free row for every label, or for every bucket that labels are hashed to (MACH)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from laconic.data.shards import Shard
from laconic.models.classifiers.base import Classifier

_SKIPPED = 1 << 22  # random numbers that are drawn and forgotten at a time


class LinearClassifier(Classifier):
    """A free row for every label of a shard and, optionally, a bias. By default the shard is all labels."""

    def __init__(
        self,
        dim: int,
        num_labels: int,
        *,
        transform: nn.Module | None = None,
        bias: bool = True,
        shard: Shard | None = None,
    ) -> None:
        super().__init__()
        self._shard = shard or Shard.whole(num_labels)
        assert self._shard.total == num_labels
        self.num_labels = len(self._shard)
        self.transform = transform or nn.Identity()
        reach = math.sqrt(3.0) * math.sqrt(2.0 / float(dim + num_labels))  # xavier_uniform_ of all labels
        self.weight = nn.Parameter(_own_uniform(self._shard, (dim,), reach))
        self.bias = nn.Parameter(torch.zeros(self.num_labels)) if bias else None

    @property
    def shard(self) -> Shard:
        return self._shard

    @torch.no_grad()
    def spread(self, reach: float) -> None:
        """Initialise rows and biases uniformly between -reach and reach."""
        self.weight.copy_(_own_uniform(self._shard, self.weight.shape[1:], reach))
        if self.bias is not None:
            self.bias.copy_(_own_uniform(self._shard, (), reach))

    def rows(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n dim"]:
        return self.weight[labels].float()  # they may be in half precision while they are learnt

    def biases(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n"]:
        if self.bias is None:
            count = len(range(self.num_labels)[labels]) if isinstance(labels, slice) else len(labels)
            return torch.zeros((), device=self.weight.device).expand(count)
        return self.bias[labels]


def _own_uniform(shard: Shard, shape: Sequence[int], reach: float) -> Float[Tensor, "labels ..."]:
    """Draw the rows of a shard between -reach and reach, equal to those of the same labels among all labels' rows.

    Every rank draws the numbers of all rows, as the random state must be the same on all; it keeps its own.
    """
    numbers = math.prod(shape)
    _skip_random(shard.first * numbers)
    rows = torch.empty(len(shard), *shape).uniform_(-reach, reach)
    _skip_random((shard.total - shard.last) * numbers)
    return rows


def _skip_random(numbers: int) -> None:
    """Draw so many random numbers and forget them."""
    for first in range(0, numbers, _SKIPPED):
        torch.empty(min(_SKIPPED, numbers - first)).uniform_()


class HashedClassifier(Classifier):
    """Labels mapped to the rows of a classifier over buckets, whose parameters and transform they share."""

    bucket_of: Tensor

    def __init__(self, bucket_of: Int[Tensor, "labels"], buckets: LinearClassifier) -> None:
        super().__init__()
        self.num_labels = len(bucket_of)
        self.buckets = buckets
        self.register_buffer("bucket_of", bucket_of.to(torch.int32))  # labels are many, buckets never 2³¹

    @property
    def transform(self) -> nn.Module:  # type: ignore[override] # a second name would be a second copy in a file
        return self.buckets.transform

    def rows(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n dim"]:
        return self.buckets.rows(self.bucket_of[labels])

    def biases(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n"]:
        return self.buckets.biases(self.bucket_of[labels])
