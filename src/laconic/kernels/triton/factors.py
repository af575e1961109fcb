"""The gradient of label rows before it is multiplied out: how scores should move, and the vectors that were scored.

Multiplied out it is as large as the rows themselves and would pass through memory twice. The update multiplies it out
where the rows lie, a tile at a time (`row_update`). A loss leaves it on the parameter, beside where torch would leave
`grad`; the optimiser takes it from there.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class EveryLabel(NamedTuple):
    """Every text was scored with every label."""

    slopes: Float[Tensor, "batch width"]  # of a text that counts 1; places after the last label are nobody's
    vectors: Float[Tensor, "batch dim"]  # times what each text counts in the loss

    def dense(self, rows: int) -> Float[Tensor, "rows dim"]:
        """Multiplied out: what the update does without ever holding it."""
        return self.slopes[:, :rows].to(self.vectors.dtype).T @ self.vectors


class PickedLabels(NamedTuple):
    """Every text was scored with the labels of the clusters that it picked."""

    slopes: Float[Tensor, "picks room"]  # in the order of clusters; room for the labels of the largest
    texts: Int[Tensor, "picks"]
    bounds: Int[Tensor, "bounds"]  # the picks of cluster c are those from bound c up to bound c + 1
    starts: Int[Tensor, "bounds"]  # its labels
    vectors: Float[Tensor, "batch dim"]

    def dense(self, rows: int) -> Float[Tensor, "rows dim"]:
        """The same, pick by pick."""
        clusters = torch.repeat_interleave(self.bounds.diff())  # picks of no cluster at all come last
        first = self.starts[clusters][:, None]
        labels = first + torch.arange(self.slopes.shape[1], device=first.device)
        there = labels < self.starts[clusters + 1][:, None]
        slopes = torch.where(there, self.slopes[: len(clusters)], 0)
        products = slopes[:, :, None] * self.vectors[self.texts[: len(clusters)]][:, None]
        found = self.vectors.new_zeros(rows, self.vectors.shape[1])
        return found.index_add_(0, torch.where(there, labels, 0).flatten(), products.flatten(0, 1))


Factors = EveryLabel | PickedLabels


def leave(parameter: Tensor, factors: Factors) -> None:
    vars(parameter)["factors"] = factors


def take(parameter: Tensor) -> Factors | None:
    """What a loss has left, if any; it is there once."""
    found: Factors | None = vars(parameter).pop("factors", None)
    return found
