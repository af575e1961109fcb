"""Compare a ranking with the truth: the value that every metric is computed from."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int
from scipy.sparse import csr_array

from laconic.errors import ConfigError, DataError
from laconic.evaluation.metrics.pairs import holds, relevant, truth_without_pairs
from laconic.evaluation.metrics.rankings import Ranked, check_ranking, label_array, labels_without_pairs
from laconic.units import counted


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """Ranked labels best first, which of them are true, and the whole truth."""

    labels: Int[np.ndarray, "batch k"]
    hits: Bool[np.ndarray, "batch k"]
    truth: csr_array  # texts × labels; whatever is stored is true

    @property
    def num_labels(self) -> int:
        """Return the number of labels."""
        return int(self.truth.shape[1])

    @property
    def positives(self) -> Int[np.ndarray, "batch"]:
        """Return the number of labels of each text."""
        return np.diff(self.truth.indptr)


def judge(ranking: Ranked, truth: csr_array, *, leave_out: csr_array | None = None) -> Judged:
    """Compare a ranking (or its labels) with the truth, after leaving pairs out of both.

    DECAF leaves a dataset's reciprocal pairs out of truth and predictions, DeepXML out of predictions only, which
    charges a model for labels that it may not answer; we follow DECAF.
    """
    truth, labels = relevant(truth), label_array(ranking)
    if len(labels) == 0:
        raise DataError("there are no texts to judge: the ranking is empty")
    check_ranking(labels, truth.shape[1])
    if leave_out is not None:
        truth, labels = truth_without_pairs(truth, leave_out), labels_without_pairs(labels, leave_out)
    return Judged(labels=labels, hits=holds(truth, labels), truth=truth)


def check_width(judged: Judged, k: int) -> None:
    """Refuse a ranking narrower than k, unless there are no more labels to rank."""
    width = judged.labels.shape[1]
    if k < 1:
        raise ConfigError(f"a metric looks at the first k places: k must be 1 or more, but is {k}")
    if width < min(k, judged.num_labels):
        raise DataError(
            f"the ranking has {counted(width, 'label')} a text, too few for metrics at {k}; rank {k}, or ask for less"
        )


def check_counts(judged: Judged, counts: Int[np.ndarray, "labels"]) -> None:
    """Refuse training counts of another number of labels."""
    if len(counts) != judged.num_labels:
        raise DataError(
            f"there are training counts of {counted(len(counts), 'label')}, but the truth has {judged.num_labels}"
        )
