"""What every classifier is: one row per label, and a transform of its own that every vector goes through first."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from laconic.types import NO_LABEL


class Classifier(nn.Module, ABC):
    num_labels: int
    transform: nn.Module

    @abstractmethod
    def rows(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n dim"]:
        """The rows of these labels."""

    @abstractmethod
    def biases(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n"]:
        """And what is added to their scores."""

    def score(self, vectors: Float[Tensor, "batch dim"], labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        """The scores of some labels of each text; a place without a label scores 0."""
        chosen = labels.clamp(min=0).flatten()
        transformed = self.transform(vectors)
        rows = self.rows(chosen).view(*labels.shape, transformed.shape[1])
        scores = (rows @ transformed[:, :, None]).squeeze(2) + self.biases(chosen).view_as(labels)
        return scores.masked_fill(labels == NO_LABEL, 0)

    def score_all(self, vectors: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch labels"]:
        return self.score_range(self.transform(vectors), slice(0, self.num_labels))

    def score_range(self, transformed: Float[Tensor, "batch dim"], labels: slice) -> Float[Tensor, "batch n"]:
        """The scores of a run of labels for vectors that have been transformed."""
        return functional.linear(transformed, self.rows(labels), self.biases(labels))
