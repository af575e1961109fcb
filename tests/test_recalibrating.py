"""A changed model never answers with a curve that was fitted on another one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laconic import Laconic
from laconic.data.corpus import Corpus, Labels
from laconic.data.formats.assemble import LabelRow, Row, corpus_of
from laconic.data.output import write_folder
from laconic.errors import DataError
from laconic.evaluation.calibration import Calibration
from laconic.export.pack import pack
from laconic.methods.registry import config_of
from laconic.methods.restore import with_settings
from laconic.methods.train import train_model
from laconic.packed.folder import of_version, open_packed, write_packed
from laconic.predict.load import Speed
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.predictor import Predictor
from laconic.serve.model import Served
from laconic.serve.openapi import facts_of
from laconic.serve.settings import Serving
from laconic.storage.card import model_card
from laconic.storage.manifest import version_of
from laconic.storage.model_folder import SavedModel, read_model, write_model
from laconic.training.run import Run
from laconic.update.model import add_labels, calibrate, remove_labels, update
from laconic.update.rankers import Config
from tests.methods.test_calibrating import RERANKED
from tests.planted import planted_texts, words_of
from tests.test_cli import laconic, shown_and_told

CORPUS = planted_texts(num_labels=20, num_texts=1200)
TEXTS = list(CORPUS.split("test").texts or ())[:20]
NEW = Labels(names=["both"], texts=[" ".join(words_of(1)[:2] + words_of(4)[:2])])
GENTLE = Config(epochs=1, learning_rate=1e-4)


def noisy(num_texts: int, seed: int = 5) -> Corpus:
    """Texts of which every second one has a label drawn at random, so that a sure score is right half of the time."""
    generator, split = np.random.default_rng(seed), planted_texts(num_labels=20, num_texts=num_texts, seed=seed)
    names, train = split.labels.names, split.split("train")
    rows = []
    for at, text in enumerate(train.texts or ()):
        own = [names[label] for label in train.labels[[at]].indices]
        rows.append(Row(str(at), text, own if generator.random() < 0.5 else [names[generator.integers(20)]]))
    return corpus_of({"train": rows}, [LabelRow("planted", name, None) for name in names], source="noisy")


def as_test(corpus: Corpus) -> Corpus:
    return replace(corpus, splits={"test": corpus.split("train")})


CHANGES: dict[str, Callable[[SavedModel], SavedModel]] = {
    "add-labels": lambda model: add_labels(model, NEW),
    "remove-labels": lambda model: remove_labels(model, ["L3"]),
    "update": lambda model: update(model, noisy(100), GENTLE, Run.unkept()),  # ten texts are held out
}


@pytest.fixture(scope="module")
def model() -> SavedModel:
    return train_model(CORPUS, "inceptionxml", config_of("inceptionxml", RERANKED), Run.unkept("cpu"))


@pytest.fixture(scope="module")
def folder(model: SavedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calibrated") / "model"
    write_model(model, path)
    return path


def raw(model: SavedModel) -> SavedModel:
    return replace(model, facts={name: fact for name, fact in model.facts.items() if name != "calibration"})


def ece(model: SavedModel, corpus: Corpus) -> float:
    return Predictor(model, "cpu").evaluate(corpus, "test").metrics["ECE@5"]


@pytest.mark.parametrize("verb", CHANGES)
def test_a_changed_model_answers_raw_scores_and_says_so(verb: str, model: SavedModel, tmp_path: Path) -> None:
    assert Calibration.of_facts(model.facts) is not None
    changed = CHANGES[verb](model)
    write_model(changed, tmp_path / "model")
    reopened = read_model(tmp_path / "model")
    for one in (changed, reopened):
        assert Calibration.of_facts(one.facts) is None
        assert Predictor(one, "cpu").predict(TEXTS) == Predictor(raw(changed), "cpu").predict(TEXTS)
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"| scores | not calibrated: {verb} changed the model" in card
    assert "probabilities" not in card
    assert verb in json.loads((tmp_path / "model" / "model.json").read_text())["not_calibrated"]


@pytest.mark.parametrize("verb", CHANGES)
def test_what_is_packed_of_a_changed_model_and_served_is_not_calibrated(
    verb: str, model: SavedModel, tmp_path: Path
) -> None:
    for one, calibrated in ((model, True), (CHANGES[verb](model), False)):
        folder = tmp_path / f"{calibrated}"
        write_model(one, folder)
        write_packed(of_version(pack(one), version_of(folder)), folder / "packed")
        assert PackedPredictor(open_packed(folder / "packed")).calibrated is calibrated
        said = facts_of(Served(folder, Speed(threads=1)).now, Serving())
        assert said.calibrated is calibrated
        assert ("not calibrated" in (said.card or "")) is not calibrated
        shown = laconic("inspect", folder / "packed")
        assert ("not calibrated" in shown) is not calibrated


def test_an_update_of_enough_texts_is_calibrated_on_those_held_out(model: SavedModel, tmp_path: Path) -> None:
    changed = update(model, noisy(1500), Config(epochs=1, learning_rate=1e-4, validation=0.2), Run.unkept())
    assert changed.facts["calibration"]["texts"] == 300
    assert "not_calibrated" not in changed.facts
    write_model(changed, tmp_path / "model")
    assert Calibration.of_facts(read_model(tmp_path / "model").facts) == Calibration.of_facts(changed.facts)
    stale = replace(changed, facts={**changed.facts, "calibration": model.facts["calibration"]})
    assert Calibration.of_facts(changed.facts) != Calibration.of_facts(stale.facts)
    others = as_test(noisy(600, seed=6))
    assert ece(changed, others) < min(5, ece(stale, others) / 2)


def test_texts_that_were_learnt_before_calibrate_nothing(model: SavedModel) -> None:
    again = replace(CORPUS, splits={"train": CORPUS.split("train")})
    changed = update(model, again, Config(epochs=1, validation=0.2), Run.unkept())
    assert Calibration.of_facts(changed.facts) is None
    assert "seen in training" in changed.facts["not_calibrated"]


@pytest.mark.parametrize("verb", CHANGES)
def test_new_texts_calibrate_a_changed_model(verb: str, model: SavedModel, tmp_path: Path) -> None:
    changed = CHANGES[verb](model)
    found = calibrate(changed, as_test(noisy(600, seed=7)), "test")
    assert found.facts["calibration"]["texts"] == 600
    assert "not_calibrated" not in found.facts
    stale = replace(changed, facts={**changed.facts, "calibration": model.facts["calibration"]})
    others = as_test(noisy(600, seed=6))
    assert ece(found, others) < min(8, ece(stale, others))
    write_model(found, tmp_path / "model")
    assert Calibration.of_facts(read_model(tmp_path / "model").facts) == Calibration.of_facts(found.facts)
    assert "probabilities, calibrated on 600 texts" in (tmp_path / "model" / "README.md").read_text()
    assert Calibration.of_facts(remove_labels(found, ["L5"]).facts) is None


def test_too_few_texts_and_those_of_the_training_are_refused(model: SavedModel) -> None:
    with pytest.raises(DataError, match=r"40 texts are too few .*at least 50 are needed"):
        calibrate(model, as_test(noisy(40)), "test")
    with pytest.raises(DataError, match="all of them seen in training; give texts that the model was not trained on"):
        calibrate(model, CORPUS, "train")


def test_a_curve_that_an_earlier_version_kept_through_a_change_is_not_applied(
    model: SavedModel, tmp_path: Path
) -> None:
    changed = remove_labels(model, ["L3"])
    facts = {name: fact for name, fact in changed.facts.items() if name != "not_calibrated"}
    write_model(replace(changed, facts={**facts, "calibration": model.facts["calibration"]}), tmp_path / "model")
    opened = read_model(tmp_path / "model")
    assert Calibration.of_facts(opened.facts) is None
    assert opened.facts["not_calibrated"] == changed.facts["not_calibrated"]
    assert not PackedPredictor(pack(opened)).calibrated


def test_a_model_without_any_word_on_calibration_still_opens(model: SavedModel, tmp_path: Path) -> None:
    write_model(raw(model), tmp_path / "model")
    opened = read_model(tmp_path / "model")
    assert "not_calibrated" not in opened.facts
    assert "| scores | not calibrated |" in model_card(opened.facts)
    assert Predictor(opened, "cpu").predict(TEXTS) == Predictor(raw(model), "cpu").predict(TEXTS)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"validation": 0.0}, "no texts were held out of all of its training"),
        ({"validation": 0.04}, "48 texts are too few (at least 50 are needed)"),
    ],
)
def test_a_model_that_never_was_calibrated_says_why(settings: dict[str, Any], why: str) -> None:
    config = config_of("inceptionxml", {"encoder": "bag", "epochs": 1, "embedding": 8, **settings})
    facts = train_model(CORPUS, "inceptionxml", config, Run.unkept("cpu")).facts
    assert facts["not_calibrated"] == why
    assert f"| scores | not calibrated: {why} |" in model_card(facts)


def test_overruled_settings_are_named_as_the_reason(model: SavedModel) -> None:
    assert with_settings(model, {"alpha": 0.3}).facts["not_calibrated"] == "settings were changed after training"


# The doors


def test_the_command_line_says_that_a_calibration_is_gone_and_how_it_comes_back(folder: Path, tmp_path: Path) -> None:
    _, told = shown_and_told("remove-labels", folder, "--label", "L3", "--out", tmp_path / "fewer")
    assert "no longer calibrated" in told
    assert f"laconic calibrate {tmp_path / 'fewer'} DATA" in told
    _, told = shown_and_told("remove-labels", tmp_path / "fewer", "--label", "L4")
    assert "no longer calibrated" not in told
    write_folder(as_test(noisy(400)), tmp_path / "data")
    said = laconic("calibrate", tmp_path / "fewer", tmp_path / "data")
    assert "calibrated on 400 texts (isotonic)" in said
    assert "calibrated on 400 texts" in laconic("inspect", tmp_path / "fewer")
    write_folder(as_test(noisy(40)), tmp_path / "few")
    assert "too few" in laconic("calibrate", tmp_path / "fewer", tmp_path / "few", code=2)
    assert "calibrated on 400 texts" in laconic("inspect", tmp_path / "fewer")


def test_the_command_line_says_what_an_update_was_calibrated_on(folder: Path, tmp_path: Path) -> None:
    write_folder(noisy(600), tmp_path / "data")
    command = ["update", folder, tmp_path / "data", "--epochs", 1, "--out", tmp_path / "updated"]
    said, told = shown_and_told(*command)
    assert "calibrated on 60 texts (platt)" in said
    assert "no longer calibrated" not in told
    _, told = shown_and_told(*command, "--set", "validation=0.0")
    assert "no longer calibrated" in told


def test_the_valid_split_calibrates_where_there_is_one(folder: Path, tmp_path: Path) -> None:
    both = replace(CORPUS, splits={"valid": noisy(100).split("train"), "test": CORPUS.split("test")})
    write_folder(both, tmp_path / "data")
    said = laconic("calibrate", folder, tmp_path / "data", "--out", tmp_path / "one")
    assert "calibrated on 100 texts (platt)" in said
    said = laconic("calibrate", folder, tmp_path / "data", "--split", "test", "--out", tmp_path / "one")
    assert "calibrated on 300 texts (isotonic)" in said


def test_an_estimator_is_calibrated_anew(folder: Path) -> None:
    estimator = Laconic.load(folder, device="cpu").remove_labels(["L3"])
    assert Calibration.of_facts(estimator.model_.facts) is None
    split = noisy(200).split("train")
    labels = [[CORPUS.labels.names[label] for label in split.labels[[at]].indices] for at in range(len(split))]
    estimator.calibrate(split.texts or [], labels)
    assert estimator.model_.facts["calibration"]["texts"] == 200
    first = estimator.predict(TEXTS[0], k=1)[0]
    assert first == Predictor(estimator.model_, "cpu").predict(TEXTS[:1], 1)[0][0]
