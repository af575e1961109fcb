"""A dataset on the device that learns from it. A batch is a function of row numbers, in fixed shapes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.data.tokenizer import padded
from laconic.types import NO_LABEL, PAD, Batch, Inputs, Tokens


@dataclass(frozen=True, kw_only=True, eq=False)
class Resident:
    inputs: Inputs
    starts: Int[Tensor, "texts"]  # of each text's labels in `labels`
    counts: Int[Tensor, "texts"]
    labels: Int[Tensor, "pairs"]
    targets: Float[Tensor, "pairs"] | None
    weights: Float[Tensor, "texts"] | None
    width: int  # the most labels that any text has
    negatives: Int[Tensor, "texts n"] | None = None

    @staticmethod
    def of(
        data: Dataset, length: int, device: torch.device, negatives: Int[Tensor, "texts n"] | None = None
    ) -> Resident:
        """All of the data; texts are cut at `length` words."""
        labels = data.labels
        inputs: Inputs
        if isinstance(data.inputs, csr_array):
            inputs = Tokens(*(part.to(device) for part in padded(data.inputs, length)))
        else:
            inputs = torch.from_numpy(data.inputs).to(device)
        return Resident(
            inputs=inputs,
            starts=torch.from_numpy(labels.indptr[:-1].astype(np.int64)).to(device),
            counts=torch.from_numpy(np.diff(labels.indptr).astype(np.int64)).to(device),
            labels=torch.from_numpy(labels.indices.astype(np.int64)).to(device),
            targets=None if (labels.data == 1).all() else torch.from_numpy(_shares(labels.data)).to(device),
            weights=None if data.weights is None else torch.from_numpy(data.weights).to(device),
            width=max(1, int(np.diff(labels.indptr).max(initial=0))),
            negatives=None if negatives is None else negatives.to(device),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def order(self, epoch: int, seed: int, batch_size: int) -> Int[Tensor, "steps batch"]:
        """The rows of every step of an epoch, every text once; the last step is filled up from the first."""
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        rows = torch.randperm(len(self), generator=generator)
        steps = -(-len(rows) // batch_size)
        return rows.repeat(-(-steps * batch_size // len(rows)))[: steps * batch_size].view(steps, batch_size)

    def take(self, rows: Int[Tensor, "batch"]) -> Batch:
        place = torch.arange(self.width, device=rows.device)
        there = place < self.counts[rows, None]
        pairs = (self.starts[rows, None] + place) * there  # 0 where there is none: any pair will do, it is masked
        return Batch(
            self._inputs(rows),
            torch.where(there, self.labels[pairs], NO_LABEL),
            None if self.targets is None else self.targets[pairs] * there,
            None if self.weights is None else self.weights[rows],
            None if self.negatives is None else self.negatives[rows].long(),
        )

    def _inputs(self, rows: Int[Tensor, "batch"]) -> Inputs:
        if not isinstance(self.inputs, Tokens):
            return self.inputs[rows]
        tokens = Tokens(self.inputs.ids[rows], self.inputs.weights[rows])
        if rows.is_cuda:
            return tokens  # fixed shapes, and no look at the values, which would make the host wait
        longest = int((tokens.ids != PAD).any(0).sum().clamp(min=1))
        return Tokens(tokens.ids[:, :longest], tokens.weights[:, :longest])


def _shares(weights: Float[np.ndarray, "pairs"]) -> Float[np.ndarray, "pairs"]:
    """Label weights as how true a label is: a cross-entropy has no minimum where that is more than 1."""
    return (weights / max(float(weights.max(initial=1)), 1)).astype(np.float32)
