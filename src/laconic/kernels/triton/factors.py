"""Gradients of label rows as factors: logit gradients, and the vectors that were scored.

The product is as large as the rows themselves and would pass through memory twice. The update multiplies it out a tile
at a time (`row_update`). A loss attaches the factors to the parameter, like torch attaches `grad`; the optimiser takes
them from there.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

ALIGNED_ROWS = 16  # of a cluster; the tiles of an update divide it, and gradients of so many are aligned in memory


class AllLabelFactors(NamedTuple):
    """Factors where every text was scored with every label."""

    logit_gradients: Float[Tensor, "batch width"]  # of a text with weight 1; columns after the last label are unused
    vectors: Float[Tensor, "batch dim"]  # times what each text counts in the loss


class ShortlistFactors(NamedTuple):
    """Factors where every text was scored with the labels of its picked clusters."""

    logit_gradients: Float[Tensor, "picks size"]  # sorted by cluster; a power of two, or a multiple of ALIGNED_ROWS
    texts: Int[Tensor, "picks"]
    bounds: Int[Tensor, "bounds"]  # the picks of cluster c are those from bound c up to bound c + 1
    starts: Int[Tensor, "bounds"]  # its labels
    vectors: Float[Tensor, "batch dim"]


Factors = AllLabelFactors | ShortlistFactors


def factors_of(gradient: Float[Tensor, "rows dim"]) -> ShortlistFactors:
    """Return a gradient that was multiplied out as factors: every row is a cluster, picked once if it is not 0."""
    each, touched = torch.arange(len(gradient), device=gradient.device), gradient.any(1)
    bounds = functional.pad(touched.cumsum(0), (1, 0))
    # Rows that are touched, in their order; all others are written behind the last, without asking the host how many.
    place = torch.where(touched, bounds[:-1], len(gradient))
    texts = torch.zeros(len(gradient) + 1, dtype=torch.int64, device=gradient.device).scatter_(0, place, each)[:-1]
    starts = functional.pad(each + 1, (1, 0))
    return ShortlistFactors(torch.ones_like(each, dtype=torch.float32)[:, None], texts, bounds, starts, gradient)


def leave(parameter: Tensor, factors: Factors) -> None:
    """Attach a loss's factors to the parameter that they are the gradient of."""
    vars(parameter)["factors"] = factors


def take(parameter: Tensor) -> Factors | None:
    """Detach and return a parameter's factors, if it has any."""
    found: Factors | None = vars(parameter).pop("factors", None)
    return found
