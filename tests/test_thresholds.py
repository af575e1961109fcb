"""Thresholds keep what they promise, are stored with the model, and mean the same at every door."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Bool, Float
from sklearn.metrics import f1_score, precision_score, recall_score

from laconic import Laconic
from laconic.data.output import write_folder
from laconic.errors import ConfigError, DataError, ModelError
from laconic.evaluation.metrics import judge
from laconic.evaluation.metrics.sets import SetCounts, macro_f1, micro_f1
from laconic.evaluation.thresholds import Aim, Candidates, Found, Threshold, find_thresholds, reaching
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.predict.min_score import parse_min_score
from laconic.storage.model_folder import read_model, write_model
from laconic.system.sparse import csr_array
from laconic.training.run import Run
from laconic.update.model import remove_labels
from tests.planted import planted_texts
from tests.test_cli import laconic, shown_and_told

CORPUS = planted_texts(num_labels=20, num_texts=1200)


def candidates(texts: int, seed: int = 0, places: int = 6, labels: int = 12) -> Candidates:
    """Labels whose scores are true probabilities."""
    chance = np.random.default_rng(seed)
    ranked = np.stack([chance.permutation(labels)[:places] for _ in range(texts)])
    scores = -np.sort(-chance.random((texts, places)), axis=1)
    true = chance.random((texts, places)) < scores
    return Candidates(ranked, scores, true, np.bincount(ranked[true], minlength=labels))


def precision(of: Candidates, kept: Bool[np.ndarray, "n k"]) -> float:
    return float(of.true[kept].mean())


@pytest.mark.parametrize("per_label", [False, True])
@pytest.mark.parametrize("target", [0.6, 0.8, 0.9])
def test_a_precision_is_kept_on_other_texts(target: float, per_label: bool) -> None:
    found = find_thresholds(candidates(3000), Aim(target, per_label))
    others = candidates(3000, seed=1)
    assert precision(others, reaching(others, found)) == pytest.approx(target, abs=0.02)
    assert len(found.own) == (12 if per_label else 0)


def test_the_threshold_of_a_precision_is_the_lowest() -> None:
    of = candidates(500)
    found = find_thresholds(of, Aim(0.8)).score
    assert precision(of, of.scores >= found) >= 0.8
    lower = np.unique(of.scores[of.scores < found])
    assert all(precision(of, of.scores >= threshold) < 0.8 for threshold in lower)


def test_the_best_f1_is_the_best() -> None:
    of = candidates(200)

    def f1(threshold: float) -> float:
        kept = of.scores >= threshold
        return float(2 * of.true[kept].sum() / (kept.sum() + of.positives.sum()))

    found = find_thresholds(of, Aim()).score
    assert f1(found) == max(f1(threshold) for threshold in np.unique(of.scores))


def test_equal_scores_are_kept_or_left_out_together() -> None:
    scores = np.repeat([0.9, 0.5], 30)[:, None]
    true = np.array([True] * 29 + [False] + [True] * 20 + [False] * 10)[:, None]
    labels = np.zeros((60, 1), dtype=np.int64)
    found = find_thresholds(Candidates(labels, scores, true, np.array([49])), Aim(0.9)).score
    assert 0.5 < found <= 0.9


def test_labels_that_differ_get_thresholds_that_differ() -> None:
    """Half of the labels are true less often than their scores say."""
    of = candidates(6000)
    true = of.true & ((of.labels % 2 == 0) | (np.random.default_rng(5).random(of.true.shape) < 0.7))
    of = of._replace(true=true, positives=np.bincount(of.labels[true], minlength=12))
    own = find_thresholds(of, Aim(0.6, per_label=True)).own
    assert max(own[label] for label in range(0, 12, 2)) < min(own[label] for label in range(1, 12, 2))


def test_rare_labels_share_one_threshold() -> None:
    of = candidates(120, labels=12)
    assert find_thresholds(of, Aim(0.7, per_label=True)).own.keys() == set(np.flatnonzero(of.positives >= 50))


def test_what_cannot_be_reached_is_said() -> None:
    of = candidates(100)._replace(true=np.zeros((100, 6), dtype=bool))
    with pytest.raises(DataError, match=r"no threshold reaches precision 0.9 on 100 texts: the best is 0.000"):
        find_thresholds(of, Aim(0.9))
    with pytest.raises(DataError, match="too few labels are predicted"):
        find_thresholds(candidates(2), Aim(0.9))
    with pytest.raises(ConfigError, match=r"precision must be between 0 and 1, such as 0\.9, but is 90"):
        find_thresholds(of, Aim(90))


def judged_sets(threshold: float) -> tuple[SetCounts, Float[np.ndarray, "n l"], Float[np.ndarray, "n l"]]:
    of = candidates(80, places=5, labels=9)
    truth = np.random.default_rng(3).random((80, 9)) < 0.3
    judged = judge(of.labels, csr_array(truth.astype(np.float32)))
    kept = of.scores >= threshold
    predicted = np.zeros_like(truth)
    predicted[np.nonzero(kept)[0], of.labels[kept]] = True
    return SetCounts.of(judged, kept), truth, predicted


def test_set_figures_are_those_of_scikit_learn() -> None:
    counts, truth, predicted = judged_sets(0.4)
    for average, found in (("micro", counts.micro()), ("macro", counts.macro())):
        expected = [
            100 * measure(truth, predicted, average=average, zero_division=0)
            for measure in (precision_score, recall_score, f1_score)
        ]
        assert found == pytest.approx(expected)


def test_f1_at_k_takes_the_first_labels() -> None:
    of = candidates(50, places=4, labels=7)
    truth = np.random.default_rng(3).random((50, 7)) < 0.4
    judged = judge(of.labels, csr_array(truth.astype(np.float32)))
    predicted = np.zeros_like(truth)
    np.put_along_axis(predicted, of.labels[:, :2], True, axis=1)
    assert micro_f1(judged, [2])["micro F1@2"].percent() == pytest.approx(
        100 * f1_score(truth, predicted, average="micro")
    )
    assert macro_f1(judged, [2])["macro F1@2"] == pytest.approx(100 * f1_score(truth, predicted, average="macro"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    write_model(train_model(CORPUS, "nearest", config_of("nearest", {}), Run.unkept()), place / "model")
    write_folder(CORPUS, place / "data")
    laconic("pack", place / "model")
    return place


def test_a_threshold_is_stored_and_used_at_every_door(folder: Path, tmp_path: Path) -> None:
    model, texts = tmp_path / "model", list(CORPUS.split("test").texts or ())[:40]
    said = laconic("threshold", folder / "model", folder / "data", "--precision", 0.8, "--out", model)
    assert "The threshold for precision 0.8 is 0." in said
    stored = Threshold.of_facts(read_model(model).facts)
    assert stored is not None
    assert stored.k == 20
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    lines = laconic("predict", model, tmp_path / "texts.txt", "--min-score", "stored", "--json").splitlines()
    number = laconic("predict", model, tmp_path / "texts.txt", "--threshold", stored.score, "-k", 20, "--json")
    assert number.splitlines() == lines
    found = [[one["label"] for one in json.loads(line)["predictions"]] for line in lines]
    opened = Laconic.load(model)
    assert opened.predictor_.packed is not None
    assert opened.threshold_ == stored
    assert opened.predict_labels(texts) == found
    assert [[one.label for one in own] for own in opened.predict(texts, min_score="stored")] == found
    assert "stored threshold" in laconic("inspect", model)
    shown = laconic("evaluate", model, folder / "data")
    assert f"At threshold {stored.score:.3g}: micro F1" in shown


def test_a_change_ends_a_threshold(folder: Path, tmp_path: Path) -> None:
    laconic("threshold", folder / "model", folder / "data", "--f1", "--out", tmp_path / "model")
    model = read_model(tmp_path / "model")
    assert Threshold.of_facts(model.facts) is not None
    assert Threshold.of_facts(remove_labels(model, ["L3"]).facts) is None
    laconic("calibrate", tmp_path / "model", folder / "data")
    assert Threshold.of_facts(read_model(tmp_path / "model").facts) is None


def test_without_a_stored_threshold_the_remedy_is_named(folder: Path) -> None:
    said = laconic("predict", folder / "model", "--text", "w1", "--min-score", "stored", code=2)
    assert "no stored threshold; `laconic threshold MODEL DATA`" in said
    assert "must be a number or 'stored', but is 'high'" in laconic(
        "predict", folder / "model", "--text", "w1", "--min-score", "high", code=2
    )
    with pytest.raises(ModelError, match="no stored threshold"):
        Laconic.load(folder / "model").predict("w1", min_score="stored")
    assert parse_min_score("") is None


def test_training_texts_are_refused(folder: Path) -> None:
    said = laconic("threshold", folder / "model", folder / "data", "--split", "train", code=2)
    assert "give texts that the model was not trained on" in said


def test_raw_scores_are_said_to_be_raw(folder: Path, tmp_path: Path) -> None:
    config = config_of("nearest", {"calibration": 0.0})
    write_model(train_model(CORPUS, "nearest", config, Run.unkept()), tmp_path / "raw")
    for verb, *more in (("evaluate", folder / "data"), ("predict", "--text", "w1", "--min-score", 0.5)):
        _, told = shown_and_told(verb, tmp_path / "raw", *more)
        assert "scores that are not probabilities: no texts were held out of all of its training" in told
        assert f"`laconic calibrate {tmp_path / 'raw'} DATA`" in told
        _, told = shown_and_told(verb, folder / "model", *more)
        assert "not probabilities" not in told


def test_a_curve_of_precision_and_recall_ends_with_all_labels(folder: Path) -> None:
    predictor = Laconic.load(folder / "model").predictor_
    evaluation = predictor.evaluate(CORPUS, "test")
    assert evaluation.curve is not None
    assert evaluation.at_threshold is not None
    assert (np.diff(evaluation.curve.thresholds) < 0).all()
    assert (np.diff(evaluation.curve.recall) >= 0).all()
    assert evaluation.curve.recall[-1] == pytest.approx(evaluation.metrics["R@20"], abs=5)
    assert evaluation.as_json()["at_threshold"]["micro"]["f1"] == evaluation.at_threshold.micro.f1


def test_places_without_a_label_never_reach_a_threshold() -> None:
    of = candidates(4)
    none = of._replace(labels=np.full_like(of.labels, -1))
    assert not reaching(none, Found(0.0, {})).any()


def test_a_damaged_threshold_is_refused(folder: Path) -> None:
    model = read_model(folder / "model")
    with pytest.raises(ModelError, match=r"the threshold in model\.json must have an aim"):
        Threshold.of_facts({**model.facts, "threshold": {"score": "high"}})
