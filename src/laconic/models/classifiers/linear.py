"""Linear classifiers: a free row for every label, or for every bucket that labels are hashed to (MACH)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from laconic.models.classifiers.base import Classifier


class LinearClassifier(Classifier):
    """A free row for every label and, optionally, a bias."""

    def __init__(self, dim: int, num_labels: int, *, transform: nn.Module | None = None, bias: bool = True) -> None:
        super().__init__()
        self.num_labels = num_labels
        self.transform = transform or nn.Identity()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(num_labels, dim)))
        self.bias = nn.Parameter(torch.zeros(num_labels)) if bias else None

    @torch.no_grad()
    def spread(self, reach: float) -> None:
        """Initialise rows and biases uniformly between -reach and reach."""
        self.weight.uniform_(-reach, reach)
        if self.bias is not None:
            self.bias.uniform_(-reach, reach)

    def rows(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n dim"]:
        return self.weight[labels].float()  # they may be in half precision while they are learnt

    def biases(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n"]:
        if self.bias is None:
            count = len(range(self.num_labels)[labels]) if isinstance(labels, slice) else len(labels)
            return torch.zeros((), device=self.weight.device).expand(count)
        return self.bias[labels]


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
