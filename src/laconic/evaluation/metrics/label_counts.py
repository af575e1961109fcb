"""Training frequencies of labels, from which propensities, the tail and frequency quantiles are computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array

from laconic.data.catalogue import Propensity
from laconic.evaluation.metrics.pairs import relevant

_USUAL = Propensity()


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingCounts:
    """Training texts of each label and in all, with the propensity constants and the tail's bound."""

    per_label: Int[np.ndarray, "labels"]
    texts: int
    propensity: Propensity = _USUAL
    tail_at_least: int = 0  # 1 takes labels that were never trained on out of the tail
    tail_at_most: int = 5

    @classmethod
    def of(cls, labels: csr_array, *, propensity: Propensity = _USUAL) -> TrainingCounts:
        """Count the texts of each label; weights do not matter."""
        counts = np.bincount(relevant(labels).indices, minlength=labels.shape[1])
        return cls(per_label=counts, texts=int(labels.shape[0]), propensity=propensity)

    def with_unseen(self, labels: int) -> TrainingCounts:
        """Append that many labels that training never saw."""
        return replace(self, per_label=np.concatenate([self.per_label, np.zeros(labels, dtype=np.int64)]))

    def inverse_propensities(self) -> Float[np.ndarray, "labels"]:
        """Return the weight of each label in PSP and PSnDCG."""
        return inverse_propensities(self.per_label, self.texts, self.propensity)

    def tail(self) -> Bool[np.ndarray, "labels"]:
        """Return which labels are rare enough to count in tail recall."""
        return (self.per_label >= self.tail_at_least) & (self.per_label <= self.tail_at_most)


def inverse_propensities(
    counts: Int[np.ndarray, "labels"], texts: int, propensity: Propensity
) -> Float[np.ndarray, "labels"]:
    """Return 1 + C (n + B)^-A with C = (ln N - 1)(B + 1)^A (Jain et al. 2016, section 5)."""
    a, b = float(propensity.a), float(propensity.b)  # numpy refuses negative powers of integers
    # ln N - 1 is negative for fewer than three texts; a rare label must not weigh less than a frequent one.
    scale = max(log(max(texts, 1)) - 1, 0) * (b + 1) ** a
    weights: Float[np.ndarray, "labels"] = 1 + scale * (counts + b) ** -a
    return weights
