"""The task that trains the combining network of a fused ranker."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from laconic.models.fusion import NUMBERS
from laconic.models.fusion.network import Combiner
from laconic.training.tasks import Task
from laconic.types import NO_LABEL, Batch, Inputs

_EACH = 0.1  # weight of the loss of single labels; with 1, the order suffers
_FREQUENCY = NUMBERS.index("frequency")
_NEVER = -1e4  # the score of a candidate that is not there


class Combining(Task):
    """A softmax over a text's candidates, which orders them, and a sigmoid for each, which makes scores probabilities.

    Inputs are the candidates' numbers, concatenated; positives are positions among the candidates. In the softmax, a
    true label that n training texts have weighs (1 + n) to the power of -rare, times what makes the batch's mean 1.
    `first` is the weight of the loss of a text's best-scored true label.
    """

    def __init__(self, combiner: Combiner, *, rare: float = 0.0, first: float = 0.5) -> None:
        super().__init__()
        self.combiner, self.rare, self.first = combiner, rare, first

    def forward(self, batch: Batch, progress: Float[Tensor, ""]) -> Float[Tensor, ""]:
        assert isinstance(batch.inputs, Tensor)
        (scores,) = self.encode(batch.inputs, progress)
        true = (batch.positives != NO_LABEL).float()
        targets = torch.zeros_like(scores).scatter_add(1, batch.positives.clamp(min=0), true)
        numbers = batch.inputs.view(*scores.shape, -1)
        there = numbers[:, :, 0]
        logs = scores.masked_fill(there == 0, _NEVER).log_softmax(1)
        shared = -(self._weighted(targets, numbers[:, :, _FREQUENCY]) * logs).sum(1) / true.sum(1).clamp(min=1)
        first = -logs.masked_fill(targets == 0, _NEVER).logsumexp(1) * (true.sum(1) > 0)
        each = functional.binary_cross_entropy_with_logits(scores, targets, weight=there, reduction="none").sum(1)
        loss: Tensor = (shared + self.first * first + _EACH * each).mean()
        return loss

    def _weighted(
        self, targets: Float[Tensor, "batch n"], frequency: Float[Tensor, "batch n"]
    ) -> Float[Tensor, "batch n"]:
        if not self.rare:
            return targets
        weighted = targets * torch.exp(-self.rare * frequency)
        return weighted * (targets.sum() / weighted.sum().clamp(min=1e-9))

    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "1 batch n"]:
        assert isinstance(inputs, Tensor)
        scores: Tensor = self.combiner(inputs.view(len(inputs), -1, self.combiner.numbers))
        return scores[None]
