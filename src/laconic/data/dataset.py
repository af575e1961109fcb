"""What methods learn from: inputs and labels as numbers. Knows nothing of words, names or files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

Rows: TypeAlias = csr_array | Float[np.ndarray, "texts dim"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """One row per text. Token rows keep reading order (vocabulary.tokens); sparse features have none."""

    inputs: Rows
    labels: csr_array
    label_inputs: csr_array | None = None  # one row per label, over the same tokens as `inputs`
    leave_out: csr_array | None = None  # pairs that count neither as truth nor as prediction
    weights: Float[np.ndarray, "texts"] | None = None

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    @property
    def num_labels(self) -> int:
        return int(self.labels.shape[1])

    @property
    def label_counts(self) -> Int[np.ndarray, "labels"]:
        """How many texts each label has."""
        return np.bincount(self.labels.indices[self.labels.data != 0], minlength=self.num_labels)
