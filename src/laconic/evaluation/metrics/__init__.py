"""Metrics of rankings, in percent: P, nDCG, PSP, PSnDCG, recall, coverage and tail recall at k, calibration error.

    judged = judge(ranking, truth, leave_out=pairs)          # checked, pairs taken out, hits found
    report(judged, TrainingCounts.of(train_labels))          # {"P@1": 60.1, ..., "tail R@20": 23.8}

Knows nothing of texts, models or files.
"""

from laconic.data.catalogue import Propensity
from laconic.evaluation.calibration import expected_calibration_error
from laconic.evaluation.metrics.intervals import bootstrap
from laconic.evaluation.metrics.judgement import Judged, judge
from laconic.evaluation.metrics.label_counts import TrainingCounts, inverse_propensities
from laconic.evaluation.metrics.pairs import relevant, truth_without_pairs
from laconic.evaluation.metrics.quantiles import Quantiles, equal_frequency_quantiles, equal_label_quantiles
from laconic.evaluation.metrics.rankings import ranking_of, top_k_of, without_pairs
from laconic.evaluation.metrics.ratios import (
    KS,
    Ratio,
    coverage,
    per_text,
    report,
)

__all__ = [
    "KS",
    "Judged",
    "Propensity",
    "Quantiles",
    "Ratio",
    "TrainingCounts",
    "bootstrap",
    "coverage",
    "equal_frequency_quantiles",
    "equal_label_quantiles",
    "expected_calibration_error",
    "inverse_propensities",
    "judge",
    "per_text",
    "ranking_of",
    "relevant",
    "report",
    "top_k_of",
    "truth_without_pairs",
    "without_pairs",
]
