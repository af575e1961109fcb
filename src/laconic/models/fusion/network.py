"""A small network from the features of a text and a label to one score."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

_FARTHEST = 5.0  # deviations from the mean
_NEWTON = 25  # steps to a line through scores


class Combiner(nn.Module):
    """Two hidden layers over standardised features. A score depends on its own label's features alone."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, numbers: int, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(numbers))
        self.register_buffer("deviation", torch.ones(numbers))
        self.first = nn.Linear(numbers, width)
        self.second = nn.Linear(width, width)
        self.last = nn.Linear(width, 1)

    @torch.no_grad()
    def standardise(self, numbers: Float[Tensor, "n numbers"]) -> None:
        """Set mean and deviation to those of these features."""
        self.mean.copy_(numbers.double().mean(0))
        self.deviation.copy_(numbers.double().std(0, correction=0).clamp(min=1e-6))

    @torch.no_grad()
    def calibrate(self, numbers: Float[Tensor, "n numbers"], true: Bool[Tensor, "n"]) -> None:
        """Scale and shift all scores so that, as probabilities, they fit the truth (Platt). Order stays."""
        scores, targets = self(numbers).double(), true.double()
        line = torch.tensor([1.0, 0.0], dtype=torch.float64)
        points = torch.stack([scores, torch.ones_like(scores)], dim=1)
        for _ in range(_NEWTON):
            probabilities = (points @ line).sigmoid()
            gradient = points.T @ (probabilities - targets)
            curvature = (probabilities * (1 - probabilities))[:, None]
            hessian = (points * curvature).T @ points + 1e-6 * torch.eye(2, dtype=torch.float64)
            line = line - torch.linalg.solve(hessian, gradient)
        if not line.isfinite().all() or line[0] <= 0:
            return  # there is nothing to learn from: all is true, or nothing, or truth goes against the scores
        self.last.weight.mul_(line[0])
        self.last.bias.mul_(line[0]).add_(line[1])

    @property
    def numbers(self) -> int:
        return len(self.mean)

    def forward(self, numbers: Float[Tensor, "... numbers"]) -> Float[Tensor, "..."]:
        usual = ((numbers - self.mean) / self.deviation).clamp(-_FARTHEST, _FARTHEST)
        hidden = functional.silu(self.second(functional.silu(self.first(usual))))
        scores: Tensor = self.last(hidden)
        return scores.squeeze(-1)
