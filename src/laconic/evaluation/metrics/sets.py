"""Metrics of sets of labels: precision, recall and F1, over all pairs (micro) and as a mean over labels (macro).

A set is what is kept of a text's ranked labels: the first k of them, or those that reach a threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from laconic.evaluation.metrics.judgement import Judged
from laconic.evaluation.metrics.ratios import KS, Ratio
from laconic.types import NO_LABEL


class Scores(NamedTuple):
    """Precision, recall and F1, in percent."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, kw_only=True, eq=False)
class SetCounts:
    """How often each label was kept, was rightly kept, and is true."""

    kept: Int[np.ndarray, "labels"]
    hits: Int[np.ndarray, "labels"]
    true: Int[np.ndarray, "labels"]

    @staticmethod
    def of(judged: Judged, kept: Bool[np.ndarray, "batch k"]) -> SetCounts:
        """Count the labels of a ranking that are kept; a place without a label is never kept."""
        kept, width = kept & (judged.labels != NO_LABEL), judged.num_labels
        return SetCounts(
            kept=np.bincount(judged.labels[kept], minlength=width),
            hits=np.bincount(judged.labels[kept & judged.hits], minlength=width),
            true=np.bincount(judged.truth.indices, minlength=width),
        )

    def micro(self) -> Scores:
        """Return the figures of all pairs of text and label together."""
        return _scores(*(np.array([part.sum()]) for part in (self.hits, self.kept, self.true)))

    def macro(self) -> Scores:
        """Return the means over labels that are true of, or kept for, at least one text."""
        met = (self.kept + self.true) > 0
        return _scores(self.hits[met], self.kept[met], self.true[met])


def first_places(judged: Judged, k: int) -> Bool[np.ndarray, "batch k"]:
    """Return which places of a ranking are among the first k."""
    return np.broadcast_to(np.arange(judged.labels.shape[1]) < k, judged.labels.shape)


def micro_f1(judged: Judged, ks: Sequence[int] = KS) -> dict[str, Ratio]:
    """Return the F1 of the first k labels by text, whose sums are those of all pairs."""
    found = {}
    for k in ks:
        kept = first_places(judged, k) & (judged.labels != NO_LABEL)
        both = kept.sum(axis=1) + judged.positives
        found[f"micro F1@{k}"] = Ratio(2.0 * (kept & judged.hits).sum(axis=1), both.astype(np.float64))
    return found


def macro_f1(judged: Judged, ks: Sequence[int] = KS) -> dict[str, float]:
    """Return the mean F1 of labels if the first k of each text are kept."""
    return {f"macro F1@{k}": SetCounts.of(judged, first_places(judged, k)).macro().f1 for k in ks}


def _scores(
    hits: Int[np.ndarray, "labels"], kept: Int[np.ndarray, "labels"], true: Int[np.ndarray, "labels"]
) -> Scores:
    """Return the mean figures of labels in percent; a figure is 0 where there is nothing to divide by."""
    parts = [part / np.maximum(whole, 1) for part, whole in ((hits, kept), (hits, true), (2 * hits, kept + true))]
    return Scores(*(100 * float(part.mean()) if len(part) else 0.0 for part in parts))
