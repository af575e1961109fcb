"""Scikit-learn's own checks of estimators, on Laconic as far as they apply to texts.

The checks fit matrices of numbers. `OfNumbers` writes each row as a text, and answers with arrays, so that what they
claim of parameters, of `fit`, `predict` and `score`, and of copies is claimed of Laconic. DO_NOT_APPLY has the others,
with the reasons; each of them fails, so that none stands there for longer than it must.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from laconic import Laconic

estimator_checks = pytest.importorskip("sklearn.utils.estimator_checks")
if not hasattr(estimator_checks, "estimator_checks_generator"):
    pytest.skip("the checks are listed by scikit-learn 1.6 and later", allow_module_level=True)

DO_NOT_APPLY = {
    "check_no_attributes_set_in_init": "`settings` holds the settings of the method, which each method has its own",
    "check_fit_score_takes_y": "labels are called labels, not y",
    "check_n_features_in_after_fitting": "texts have no number of features",
    "check_n_features_in": "texts have no number of features",
    "check_fit1d": "texts are a list, which has one dimension",
    "check_fit2d_predict1d": "texts are a list, which has one dimension",
    "check_complex_data": "no numbers are read",
    "check_estimators_nan_inf": "no numbers are read; a missing text is a DataError",
    "check_estimator_sparse_tag": "no matrices are read",
    "check_estimator_sparse_array": "no matrices are read",
    "check_estimator_sparse_matrix": "no matrices are read",
    "check_estimators_empty_data_messages": "errors that users can fix are UserErrors, not ValueErrors",
    "check_requires_y_none": "errors that users can fix are UserErrors, not ValueErrors",
}


def texts_of(rows: Any) -> list[str]:
    return [
        " ".join(f"c{column}v{round(float(value))}" for column, value in enumerate(np.atleast_1d(row)))
        for row in np.asarray(rows)
    ]


def names_of(y: Any) -> list[str] | None:
    return None if y is None else [str(value) for value in np.ravel(y)]


class OfNumbers(Laconic):
    """Laconic on rows of numbers."""

    def fit(self, X: Any, y: Any = None) -> Any:  # type: ignore[override]
        return super().fit(texts_of(X), names_of(y))

    def predict(self, X: Any) -> Any:  # type: ignore[override]
        return np.array([float(answer[0].label) for answer in super().predict(texts_of(X), 1)])

    def decision_function(self, X: Any) -> Any:  # type: ignore[override]
        answers = [dict(answer) for answer in self._predictor().predict(texts_of(X), len(self.labels_))]
        return np.array([[answer.get(name, 0.0) for name in self.labels_] for answer in answers])

    def predict_proba(self, X: Any) -> Any:  # type: ignore[override]
        return self.decision_function(X)

    def score(self, X: Any, y: Any) -> float:  # type: ignore[override]
        return super().score(texts_of(X), names_of(y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = False, True
        return tags


def checks() -> Iterator[Any]:
    for estimator, check in estimator_checks.estimator_checks_generator(OfNumbers("nearest"), legacy=True):
        yield pytest.param(estimator, check, id=check.func.__name__.removeprefix("check_"))


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_checks_of_scikit_learn(estimator: OfNumbers, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if check.func.__name__ in DO_NOT_APPLY:
            with pytest.raises(Exception):  # noqa: B017, PT011 - each check has an error of its own
                check(estimator)
        else:
            check(estimator)


@pytest.mark.parametrize(
    "name",
    ["estimators_unfitted", "do_not_raise_errors_in_init_or_set_params", "set_params", "get_params_invariance"],
)
@pytest.mark.parametrize("method", ["auto", "trees"])
def test_checks_that_fit_nothing_pass_without_the_adapter(name: str, method: str) -> None:
    check: Callable[[str, Laconic], None] = getattr(estimator_checks, f"check_{name}")
    check("Laconic", Laconic(method))
