"""The metrics at k, each a ratio of two sums over texts; a mean divides by the number of texts.

A text without true labels has nothing to hit: it counts 0 in every mean and stays in the denominator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from laconic.evaluation.metrics.judgement import Judged, check_counts, check_width
from laconic.evaluation.metrics.label_counts import TrainingCounts
from laconic.evaluation.metrics.pairs import row_numbers

KS = (1, 3, 5, 10, 20)


@dataclass(frozen=True, eq=False)
class Ratio:
    """A metric by text: what each gained and, in the same unit, what it could have gained."""

    gained: Float[np.ndarray, "batch"]
    possible: Float[np.ndarray, "batch"]

    def percent(self) -> float:
        """Return the dataset's figure; 0 where there was nothing to gain."""
        possible = self.possible.sum()
        return float(100 * self.gained.sum() / possible) if possible > 0 else 0.0


def report(judged: Judged, training: TrainingCounts | None = None, *, ks: Sequence[int] = KS) -> dict[str, float]:
    """Compute every metric by name, in percent. PSP, PSnDCG and tail recall need the training counts."""
    means = {name: ratio.percent() for name, ratio in per_text(judged, training, ks=ks).items()}
    return means | {f"C@{k}": 100 * coverage(judged, k) for k in ks}


def per_text(judged: Judged, training: TrainingCounts | None = None, *, ks: Sequence[int] = KS) -> dict[str, Ratio]:
    """Compute every metric that is a ratio of sums over texts: all but coverage. `bootstrap` resamples these."""
    for k in ks:
        check_width(judged, k)
    plain = _plain(judged, ks)
    if training is None:
        return plain
    check_counts(judged, training.per_label)
    return plain | _propensity_scored(judged, training, ks) | _tail_recall(judged, training, ks)


def precision(gains: Float[np.ndarray, "batch width"], k: int) -> Float[np.ndarray, "batch"]:
    """Return the gains of the first k positions over k. A gain is 1 for a hit, or the hit's weight."""
    return _first(gains, k) / k


def recall(
    gains: Float[np.ndarray, "batch width"], positives: Int[np.ndarray, "batch"], k: int
) -> Float[np.ndarray, "batch"]:
    """Return the hits among the first k positions over the number of true labels."""
    fractions: Float[np.ndarray, "batch"] = _first(gains, k) / np.maximum(positives, 1)
    return fractions


def ndcg(
    gains: Float[np.ndarray, "batch width"], positives: Int[np.ndarray, "batch"], k: int
) -> Float[np.ndarray, "batch"]:
    """Return discounted gains over the discounts of min(k, positives) hits, unweighted even if gains are weighted."""
    discounts = 1 / np.log2(np.arange(k) + 2)
    ideal = np.cumsum(discounts)[np.clip(positives, 1, k) - 1]
    dcg: Float[np.ndarray, "batch"] = gains[:, :k] @ discounts[: gains.shape[1]]
    dcg /= ideal
    return dcg


def best_gains(truth: csr_array, weights: Float[np.ndarray, "labels"], width: int) -> Float[np.ndarray, "batch width"]:
    """Return the gains of the best possible ranking: each row's true labels by falling weight."""
    rows, weight = row_numbers(truth), weights[truth.indices]
    falling = weight[np.lexsort((-weight, rows))]
    places = np.arange(len(rows)) - truth.indptr[rows]
    ranked = places < width
    best = np.zeros((truth.shape[0], width))
    best[rows[ranked], places[ranked]] = falling[ranked]
    return best


def coverage(judged: Judged, k: int) -> float:
    """Return the fraction of all labels that are in any text's first k positions, hit or not."""
    check_width(judged, k)
    seen = np.zeros(judged.num_labels + 1, dtype=bool)  # NO_LABEL, -1, falls on the last place, which is not counted
    seen[judged.labels[:, :k]] = True
    return float(seen[:-1].mean())


def _plain(judged: Judged, ks: Sequence[int]) -> dict[str, Ratio]:
    gains, positives = judged.hits.astype(np.float64), judged.positives
    texts = np.ones(len(positives))
    return (
        {f"P@{k}": Ratio(precision(gains, k), texts) for k in ks}
        | {f"nDCG@{k}": Ratio(ndcg(gains, positives, k), texts) for k in ks}
        | {f"R@{k}": Ratio(recall(gains, positives, k), texts) for k in ks}
    )


def _propensity_scored(judged: Judged, training: TrainingCounts, ks: Sequence[int]) -> dict[str, Ratio]:
    """Compute PSP and PSnDCG over the best ranking's values: a ratio of means, not a mean of ratios."""
    weights, positives = training.inverse_propensities(), judged.positives
    gains = np.where(judged.hits, weights[judged.labels], 0.0)
    best = best_gains(judged.truth, weights, max(ks))
    return {f"PSP@{k}": Ratio(precision(gains, k), precision(best, k)) for k in ks} | {
        f"PSnDCG@{k}": Ratio(ndcg(gains, positives, k), ndcg(best, positives, k)) for k in ks
    }


def _tail_recall(judged: Judged, training: TrainingCounts, ks: Sequence[int]) -> dict[str, Ratio]:
    """Pool tail recall over texts: few texts have a tail label, so a mean over texts would be mostly zeros."""
    tail = training.tail()
    hits = (judged.hits & tail[judged.labels]).astype(np.float64)
    in_tail = row_numbers(judged.truth)[tail[judged.truth.indices]]
    occurrences = np.bincount(in_tail, minlength=len(hits)).astype(np.float64)
    return {f"tail R@{k}": Ratio(_first(hits, k), occurrences) for k in ks}


def _first(gains: Float[np.ndarray, "batch width"], k: int) -> Float[np.ndarray, "batch"]:
    sums: Float[np.ndarray, "batch"] = gains[:, :k].sum(axis=1)
    return sums
