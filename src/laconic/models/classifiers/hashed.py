"""A classifier whose labels share rows: each has the row of the bucket that it is hashed to (MACH)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from laconic.models.classifiers.base import Classifier
from laconic.models.classifiers.linear import LinearClassifier


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
