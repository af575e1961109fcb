"""Contributions to P@k by bins of label frequency, in the definitions of DeepXML and of DECAF."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from laconic.evaluation.metrics.judgement import Judged, check_counts, check_width


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantiles:
    """One entry per bin, the rarest labels first. A bin without labels has frequencies of 0."""

    k: int
    labels: Int[np.ndarray, "bins"]  # how many are in the bin
    lowest: Int[np.ndarray, "bins"]  # training texts of the bin's rarest label
    highest: Int[np.ndarray, "bins"]  # and of its most frequent one
    mean_frequency: Float[np.ndarray, "bins"]
    contribution: Float[np.ndarray, "bins"]  # percentage points of P@k; they add up to it


def equal_label_quantiles(judged: Judged, counts: Int[np.ndarray, "labels"], *, k: int = 5, bins: int = 5) -> Quantiles:
    """Bin labels into equally many labels per bin (DeepXML, Figure 3)."""
    check_counts(judged, counts)
    place = np.empty(len(counts), dtype=np.int64)
    place[_by_frequency(counts)] = np.arange(len(counts))
    return _quantiles(judged, counts, place * bins // len(counts), k=k, bins=bins)


def equal_frequency_quantiles(
    judged: Judged, counts: Int[np.ndarray, "labels"], *, k: int = 5, bins: int = 5
) -> Quantiles:
    """Bin labels into equally many training texts per bin (DECAF, Figure 4).

    A label belongs where the middle of its texts falls; one with more texts than a bin may leave a bin empty.
    """
    check_counts(judged, counts)
    order = _by_frequency(counts)
    rising = counts[order].astype(np.int64)
    twice_middle = 2 * np.cumsum(rising) - rising
    bin_of_label = np.empty(len(counts), dtype=np.int64)
    bin_of_label[order] = twice_middle * bins // max(2 * int(rising.sum()), 1)
    return _quantiles(judged, counts, bin_of_label, k=k, bins=bins)


def _by_frequency(counts: Int[np.ndarray, "labels"]) -> Int[np.ndarray, "labels"]:
    return np.argsort(counts, kind="stable")  # stable: equally frequent labels stay in the order of their numbers


def _quantiles(
    judged: Judged,
    counts: Int[np.ndarray, "labels"],
    bin_of_label: Int[np.ndarray, "labels"],
    *,
    k: int,
    bins: int,
) -> Quantiles:
    check_width(judged, k)
    members = [counts[bin_of_label == number] for number in range(bins)]
    hit = judged.labels[:, :k][judged.hits[:, :k]]
    hits = np.bincount(bin_of_label[hit], minlength=bins)
    return Quantiles(
        k=k,
        labels=np.array([len(of_bin) for of_bin in members]),
        lowest=np.array([of_bin.min() if len(of_bin) else 0 for of_bin in members]),
        highest=np.array([of_bin.max() if len(of_bin) else 0 for of_bin in members]),
        mean_frequency=np.array([of_bin.mean() if len(of_bin) else 0.0 for of_bin in members]),
        contribution=100 * hits / (k * len(judged.labels)),
    )
