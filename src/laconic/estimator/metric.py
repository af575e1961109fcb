"""One metric as the score of a grid search."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from laconic.errors import ConfigError
from laconic.estimator.laconic import Laconic
from laconic.evaluation.evaluate import Truth, evaluate
from laconic.evaluation.metrics import TrainingCounts, ranking_of


def scorer(metric: str) -> Callable[[Laconic, Iterable[str], Iterable[Any]], float]:
    """Return one metric of `Laconic.evaluate` as the `scoring` of a grid search.

    Args:
        metric: A name, such as nDCG@5.

    Returns:
        A function of a fitted estimator, texts and their labels.

    Examples:
        >>> model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
        >>> scorer("P@1")(model, ["a rose"], [["flower"]])
        100.0
    """
    one = csr_array(np.ones((1, 1)))
    truth = Truth(labels=one, leave_out=None, training=TrainingCounts.of(one))
    known = evaluate(ranking_of([[(0, 1.0)]], 1), truth).metrics
    if metric not in known:
        raise ConfigError(f"there is no metric {metric!r}; known are: {', '.join(known)}")
    return partial(_figure, metric)


def _figure(metric: str, model: Laconic, texts: Iterable[str], labels: Iterable[Any]) -> float:
    return model.evaluate(texts, labels)[metric]
