"""Laconic's examples, sparse scores, frames, seeds, cores and progress, as users of scikit-learn expect them."""

from __future__ import annotations

import doctest
import logging
import sys
import types
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import issparse
from sklearn.base import clone

import laconic.estimator
from laconic import Laconic
from laconic.errors import ConfigError, DataError, ModelError
from laconic.estimator import scorer
from laconic.system.machine import at_most_cores, usable_cores
from tests.planted import planted_texts
from tests.test_estimator import FEW_LABELS, FEW_TEXTS, LABELS, TEST_TEXTS, TEXTS, lists_of, nearest, unchecked

SMALL = {"epochs": 2, "embedding": 16, "encoder": "bag", "batch_size": 16, "device": "cpu", "validation": 0.0}
MODULES = [f"laconic.estimator.{name}" for name in ("answers", "base", "changes", "laconic", "metric")]
NAMES = {"Laconic": laconic.estimator.Laconic, "scorer": laconic.estimator.scorer, "np": np}
EXAMPLES = [
    found
    for module in map(import_module, MODULES)
    for found in doctest.DocTestFinder().find(module, globs={**NAMES})
    if found.examples
]


# Examples


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_are_true(example: doctest.DocTest) -> None:
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


def test_every_public_method_has_parameters_and_an_example() -> None:
    shown = {example.name.rpartition(".")[2] for example in EXAMPLES}
    ours = [one for one in Laconic.__mro__ if one.__module__.startswith("laconic")]
    own = {name for one in ours for name in vars(one) if not (name.startswith("_") or name.endswith("_request"))}
    methods = {name for name in own if callable(getattr(Laconic, name))}  # X_request is scikit-learn's own
    assert methods | {"Laconic", "scorer"} == shown
    for name in methods:
        written = getattr(Laconic, name).__doc__
        assert "Args:" in written
        assert "Returns:" in written or name == "save"


# Scores


def test_scores_are_a_sparse_matrix_of_texts_and_labels() -> None:
    model = nearest().fit(TEXTS, LABELS)
    scores = model.decision_function(TEST_TEXTS, k=3)
    assert issparse(scores)
    assert scores.shape == (len(TEST_TEXTS), len(model.classes_))
    assert list(model.classes_) == list(model.labels_)
    for row, answer in enumerate(model.predict(TEST_TEXTS, k=3)):
        found = {model.classes_[column]: scores[row, column] for column in scores[[row]].indices}
        assert found == dict(answer)
    assert model.decision_function([], k=3).shape == (0, len(model.labels_))
    assert model.decision_function(TEST_TEXTS[:2]).nnz == 2 * len(model.labels_)  # fewer than the usual 100


def test_probabilities_are_those_of_a_calibrated_model_alone() -> None:
    model = nearest().set_params(calibration=0.0).fit(TEXTS, LABELS)
    with pytest.raises(ModelError, match=r"not probabilities: call calibrate\(texts, labels\)"):
        model.predict_proba(TEST_TEXTS)
    others = planted_texts(seed=5)
    probabilities = model.calibrate(*lists_of(others, others.split("train"))).predict_proba(TEST_TEXTS, k=3)
    assert 0 <= probabilities.data.min() <= probabilities.data.max() <= 1
    np.testing.assert_array_equal(probabilities.toarray(), model.decision_function(TEST_TEXTS, k=3).toarray())


# Frames


class Frame:
    """As much of a pandas DataFrame as is asked of one."""

    ndim = 2

    def __init__(self, **columns: Sequence[Any]) -> None:
        self.columns, self.cells = list(columns), columns

    def __getitem__(self, name: str) -> Sequence[Any]:
        return self.cells[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


def test_frames_are_read_by_their_columns() -> None:
    fit, lists = unchecked(Laconic.fit), nearest().fit(FEW_TEXTS, FEW_LABELS)
    both = Frame(sku=[1, 2, 3], Title=FEW_TEXTS, Tags=FEW_LABELS)
    for texts, labels in (
        (both, None),
        (both, FEW_LABELS),
        (Frame(whatever=FEW_TEXTS), Frame(kind=FEW_LABELS)),
        (FEW_TEXTS, both),
    ):
        model = fit(nearest(), texts, labels)
        assert model.predict(FEW_TEXTS) == lists.predict(FEW_TEXTS)
    assert unchecked(Laconic.predict)(lists, both) == lists.predict(FEW_TEXTS)
    assert unchecked(Laconic.evaluate)(lists, both)["R@5"] == 100


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (Frame(a=["x"], b=["y"]), [["z"]], r"^texts is a frame without a column 'text' or .*its columns are: a, b"),
        (["x"], Frame(a=[["x"]], b=[["y"]]), r"^labels is a frame without a column 'labels' or .*frame\['a'\]"),
        (Frame(text=["x"]), None, r"^texts is a frame without a column 'labels'"),
        (["x"], None, r"^labels are missing"),
    ],
)
def test_a_frame_that_cannot_be_read_says_which_column_is_missing(texts: Any, labels: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        unchecked(Laconic.fit)(nearest(), texts, labels)


def test_series_and_frames_of_pandas_are_read() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": FEW_TEXTS, "labels": FEW_LABELS}, index=[7, 3, 5])
    lists, fit = nearest().fit(FEW_TEXTS, FEW_LABELS), unchecked(Laconic.fit)
    for texts, labels in ((frame, None), (frame["text"], frame["labels"]), (frame[["text"]], frame[["labels"]])):
        assert fit(nearest(), texts, labels).predict(FEW_TEXTS) == lists.predict(FEW_TEXTS)


# Parameters


def test_a_random_state_is_the_seed() -> None:
    weights = []
    for given in ({"random_state": 3}, {"seed": 3}, {"random_state": np.random.RandomState(1)}, {"random_state": 4}):
        model = Laconic("inceptionxml", **SMALL, **given).fit(TEXTS[:40], LABELS[:40])
        weights.append(model.model_.tensors["classifier.weight"])
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[3])
    assert not torch.equal(weights[0], weights[2])
    assert clone(Laconic(random_state=3)).random_state == 3
    nearest().set_params(random_state=3).fit(FEW_TEXTS, FEW_LABELS)  # which has nothing random


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"random_state": 1, "seed": 1}, "random_state and seed are the same setting"),
        ({"random_state": "today"}, "random_state must be an integer, a numpy RandomState or None, but is 'today'"),
        ({"n_jobs": 0}, "n_jobs must be a number of cores, or -1 for all, but is 0"),
    ],
)
def test_a_wrong_parameter_is_told_by_fit(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Laconic("inceptionxml", **SMALL, **params).fit(FEW_TEXTS, FEW_LABELS)


@pytest.mark.parametrize(("jobs", "cores"), [(1, 1), (-1, 4), (-2, 3), (-9, 1), (None, 4), (100, 4)])
def test_jobs_are_cores(jobs: int | None, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laconic.system.machine._cores_by_affinity", lambda: 4)
    monkeypatch.setattr("laconic.system.machine._cores_by_quota", lambda root: None)
    with Laconic(n_jobs=jobs)._cores():
        assert usable_cores() == cores
    assert usable_cores() == 4
    assert Laconic("nearest", n_jobs=jobs).fit(FEW_TEXTS, FEW_LABELS).predict("car", k=1)[0].label == "car"


def test_fewer_cores_are_fewer_threads_of_torch() -> None:
    before = torch.get_num_threads()
    with at_most_cores(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_parts_of_the_data_are_learnt_one_after_the_other() -> None:
    model = nearest()
    assert model.partial_fit(FEW_TEXTS[:2], FEW_LABELS[:2]) is model
    assert set(model.labels_) == {"red", "car"}
    model.partial_fit(FEW_TEXTS[2:], FEW_LABELS[2:])
    assert set(model.labels_) == {"red", "car", "house"}
    assert model.predict("green house", k=1)[0].label == "house"
    assert model.predict("red car", k=1)[0].label in ("red", "car")


# What is shown


def test_training_is_logged_and_printed_if_wanted(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, logger="laconic"):
        Laconic("inceptionxml", **SMALL).fit(TEXTS, LABELS)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("laconic.training.watchers")]
    assert lines[0] == f"Training inceptionxml on {len(TEXTS)} texts, 12 labels"
    assert [line.partition(":")[0] for line in lines if line.startswith("epoch")] == ["epoch 1/2", "epoch 2/2"]
    assert lines[-1].startswith("Trained inceptionxml in ")
    assert capsys.readouterr().out == ""
    Laconic("inceptionxml", **SMALL, verbose=1).fit(TEXTS, LABELS)
    assert "epoch 2/2: loss" in capsys.readouterr().out
    with caplog.at_level(logging.INFO, logger="laconic"):
        Laconic(device="cpu").fit(FEW_TEXTS, FEW_LABELS)
    assert any("Chosen: nearest texts" in record.getMessage() for record in caplog.records)


def test_a_notebook_shows_progress_in_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, content: str) -> None:
            shown.append(content)

    def display(content: str, display_id: bool) -> Handle:
        shown.append(content)
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    page = types.SimpleNamespace(HTML=lambda content: content, display=display)
    notebook = types.SimpleNamespace(get_ipython=lambda: shell, display=page)
    monkeypatch.setitem(vars(sys)["modules"], "IPython", notebook)
    monkeypatch.setattr("laconic.training.watchers._REFRESH", 0.0)
    Laconic("inceptionxml", **SMALL, verbose=1).fit(TEXTS, LABELS)
    assert "Training inceptionxml" in shown[0]
    assert any('<progress value="0.0333" max="1">' in content for content in shown)
    assert "epoch 2/2" in shown[-1]


def test_a_notebook_shows_what_a_model_is() -> None:
    model = Laconic("nearest", neighbours=20, text={"pattern": "<b>"})
    assert "not fitted" in model._repr_html_()
    assert "&lt;b&gt;" in model._repr_html_()
    shown = model.set_params(text={}).fit(FEW_TEXTS, FEW_LABELS)._repr_html_()
    assert "not fitted" not in shown
    for name, value in (("method", "nearest"), ("neighbours", 20), ("labels", 3), ("training texts", 3)):
        assert f"<th>{name}</th><td>{value}</td>" in shown


def test_f1_of_the_labels_that_reach_the_threshold_is_scikit_learns() -> None:
    from sklearn.metrics import f1_score
    from sklearn.preprocessing import MultiLabelBinarizer

    texts = [f"{first} {second}" for first in ("rose", "sea", "oak") for second in ("red", "blue", "old")] * 40
    labels = [[text.split()[0], "colour"] if "old" not in text else [text.split()[0]] for text in texts]
    model = Laconic("nearest", neighbours=200).fit(texts, labels)
    found, matrix = model.evaluate(texts[:30], labels[:30]), MultiLabelBinarizer().fit(labels)
    truth, taken = (matrix.transform(sets) for sets in (labels[:30], model.predict_labels(texts[:30])))
    for kind in ("micro", "macro"):
        assert found[f"{kind} F1"] == pytest.approx(100 * f1_score(truth, taken, average=kind))
        assert scorer(f"{kind} F1")(model, texts[:30], labels[:30]) == found[f"{kind} F1"]


def test_a_scorer_of_a_threshold_says_why_a_model_has_none() -> None:
    model = Laconic("nearest").fit(["red rose", "blue sea"], [["flower"], ["water"]])
    with pytest.raises(ModelError, match="no micro F1 of this model, whose scores are not probabilities"):
        scorer("micro F1")(model, ["a rose"], [["flower"]])
