"""A small network from the features of a text and a label to one score."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laconic.models.fusion.order import LEAVES, SPLITS, Forest, Ordering

_FARTHEST = 5.0  # deviations from the mean


class TreeOrder(nn.Module):
    """The tensors of boosted trees that order a text's best labels (order.py)."""

    numbers: Tensor
    thresholds: Tensor
    values: Tensor
    line: Tensor
    places: Tensor

    def __init__(self, trees: int) -> None:
        super().__init__()
        self.register_buffer("numbers", torch.zeros(trees, SPLITS, dtype=torch.int32))
        self.register_buffer("thresholds", torch.zeros(trees, SPLITS))
        self.register_buffer("values", torch.zeros(trees, LEAVES))
        self.register_buffer("line", torch.tensor([1.0, 0.0]))
        self.register_buffer("places", torch.ones(1, dtype=torch.int32))

    @staticmethod
    def of(ordering: Ordering) -> TreeOrder:
        made = TreeOrder(len(ordering.forest.values))
        for name, part in zip(Forest._fields, ordering.forest, strict=True):
            getattr(made, name).copy_(torch.from_numpy(part))
        made.line.copy_(torch.tensor([ordering.slope, ordering.shift]))
        made.places.fill_(ordering.places)
        return made

    def ordering(self) -> Ordering:
        forest = Forest(*(getattr(self, name).numpy() for name in Forest._fields))
        return Ordering(forest, int(self.places), *self.line.tolist())


class Combiner(nn.Module):
    """Two hidden layers over standardised features. A score depends on its own label's features alone.

    `order`, where there is one, puts a text's best labels by these scores into their final order.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, numbers: int, width: int, order: TreeOrder | None = None) -> None:
        super().__init__()
        self.order = order
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
    def rescale(self, slope: float, shift: float) -> None:
        """Multiply all scores by the slope and add the shift."""
        self.last.weight.mul_(slope)
        self.last.bias.mul_(slope).add_(shift)

    @property
    def numbers(self) -> int:
        return len(self.mean)

    def forward(self, numbers: Float[Tensor, "... numbers"]) -> Float[Tensor, "..."]:
        usual = ((numbers - self.mean) / self.deviation).clamp(-_FARTHEST, _FARTHEST)
        hidden = functional.silu(self.second(functional.silu(self.first(usual))))
        scores: Tensor = self.last(hidden)
        return scores.squeeze(-1)
