"""What `fit` takes for labels, what cross-validation needs, and the answers that users of scikit-learn expect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_matrix, csr_array
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MultiLabelBinarizer

from laconic import Laconic
from laconic.errors import ConfigError, DataError, ModelError
from tests.planted import planted_texts
from tests.test_estimator import FEW_LABELS, FEW_TEXTS, LABELS, TEST_LABELS, TEST_TEXTS, TEXTS, lists_of, nearest
from tests.test_estimator import unchecked as bare

NAMES = ["car", "house", "red"]
MATRIX = np.array([[1, 0, 1], [1, 0, 0], [0, 1, 0]])


class Dummies:
    """As much of a pandas DataFrame of 0 and 1 as is asked of one."""

    ndim, columns = 2, NAMES

    def to_numpy(self) -> Any:
        return MATRIX.astype(bool)

    def __iter__(self) -> Any:
        return iter(self.columns)


# Labels


@pytest.mark.parametrize(
    "labels",
    [MATRIX, MATRIX.astype(bool), MATRIX.astype(float), csr_array(MATRIX), csc_matrix(MATRIX), coo_array(MATRIX)],
    ids=["int", "bool", "float", "csr", "csc", "coo"],
)
def test_a_matrix_of_labels_is_its_lists_of_names(labels: Any) -> None:
    model = Laconic("nearest", **nearest().settings, classes=np.array(NAMES)).fit(FEW_TEXTS, labels)
    assert list(model.labels_) == NAMES  # in the order of its columns
    lists = nearest().fit(FEW_TEXTS, FEW_LABELS)
    for one, other in zip(model.predict(FEW_TEXTS), lists.predict(FEW_TEXTS), strict=True):
        assert dict(one) == pytest.approx(dict(other))
    assert model.evaluate(FEW_TEXTS, labels)["R@5"] == model.evaluate(FEW_TEXTS, FEW_LABELS)["R@5"] == 100


def test_columns_without_names_are_numbers() -> None:
    model = nearest().fit(FEW_TEXTS, MATRIX)
    assert list(model.labels_) == ["0", "1", "2"]
    scores = model.decision_function(FEW_TEXTS, k=None).toarray()
    assert scores.shape == MATRIX.shape
    assert (scores[MATRIX == 1] > 0).all()


def test_a_column_without_a_text_is_a_label_still() -> None:
    model = nearest().fit(FEW_TEXTS, np.hstack([MATRIX, np.zeros((3, 1), dtype=int)]))
    assert list(model.classes_) == ["0", "1", "2", "3"]


def test_a_loaded_model_names_columns_by_its_labels(tmp_path: Path) -> None:
    Laconic("nearest", classes=NAMES).fit(FEW_TEXTS, MATRIX).save(tmp_path / "model")
    loaded = Laconic.load(tmp_path / "model", device="cpu")
    assert loaded.evaluate(FEW_TEXTS, MATRIX)["R@5"] == 100
    with pytest.raises(DataError, match="labels is a matrix of 2 columns, but classes has 3 names"):
        loaded.evaluate(FEW_TEXTS, MATRIX[:, :2])


def test_a_frame_of_indicators_names_its_columns() -> None:
    assert list(bare(Laconic.fit)(nearest(), FEW_TEXTS, Dummies()).labels_) == NAMES


def test_the_matrix_of_the_user_stays_as_it_is() -> None:
    stored = csr_array((np.array([1, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([0, 2, 3, 4])), shape=(3, 2))
    nearest().fit(FEW_TEXTS, stored)
    assert stored.nnz == 4


def test_label_texts_go_with_a_matrix() -> None:
    model = Laconic("nearest", classes=NAMES).fit(FEW_TEXTS, MATRIX, {"boat": "swims on water", "red": "like blood"})
    assert list(model.labels_) == [*NAMES, "boat"]
    assert model.predict("water", k=1)[0].label == "boat"
    assert model.predict("blood", k=1)[0].label == "red"


@pytest.mark.parametrize("labels", [["car", "car", "house"], np.array(["car", "car", "house"]), [7, 7, 9]])
def test_one_label_of_each_text_is_a_flat_list(labels: Any) -> None:
    model = nearest().fit(FEW_TEXTS, labels)
    assert list(model.labels_) == [str(name) for name in dict.fromkeys(list(labels))]
    assert model.predict(FEW_TEXTS) == nearest().fit(FEW_TEXTS, [[str(name)] for name in labels]).predict(FEW_TEXTS)
    assert model.score(FEW_TEXTS, labels) == 1


def test_names_that_look_like_several_in_one_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    model = nearest().fit(FEW_TEXTS, ["red; car", "car", "red; house"])
    assert model.labels_ == ["red; car", "car", "red; house"]
    (warning,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert "2 of 3 look like several in one, such as 'red; car'" in warning
    assert "str.split('; ')" in warning


@pytest.mark.parametrize("labels", [["car", "car", "red; house"], ["Home, Garden", "Home, Garden", "Food, Drink"]])
def test_signs_in_few_names_or_inside_of_names_are_not_warned_of(
    labels: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    nearest().fit(FEW_TEXTS, labels)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_equally_many_labels_of_each_text_may_be_an_array_of_names() -> None:
    rows = np.array([["red", "car"], ["blue", "car"], ["green", "house"]])
    assert nearest().fit(FEW_TEXTS, rows).labels_ == ["red", "car", "blue", "green", "house"]


def test_series_of_lists_and_of_names_are_read() -> None:
    pandas = pytest.importorskip("pandas")
    for labels in (FEW_LABELS, ["car", "car", "house"]):
        series = pandas.Series(labels, index=[5, 1, 9])
        assert nearest().fit(pandas.Series(FEW_TEXTS), series).labels_ == nearest().fit(FEW_TEXTS, labels).labels_
    frame = pandas.DataFrame(MATRIX, columns=NAMES)
    assert list(nearest().fit(FEW_TEXTS, frame).labels_) == NAMES


# Cross-validation


BINARIZER = MultiLabelBinarizer(sparse_output=True)
FORMS: dict[str, Any] = {
    "lists": LABELS[:60],
    "sets": [set(names) for names in LABELS[:60]],
    "matrix": BINARIZER.fit_transform(LABELS[:60]).toarray(),
    "names": [names[0] for names in LABELS[:60]],
}


@pytest.mark.parametrize("form", FORMS)
def test_cross_validation_returns_numbers_for_every_form_of_labels(form: str) -> None:
    scores = cross_val_score(nearest(), TEXTS[:60], FORMS[form], error_score="raise")
    assert scores.shape == (5,)
    assert ((scores > 0) & (scores <= 1)).all()


# cross_val_score itself refuses sparse y; grids take it.
@pytest.mark.parametrize("labels", [LABELS[:60], BINARIZER.transform(LABELS[:60])], ids=["lists", "sparse"])
def test_a_grid_is_searched_without_a_scorer(labels: Any) -> None:
    model = nearest().set_params(classes=BINARIZER.classes_)
    search = GridSearchCV(model, {"neighbours": [1, 20]}, cv=2, error_score="raise").fit(TEXTS[:60], labels)
    assert 0 < search.best_score_ <= 1
    assert (
        search.score(TEST_TEXTS, TEST_LABELS) == search.best_estimator_.evaluate(TEST_TEXTS, TEST_LABELS)["P@1"] / 100
    )


def test_learning_curves_and_predictions_of_folds() -> None:
    sizes, train, test = learning_curve(nearest(), TEXTS[:60], LABELS[:60], train_sizes=[10, 20], cv=2)
    assert sizes.tolist() == [10, 20]
    assert train.shape == test.shape == (2, 2)
    assert len(cross_val_predict(nearest(), TEXTS[:20], LABELS[:20], cv=2)) == 20


def test_a_pipeline_sets_parameters_inside() -> None:
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(lower, nearest()).set_params(laconic__text__stop_words=False, laconic__neighbours=3)
    assert pipeline.fit([text.upper() for text in FEW_TEXTS], FEW_LABELS).score(FEW_TEXTS, FEW_LABELS) == 1
    assert pipeline[-1].settings == {"neighbours": 3, "text__stop_words": False}


def test_score_is_accuracy_where_texts_have_one_label() -> None:
    model, truth = nearest().fit(TEXTS, [names[0] for names in LABELS]), [names[0] for names in TEST_LABELS]
    right = [answer[0].label == name for answer, name in zip(model.predict(TEST_TEXTS, 1), truth, strict=True)]
    assert model.score(TEST_TEXTS, truth) == pytest.approx(np.mean(right))


def test_it_is_an_estimator_of_scikit_learn() -> None:
    assert isinstance(Laconic(), BaseEstimator)
    bundle = nearest()._repr_mimebundle_(include=None, exclude=None)
    assert bundle["text/plain"] == "Laconic('nearest', neighbours=20)"
    assert "not fitted" in bundle["text/html"]


# Parameters


def test_names_of_classes_are_cloned_and_printed_short() -> None:
    model = Laconic("nearest", classes=np.array([f"L{number}" for number in range(99)]))
    assert clone(model).classes.tolist() == model.classes.tolist()
    assert len(repr(model)) < 100


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("nearest", {"neighbors": 3}, "there is no setting 'neighbors'; did you mean 'neighbours'"),
        (
            "nearest",
            {"text__stopwords": True},
            r"there is no setting 'text\.stopwords'; did you mean 'text\.stop_words'",
        ),
        ("nearest", {"stop_words": True}, r"there is no setting 'stop_words'; did you mean 'text\.stop_words'"),
        ("nearest", {"method": "trees", "neighbours": 3}, "there is no setting 'neighbours'"),
        ("inceptionxml", {"zzz": 3}, "there is no setting 'zzz'; `laconic settings METHOD` lists those of a method"),
        ("auto", {"epoch": 3}, "there is no setting 'epoch'; did you mean 'epochs'"),
        ("auto", {"zzz": 3}, "there is no setting 'zzz'"),
    ],
)
def test_unknown_names_are_not_set(method: str, params: dict[str, Any], message: str) -> None:
    model = Laconic(method)
    with pytest.raises(ConfigError, match=message):
        model.set_params(device="cpu", **params)
    assert repr(model) == f"Laconic({method!r})"


def test_settings_of_any_method_can_be_set_before_one_is_chosen() -> None:
    assert Laconic().set_params(epochs=3, neighbours=2).settings == {"epochs": 3, "neighbours": 2}


def test_a_preset_is_read_and_settings_override_it(tmp_path: Path) -> None:
    preset = tmp_path / "mine.toml"
    preset.write_text("neighbours = 7\npower = 2.0\n")
    model = Laconic("nearest", preset=str(preset), power=3.0).fit(FEW_TEXTS, FEW_LABELS)
    config = model.model_.facts["config"]
    assert (config["neighbours"], config["power"]) == (7, 3.0)
    with pytest.raises(ConfigError, match="for nearest, nor such a file; its settings suit any machine"):
        Laconic("nearest", preset="desktop").fit(FEW_TEXTS, FEW_LABELS)
    with pytest.raises(ConfigError, match="preset 'laptop' is for a named method"):
        Laconic(preset="laptop").fit(FEW_TEXTS, FEW_LABELS)


def test_a_budget_chooses_the_method(caplog: pytest.LogCaptureFixture) -> None:
    others = planted_texts(seed=5)
    texts, labels = lists_of(others, others.split("train"))
    many = [f"{text} {number}" for number in range(8) for text in texts]
    with caplog.at_level("INFO", logger="laconic"):
        model = Laconic(budget="0.05s", device="cpu").fit(many, labels * 8)
    assert model.model_.facts["method"] == "nearest"
    with pytest.raises(ConfigError, match="budget chooses a method, but 'nearest' is named"):
        Laconic("nearest", budget="1m").fit(FEW_TEXTS, FEW_LABELS)
    with pytest.raises(ConfigError, match="a budget must be a time above 0"):
        Laconic(budget="soon").fit(FEW_TEXTS, FEW_LABELS)


# Answers


def test_labels_below_a_score_are_left_out() -> None:
    model = nearest().fit(TEXTS, LABELS)
    answers = model.predict(TEST_TEXTS, k=5)
    least = answers[0][1].score
    expected = [[one for one in answer if one.score >= least] for answer in answers]
    assert model.predict(TEST_TEXTS, k=5, min_score=least) == expected != answers
    assert model.predict(TEST_TEXTS[0], min_score=least) == expected[0]


def test_labels_at_a_threshold_are_names_alone() -> None:
    model = nearest().set_params(calibration=0.0).fit(TEXTS, LABELS)
    answers = model.predict(TEST_TEXTS, 100, min_score=0.3)
    assert model.predict_labels(TEST_TEXTS, 0.3) == [[label for label, _ in answer] for answer in answers]
    assert model.predict_labels(TEST_TEXTS[0], 0.3) == [label for label, _ in answers[0]]
    with pytest.raises(ModelError, match=r"not probabilities.*predict_labels\(texts, threshold=\.\.\.\)"):
        model.predict_labels(TEST_TEXTS)
    others = planted_texts(seed=5)
    model.calibrate(*lists_of(others, others.split("train")))
    assert model.predict_labels(TEST_TEXTS) == model.predict_labels(TEST_TEXTS, 0.5)


def test_all_labels_can_have_scores() -> None:
    model = nearest().fit(TEXTS, LABELS)
    assert model.decision_function(TEST_TEXTS[:2], k=None).nnz == 2 * len(model.classes_)


def test_a_packed_model_explains_its_labels_by_words_and_kept_texts() -> None:
    model = nearest().fit(FEW_TEXTS, FEW_LABELS)
    with pytest.raises(ModelError, match=r"only a packed model explains its labels; call pack\(texts\) first"):
        model.explain("green house")
    best = model.pack(FEW_TEXTS).explain("green house", k=1)
    assert [one.label for one in best] == ["house"]
    assert {one.word for one in best[0].words} == {"green", "house"}
    assert not best[0].texts
    best = model.pack(FEW_TEXTS, FEW_LABELS, keep_texts=True).explain("green house", k=1)
    assert [near.text for near in best[0].texts] == ["green house"]
    with pytest.raises(DataError, match="labels are missing"):
        model.pack(FEW_TEXTS, keep_texts=True)
