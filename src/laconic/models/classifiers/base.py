"""The base class of classifiers: one row per label, and a transform that every vector passes first."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from laconic.data.shards import Shard
from laconic.types import NO_LABEL


class Classifier(nn.Module, ABC):
    """Scores labels by the inner product of their rows with a transformed vector."""

    num_labels: int
    """Number of labels that have a row here."""
    transform: nn.Module
    """Layer that every vector passes before it is multiplied with the rows."""
    bias: nn.Parameter | None

    @property
    def shard(self) -> Shard:
        """Return which of all labels these are: all of them, unless the rows are spread over several processes."""
        return Shard.whole(self.num_labels)

    @torch.no_grad()
    def start_from(self, fractions: Float[Tensor, "labels"]) -> None:
        """Initialise biases so that every label's probability is its fraction of the texts, given for all labels."""
        assert self.bias is not None
        self.bias.copy_(torch.logit(fractions[self.shard.own].clamp(1e-7, 1 - 1e-7)))

    @abstractmethod
    def rows(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n dim"]:
        """Return the rows of these labels."""

    @abstractmethod
    def biases(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n"]:
        """Return the biases of these labels."""

    def score(self, vectors: Float[Tensor, "batch dim"], labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        """Return the scores of some labels of each text; NO_LABEL scores 0."""
        chosen = labels.clamp(min=0).flatten()
        transformed = self.transform(vectors)
        rows = self.rows(chosen).view(*labels.shape, transformed.shape[1])
        scores = (rows @ transformed[:, :, None]).squeeze(2) + self.biases(chosen).view_as(labels)
        return scores.masked_fill(labels == NO_LABEL, 0)

    def score_all(self, vectors: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch labels"]:
        """Return the scores of all labels."""
        return self.score_range(self.transform(vectors), slice(0, self.num_labels))

    def score_range(self, transformed: Float[Tensor, "batch dim"], labels: slice) -> Float[Tensor, "batch n"]:
        """Return the scores of a range of labels for transformed vectors."""
        return functional.linear(transformed, self.rows(labels), self.biases(labels))
