"""Laconic as scikit-learn's users meet it."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.validation import check_is_fitted

from laconic import Laconic
from laconic.config import Settings
from laconic.data.corpus import Corpus, Split
from laconic.errors import ConfigError, DataError, ModelError, UserError
from laconic.estimator import scorer
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.prediction import Prediction
from laconic.predict.predictor import Predictor
from tests.planted import planted_texts

SMALL: dict[str, Settings] = {
    "nearest": {"neighbours": 20},
    "inceptionxml": {
        "epochs": 4,
        "embedding": 64,
        "length": 8,
        "batch_size": 8,
        "dropout": 0.0,
        "classifier_dropout": 0.0,
        "validation": 0.0,
    },
    "inceptionxml+": {
        "encoder": "bag",
        "epochs": 10,
        "embedding": 32,
        "batch_size": 16,
        "learning_rate": 0.03,
        "clusters": 4,
        "top": 3,
        "validation": 0.0,
    },
}
CORPUS = planted_texts()


def lists_of(corpus: Corpus, split: Split) -> tuple[list[str], list[list[str]]]:
    rows = np.split(split.labels.indices, split.labels.indptr[1:-1])
    return list(split.texts or ()), [[corpus.labels.names[label] for label in row] for row in rows]


TEXTS, LABELS = lists_of(CORPUS, CORPUS.split("train"))
TEST_TEXTS, TEST_LABELS = lists_of(CORPUS, CORPUS.split("test"))
FEW_TEXTS, FEW_LABELS = ["red car", "blue car", "green house"], [["red", "car"], ["car"], ["house"]]


@pytest.fixture(scope="module", params=SMALL)
def fitted(request: pytest.FixtureRequest) -> Laconic:
    return Laconic(request.param, device="cpu", **SMALL[request.param]).fit(TEXTS, LABELS)


def nearest() -> Laconic:
    return Laconic("nearest", **SMALL["nearest"])


def unchecked(method: Callable[..., Any]) -> Callable[..., Any]:
    """Without the tests' own look at types, which would be first to find a wrong one."""
    bare: Callable[..., Any] = inspect.unwrap(method)
    return bare


# Answers


def test_one_text_has_a_list_and_many_have_lists(fitted: Laconic) -> None:
    answers = fitted.predict(TEST_TEXTS[:3], k=4)
    assert [len(answer) for answer in answers] == [4, 4, 4]
    alone = fitted.predict(TEST_TEXTS[0], k=4)
    assert isinstance(alone[0], Prediction)
    assert [label for label, _ in alone] == [label for label, _ in answers[0]]
    assert len(fitted.predict("")) == 5
    assert fitted.predict([]) == []


def test_planted_labels_are_learnt(fitted: Laconic) -> None:
    assert fitted.evaluate(TEST_TEXTS, TEST_LABELS)["P@1"] > 70  # four epochs are few
    assert set(fitted.labels_) == set(CORPUS.labels.names)


def test_scores_are_those_of_an_evaluation(fitted: Laconic) -> None:
    metrics = fitted.evaluate(TEST_TEXTS, TEST_LABELS)
    expected = fitted.predictor_.evaluate(CORPUS, "test")
    at_threshold = {} if expected.at_threshold is None else expected.at_threshold.metrics()
    assert metrics == expected.metrics | at_threshold
    assert {"P@1", "nDCG@5", "PSP@5"} <= metrics.keys()


def test_syncxml_is_inceptionxml_plus(tmp_path: Path) -> None:
    model = Laconic("syncxml", device="cpu", **SMALL["inceptionxml+"], clustering__seed=3).fit(TEXTS[:40], LABELS[:40])
    assert model.model_.facts["method"] == "inceptionxml+"
    assert model.model_.facts["config"]["clustering"]["seed"] == 3
    model.save(tmp_path / "model")
    loaded = Laconic.load(tmp_path / "model", device="cpu")
    assert loaded.method == "inceptionxml+"
    assert loaded.predict(TEST_TEXTS) == model.predict(TEST_TEXTS)
    with pytest.raises(ConfigError, match=r"there is no setting 'clustering\.seeds'"):
        Laconic("syncxml", clustering__seeds=3).fit(TEXTS, LABELS)


def test_a_label_never_seen_is_a_miss() -> None:
    model = nearest().fit(FEW_TEXTS, FEW_LABELS)
    assert model.evaluate(FEW_TEXTS, FEW_LABELS)["R@5"] == 100
    assert model.evaluate(FEW_TEXTS, [["red", "new"], ["car", "newer"], ["house", "new"]])["R@5"] == 50
    assert model.evaluate(["red car"], [["new"]])["P@1"] == 0


def test_labels_can_be_allowed_and_blocked(fitted: Laconic) -> None:
    best = fitted.predict(TEST_TEXTS[0])
    assert fitted.predict(TEST_TEXTS[0], 1, block=[best[0].label])[0].label == best[1].label
    assert [label for label, _ in fitted.predict(TEST_TEXTS[0], allow=[best[2].label])] == [best[2].label]
    with pytest.raises(ConfigError, match="block names labels that the model does not have: 'red'"):
        fitted.predict(TEST_TEXTS, block=["red"])


def test_numbers_are_names() -> None:
    model = unchecked(Laconic.fit)(nearest(), FEW_TEXTS, [[1, 2], [2], [np.int64(3)]], {3: "warm home"})
    assert set(model.labels_) == {"1", "2", "3"}
    assert model.predict("home", 1)[0].label == "3"
    assert model.evaluate(FEW_TEXTS, [[1, 2], ["2"], [3]])["R@5"] == 100
    assert model.predict("car", allow=[1]) == model.predict("car", block=["2", 3])


def test_texts_and_labels_may_be_arrays_tuples_and_sets() -> None:
    arrays = unchecked(Laconic.fit)(nearest(), np.array(FEW_TEXTS), tuple(np.array(names) for names in FEW_LABELS))
    sets = nearest().fit(iter(FEW_TEXTS), [set(names) for names in FEW_LABELS])
    lists = nearest().fit(FEW_TEXTS, FEW_LABELS)
    assert [type(name) for name in arrays.labels_] == [str] * 3
    assert arrays.predict(FEW_TEXTS) == lists.predict(FEW_TEXTS)
    assert sets.evaluate(FEW_TEXTS, FEW_LABELS) == lists.evaluate(FEW_TEXTS, FEW_LABELS)


def test_labels_texts_are_learnt_from() -> None:
    model = nearest().fit(FEW_TEXTS, FEW_LABELS, {"boat": "swims on water", "car": "drives on roads"})
    assert model.predict("water", 1)[0].label == "boat"
    assert model.predict("roads", 1)[0].label == "car"


def test_a_text_may_have_no_label() -> None:
    assert nearest().fit([*FEW_TEXTS, "unknown"], [*FEW_LABELS, []]).predict("house", 1)[0].label == "house"


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ("red", [["red"]], r"^texts is 'red' \(str\), where a list of strings is needed; write \['red'\]$"),
        ({"red": 1}, [["red"]], r"^texts is .*dict"),
        ({"red"}, [["red"]], r"^texts is \{'red'\} \(set\)"),
        (5, [["red"]], r"^texts is 5 \(int\), where a list of strings is needed"),
        (["red", None], [["red"], []], r"^texts\[1\] is None \(NoneType\), where a string is needed"),
        (["red", float("nan")], [["red"], []], r"^texts\[1\] is nan \(float\)"),
        (["red", "\ud800"], [["red"], []], r"^texts\[1\] holds half of a character"),
        (["red", "blue"], ["red", ["blue"]], r"^labels\[0\] is 'red' \(str\), .*names is needed; write \['red'\]$"),
        (["red"], "red", r"^labels is 'red' \(str\), where a list of lists of label names is needed"),
        (["red"], [2.5], r"^labels\[0\] is 2.5 \(float\), where a list of label names is needed"),
        (["red"], [None], r"^labels\[0\] is None"),
        (["red"], [["red", 2.5]], r"^labels\[0\]\[1\] is 2.5 \(float\), where a string is needed"),
        (["red"], [[True]], r"^labels\[0\]\[0\] is True \(bool\)"),
        (["red"], np.ones((1, 3, 1), dtype=int), r"^labels is array\(\[\[\[1\],\n.*\(ndarray\), where a list"),
        (["red"], np.array([[0, 3]]), r"^labels is a matrix that holds 3, where 0 and 1 are needed"),
        (["red"], csr_array(np.array([[0, 0.5]])), r"^labels is a matrix that holds 0\.5, where 0 and 1"),
        (["red", "blue"], np.ones((1, 3)), r"^there are 2 texts, but 1 row of labels"),
        (["red", "blue"], [["red"]], r"^there are 2 texts, but 1 list of labels"),
        ([], [], r"^there is no text at all"),
        (["red"], [[]], r"^no text has a label"),
    ],
)
def test_mistakes_in_data_are_told_with_their_place(texts: Any, labels: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        unchecked(Laconic.fit)(nearest(), texts, labels)
    with pytest.raises(DataError, match=message):
        unchecked(Laconic.score)(nearest().fit(FEW_TEXTS, FEW_LABELS), texts, labels)


@pytest.mark.parametrize(
    ("label_texts", "message"),
    [
        (["red"], r"^label_texts is \['red'\] \(list\), where a dict of label names and texts is needed"),
        ({"red": 5}, r"^label_texts\['red'\] is 5 \(int\), where a string is needed"),
        ({2.5: "red"}, r"^label_texts\[2.5\] is 2.5 \(float\)"),
        ({1: "red", "1": "blue"}, r"^label_texts\['1'\]: the label '1' was listed before"),
    ],
)
def test_mistakes_in_label_texts_are_told_with_their_place(label_texts: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        unchecked(Laconic.fit)(nearest(), FEW_TEXTS, FEW_LABELS, label_texts)


def test_a_text_to_answer_must_be_a_string() -> None:
    with pytest.raises(DataError, match=r"texts\[1\] is 5 \(int\)"):
        unchecked(Laconic.predict)(nearest().fit(FEW_TEXTS, FEW_LABELS), ["red", 5])


# Settings


def test_the_constructor_keeps_what_it_is_given_and_looks_at_nothing() -> None:
    group = {"stop_words": "?"}
    model = Laconic("no such method", nonsense=1, text=group)
    given = {"method": "no such method", "device": "auto", "ensemble": 1, "ignore_memory": False}
    given |= {"budget": None, "preset": None, "classes": None, "random_state": None, "n_jobs": None, "verbose": 0}
    given |= {"track": None, "fields": None, "class_weight": None}
    assert model.get_params() == {**given, "nonsense": 1, "text": group}
    assert model.get_params()["text"] is group


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Laconic("fasttext"), "there is no method 'fasttext'; known are: nearest"),
        (Laconic("nearest", epoch=1), "there is no setting 'epoch'; known are: neighbours"),
        (Laconic("nearest", text__stopwords=True), r"there is no setting 'text\.stopwords'"),
        (Laconic("nearest", power__of=2), r"there is no setting 'power'|power must be float"),
        (Laconic("nearest", power=1.0, power__of=2), "power__of: 'power' is a single value, 1.0"),
        (Laconic("nearest", neighbours="many"), "neighbours must be int, but is 'many'"),
        (Laconic("nearest", device="abacus"), "there is no device 'abacus'"),
    ],
)
def test_mistakes_in_settings_are_found_by_fit(model: Laconic, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        model.fit(FEW_TEXTS, FEW_LABELS)


def test_a_group_can_be_set_in_two_ways() -> None:
    ways: list[Settings] = [{"text": {"stop_words": False}}, {"text__stop_words": False}]
    ways += [{"text": {"stop_words": True}, "text__stop_words": False}]
    for settings in ways:
        model = Laconic("nearest", **settings).fit(FEW_TEXTS, FEW_LABELS)
        assert model.model_.facts["config"]["text"]["stop_words"] is False


def test_params_can_be_set() -> None:
    model = Laconic("inceptionxml", text__stop_words=False, epochs=2)
    assert model.set_params(method="nearest", device="cpu", power=3.0) is model
    own = {"method": "nearest", "device": "cpu", "ensemble": 1, "ignore_memory": False, "epochs": 2}
    own |= {"budget": None, "preset": None, "classes": None, "random_state": None, "n_jobs": None, "verbose": 0}
    own |= {"track": None, "fields": None, "class_weight": None}
    assert model.get_params() == {**own, "text__stop_words": False, "power": 3.0}
    changed = model.set_params(text={"stop_words": True}, ignore_memory=True).get_params()
    assert changed == {**own, "ignore_memory": True, "power": 3.0, "text": {"stop_words": True}}


def test_a_model_prints_as_it_was_written() -> None:
    assert repr(Laconic("nearest", power=2.0)) == "Laconic('nearest', power=2.0)"
    assert repr(Laconic(device="cpu")) == "Laconic('auto', device='cpu')"


# With scikit-learn


def test_a_clone_has_the_settings_and_nothing_learnt(fitted: Laconic) -> None:
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        check_is_fitted(fresh)
    check_is_fitted(fitted)
    assert not is_classifier(fresh)  # its targets are lists of names, which scikit-learn's classifiers do not take


def test_what_has_not_learnt_says_so(tmp_path: Path) -> None:
    model = Laconic()
    asks: list[Callable[[], Any]] = [
        lambda: model.predict("red"),
        lambda: model.score(FEW_TEXTS, FEW_LABELS),
        lambda: model.save(tmp_path / "model"),
    ]
    for ask in asks:
        with pytest.raises(NotFittedError, match=r"is not fitted yet; call fit\(texts, labels\)"):
            ask()


def test_a_grid_is_searched() -> None:
    grid = {"neighbours": np.array([1, 20]), "text__stop_words": [True, False], "power": np.logspace(0, 1, 2)}
    search = GridSearchCV(nearest(), grid, scoring=scorer("nDCG@5"), cv=2, error_score="raise")
    search.fit(TEXTS[:60], LABELS[:60])
    assert len(search.cv_results_["params"]) == 8
    assert 0 < search.best_score_ <= 100
    assert search.predict(TEST_TEXTS[:2]) == search.best_estimator_.predict(TEST_TEXTS[:2])


def test_a_grid_is_searched_with_every_metric() -> None:
    search = GridSearchCV(nearest(), {"power": [1.0, 3.0]}, scoring=Laconic.evaluate, refit="P@1", cv=2)
    search.fit(TEXTS[:60], LABELS[:60])
    assert search.best_score_ == search.cv_results_["mean_test_P@1"].max()
    assert "mean_test_PSP@5" in search.cv_results_


@pytest.mark.slow
def test_a_trained_method_is_cross_validated() -> None:
    model = Laconic("inceptionxml", **SMALL["inceptionxml"])
    assert len(cross_val_score(model, TEXTS[:40], LABELS[:40], cv=2, scoring=scorer("P@1"), error_score="raise")) == 2


def test_an_unknown_metric_is_refused_before_anything_is_trained() -> None:
    with pytest.raises(ConfigError, match=r"there is no metric 'nDCG5'; known are: P@1, .*tail R@20.*C@20"):
        scorer("nDCG5")
    assert pickle.loads(pickle.dumps(scorer("P@1")))(nearest().fit(FEW_TEXTS, FEW_LABELS), FEW_TEXTS, FEW_LABELS) == 100


# Folders and copies


def test_a_saved_model_is_the_same_model(fitted: Laconic, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    loaded = Laconic.load(str(tmp_path / "model"), device="cpu")
    assert loaded.predict(TEST_TEXTS) == fitted.predict(TEST_TEXTS)
    metrics = loaded.evaluate(TEST_TEXTS, TEST_LABELS)  # PSP needs label counts
    assert metrics == fitted.evaluate(TEST_TEXTS, TEST_LABELS)
    assert list(loaded.labels_) == list(fitted.labels_)
    assert fitted.get_params().items() <= loaded.get_params().items()
    assert Predictor.open(tmp_path / "model", device="cpu").predict(TEST_TEXTS) == fitted.predict(TEST_TEXTS)


def test_a_loaded_model_learns_again_with_its_settings(fitted: Laconic, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    again = clone(Laconic.load(tmp_path / "model", device="cpu")).fit(TEXTS, LABELS)
    assert again.model_.facts["config"] == fitted.model_.facts["config"]
    labels = [[label for label, _ in answer] for answer in again.predict(TEST_TEXTS, 1)]
    assert labels == [[label for label, _ in answer] for answer in fitted.predict(TEST_TEXTS, 1)]


def test_a_saved_model_is_not_put_where_something_else_is(fitted: Laconic, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="choose another name"):
        fitted.save(tmp_path)
    with pytest.raises(ModelError, match="not a model folder"):
        Laconic.load(tmp_path)


@pytest.fixture
def packed(fitted: Laconic) -> Laconic:
    """Return a packed copy of the model; the shared one stays as it is."""
    return copy.copy(fitted).pack(TEXTS)


def test_a_packed_model_answers_nearly_as_before(fitted: Laconic, packed: Laconic) -> None:
    assert isinstance(packed.predictor_, PackedPredictor)
    assert isinstance(fitted.predictor_, Predictor)
    for own, others in zip(packed.predict(TEST_TEXTS), fitted.predict(TEST_TEXTS), strict=True):
        assert own[0].label == others[0].label
        assert [score for _, score in own] == pytest.approx([score for _, score in others], abs=5e-3)
    plain, same = fitted.evaluate(TEST_TEXTS, TEST_LABELS), packed.evaluate(TEST_TEXTS, TEST_LABELS)
    assert same["PSP@5"] == pytest.approx(plain["PSP@5"], abs=0.5)


def test_a_packed_model_is_saved_and_loaded_with_the_model(fitted: Laconic, packed: Laconic, tmp_path: Path) -> None:
    packed.save(tmp_path / "model")
    loaded = Laconic.load(tmp_path / "model", device="cpu")
    assert isinstance(loaded.predictor_, PackedPredictor)
    assert loaded.predict(TEST_TEXTS) == packed.predict(TEST_TEXTS)
    assert loaded.get_params() == Laconic.load(tmp_path / "model" / "packed", device="cpu").get_params()
    loaded.save(tmp_path / "model")  # in its own place
    assert Laconic.load(tmp_path / "model", device="cpu").predict(TEST_TEXTS) == packed.predict(TEST_TEXTS)
    fitted.save(tmp_path / "model")
    assert isinstance(Laconic.load(tmp_path / "model", device="cpu").predictor_, Predictor)


def test_a_changed_model_is_no_longer_packed(packed: Laconic) -> None:
    fewer = packed.remove_labels(["L0"])
    assert isinstance(fewer.predictor_, Predictor)
    assert "L0" not in {label for answer in fewer.predict(TEST_TEXTS) for label, _ in answer}


def test_a_packed_folder_alone_answers_and_no_more(packed: Laconic, tmp_path: Path) -> None:
    packed.save(tmp_path / "model")
    alone = Laconic.load(tmp_path / "model" / "packed")
    check_is_fitted(alone)
    assert alone.predict(TEST_TEXTS, 3) == packed.predict(TEST_TEXTS, 3)
    assert alone.evaluate(TEST_TEXTS, TEST_LABELS) == packed.evaluate(TEST_TEXTS, TEST_LABELS)
    assert list(alone.labels_) == list(packed.labels_)
    asks: list[Callable[[], Any]] = [
        lambda: alone.save(tmp_path / "other"),
        lambda: alone.pack(),
        lambda: alone.remove_labels(["L0"]),
        lambda: alone.add_labels({"new": " ".join(TEXTS[:1])}),
        lambda: alone.update(TEXTS, LABELS),
    ]
    for ask in asks:
        with pytest.raises(ModelError, match="a packed model can only predict, not be saved or changed"):
            ask()
    assert isinstance(clone(alone).fit(TEXTS[:40], LABELS[:40]).predictor_, Predictor)


def test_copies_of_a_packed_model_answer_alike(packed: Laconic, tmp_path: Path) -> None:
    packed.save(tmp_path / "model")
    for model in (packed, Laconic.load(tmp_path / "model", device="cpu"), Laconic.load(tmp_path / "model" / "packed")):
        expected = model.predict(TEST_TEXTS, block=["L0"])
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert other.predict(TEST_TEXTS, block=["L0"]) == expected


def test_copies_answer_alike(fitted: Laconic) -> None:
    for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        assert other.predict(TEST_TEXTS) == fitted.predict(TEST_TEXTS)
        assert other.get_params() == fitted.get_params()


def test_label_counts_are_kept(fitted: Laconic) -> None:
    counts = {name: sum(name in names for names in LABELS) for name in fitted.labels_}
    assert fitted.model_.label_counts.tolist() == list(counts.values())


@pytest.mark.slow
def test_laconic_is_imported_when_it_is_asked_for() -> None:
    code = "import sys, laconic; assert not {'torch', 'numpy'} & sys.modules.keys(); print(laconic.Laconic.__name__)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "Laconic\n"
    import laconic

    with pytest.raises(AttributeError, match="module 'laconic' has no attribute 'Spartan'"):
        _ = laconic.Spartan
