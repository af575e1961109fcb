"""One metric as the score of a grid search."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from laconic.errors import ConfigError, ModelError
from laconic.estimator.laconic import Laconic
from laconic.evaluation.evaluate import Truth, evaluate
from laconic.evaluation.label_sets import USUAL
from laconic.evaluation.metrics import TrainingCounts, ranking_of


def scorer(metric: str) -> Callable[[Laconic, Iterable[str], Iterable[Any]], float]:
    """Return one metric of `Laconic.evaluate` as the `scoring` of a grid search.

    Args:
        metric: A name, such as nDCG@5, or micro F1 of the labels that reach the threshold.

    Returns:
        A function of a fitted estimator, texts and their labels.

    Examples:
        >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
        >>> scorer("P@1")(model, ["a rose"], [["flower"]])
        100.0
    """
    one = csr_array(np.ones((1, 1)))
    truth = Truth(labels=one, leave_out=None, training=TrainingCounts.of(one))
    some = evaluate(ranking_of([[(0, 1.0)]], 1), truth, limits=USUAL)
    assert some.at_threshold is not None
    known = some.metrics | some.at_threshold.metrics()
    if metric not in known:
        raise ConfigError(f"there is no metric {metric!r}; known are: {', '.join(known)}")
    return partial(_figure, metric)


def _figure(metric: str, model: Laconic, texts: Iterable[str], labels: Iterable[Any]) -> float:
    found = model.evaluate(texts, labels)
    if metric not in found:
        raise ModelError(
            f"there is no {metric} of this model, whose scores are not probabilities: train with more texts, or with "
            "held-out ones (validation=0.05), or ask for a metric of the first labels, such as micro F1@5"
        )
    return found[metric]
