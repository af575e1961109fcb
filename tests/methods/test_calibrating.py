"""Scores of a finished model, calibrated on texts that it has not seen, and on no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from laconic.data.corpus import Corpus
from laconic.data.prepare import prepare
from laconic.data.vocabulary import bags
from laconic.errors import ModelError
from laconic.evaluation.calibration import Calibration
from laconic.evaluation.evaluate import rank_all
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_config, restore_ranker, with_settings
from laconic.methods.result import Trained
from laconic.methods.train import train_model
from laconic.methods.validation import held_out_of
from laconic.methods.wrappers import calibrate as calibrating
from laconic.methods.wrappers.calibrate import learnt_calibration
from laconic.models.fusion.ranker import FusedRanker
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel, read_model, write_model
from laconic.training.run import Run
from laconic.types import UNKNOWN
from tests.planted import planted_texts
from tests.variants import some_slow

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {
    "epochs": 3,
    "batch_size": 32,
    "embedding": 16,
    "length": 6,
    "learning_rate": 0.02,
    "validation": 0.25,
    "encoder": "bag",
}
# Divided by the row's largest, scores are no probabilities: the first label always has about 1.
RERANKED = {**SMALL, "reranker": {"epochs": 1, "embedding": 16, "alpha": 0.5}}
CORPUS = planted_texts(num_labels=20, num_texts=1200)
TEXTS = list(CORPUS.split("test").texts or ())


def trained(
    settings: dict[str, Any], corpus: Corpus = CORPUS, method: str = "inceptionxml", members: int = 1
) -> SavedModel:
    return train_model(corpus, method, config_of(method, settings), Run.unkept("cpu"), members)


def with_validation(corpus: Corpus, texts: int) -> Corpus:
    """The last training texts are a validation split that came with the data."""
    split = corpus.split("train")
    parts = {"train": slice(0, -texts), "valid": slice(-texts, None)}
    splits = {
        name: replace(split, labels=split.labels[at], texts=(split.texts or [])[at]) for name, at in parts.items()
    }
    return replace(corpus, splits={**splits, "test": corpus.split("test")})


@pytest.fixture(scope="module")
def model() -> SavedModel:
    return trained(RERANKED)


def test_scores_are_nearer_to_the_truth_than_they_were(model: SavedModel) -> None:
    assert (model.facts["calibration"]["how"], model.facts["calibration"]["texts"]) == ("isotonic", 300)
    figures = Predictor(model, "cpu").evaluate(CORPUS, "test").metrics
    assert figures["raw ECE@5"] > 20
    assert figures["ECE@5"] < 8


def test_answers_are_the_same_but_for_their_scores(model: SavedModel) -> None:
    calibration = Calibration.of_facts(model.facts)
    assert calibration is not None
    raw = replace(model, facts={name: fact for name, fact in model.facts.items() if name != "calibration"})
    for more in ({}, {"block": ["L0"]}, {"allow": ["L3", "L4"]}):
        calibrated, plain = (Predictor(one, "cpu").predict(TEXTS, k=8, **more) for one in (model, raw))
        for own, other in zip(calibrated, plain, strict=True):
            assert [label for label, _ in own] == [label for label, _ in other]
            expected = calibration.apply(np.array([score for _, score in other]))
            assert [score for _, score in own] == expected.tolist()


def test_it_is_learnt_on_the_texts_that_were_held_out(model: SavedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(calibrating, "rank_all", lambda ranker, rows, k: seen.append(rows) or rank_all(ranker, rows, k))
    config = restore_config(model)
    data, _ = prepare(CORPUS, config.text, config.vocabulary)
    found = learnt_calibration(held_out_of(Trained(restore_ranker(model, CPU), config), data, one_split=True))
    assert found["calibration"]["how"] == "isotonic"
    assert Calibration.of_facts(found) == Calibration.of_facts(model.facts)
    assert (seen[0] != data.split(config.validation, config.seed)[1].inputs).nnz == 0


def test_held_out_texts_are_read_as_new_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that no learnt text has is unknown in them, as it is in a text that comes later."""
    split = CORPUS.split("train")
    texts = [f"{text} own{at}x" for at, text in enumerate(split.texts or ())]
    corpus = replace(CORPUS, splits={"train": replace(split, texts=texts)})
    seen = []
    monkeypatch.setattr(calibrating, "rank_all", lambda ranker, rows, k: seen.append(rows) or rank_all(ranker, rows, k))
    model = trained({"validation": 0.25}, corpus, "trees")
    config = restore_config(model)
    data, tokenizer = prepare(corpus, config.text, config.vocabulary)
    held = data.split(config.validation, config.seed)[1]
    assert tokenizer is not None
    own = {id for word, id in tokenizer.vocabulary.ids.items() if word.startswith("own")}
    assert {*held.inputs.indices.tolist()} & own
    assert not {*seen[0].indices.tolist()} & own
    assert (seen[0].indices == UNKNOWN).sum() == len(held)
    assert (seen[0].data[seen[0].indices == UNKNOWN] == 0).all()
    np.testing.assert_allclose(np.sqrt((bags(seen[0]) ** 2).sum(axis=1)), 1, rtol=1e-5)
    figures = Predictor(model, "cpu").evaluate(CORPUS, "test").metrics  # whose texts have no such words
    assert figures["ECE@5"] < 5


@pytest.mark.slow
def test_few_texts_give_a_plain_curve_and_hardly_any_none() -> None:
    facts = trained({**RERANKED, "validation": 0.1}).facts
    assert (facts["calibration"]["how"], facts["calibration"]["texts"]) == ("platt", 120)
    assert "calibration" not in trained({**RERANKED, "validation": 0.04}).facts


@pytest.mark.parametrize(
    ("method", "settings", "members"),
    some_slow(
        [
            ("nearest", {"calibration": 0.0}, 1),
            ("inceptionxml", SMALL, 2),  # each member holds out texts that the other has learnt from
            ("inceptionxml", {**SMALL, "validation": 0.0}, 1),
        ],
        2,
        unpack=True,
    ),
)
def test_where_nothing_is_held_out_scores_stay_unless_there_is_a_validation_split(
    method: str, settings: dict[str, Any], members: int
) -> None:
    assert "calibration" not in trained(settings, method=method, members=members).facts
    facts = trained(settings, with_validation(CORPUS, 100), method, members).facts
    assert facts["calibration"]["texts"] == 100


@pytest.mark.parametrize(
    ("method", "settings", "texts"),
    some_slow(
        [("nearest", {}, 300), ("trees", {}, 300), ("inceptionxml", {**SMALL, "refit": True}, 300)], 2, unpack=True
    ),
)
def test_a_method_that_learns_from_all_texts_is_calibrated_by_a_ranker_without_some(
    method: str, settings: dict[str, Any], texts: int
) -> None:
    model = trained(settings, method=method)
    assert model.facts["calibration"]["texts"] == texts
    figures = Predictor(model, "cpu").evaluate(CORPUS, "test").metrics
    assert figures["ECE@5"] < min(6, figures["raw ECE@5"])
    assert max(one.score for answer in Predictor(model, "cpu").predict(TEXTS) for one in answer) <= 1


def test_a_text_does_not_find_itself_among_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[FusedRanker] = []
    monkeypatch.setattr(
        calibrating, "rank_all", lambda ranker, rows, k: asked.append(ranker) or rank_all(ranker, rows, k)
    )
    model = trained({**SMALL, "fusion": {"width": 6, "neighbours": 8, "epochs": 2, "hidden": 8}})
    answering = restore_ranker(model, CPU)
    assert isinstance(answering, FusedRanker)
    assert [len(ranker.nearest.votes.starts) - 1 for ranker in (asked[0], answering)] == [900, 1200]
    figures = Predictor(model, "cpu").evaluate(CORPUS, "test").metrics
    assert figures["ECE@5"] < 8


def test_a_dial_that_is_turned_leaves_scores_as_they_are(model: SavedModel) -> None:
    assert "calibration" not in with_settings(model, {"alpha": 0.3}).facts
    assert "calibration" in model.facts


def test_a_calibration_is_kept_with_the_model(model: SavedModel, tmp_path: Path) -> None:
    write_model(model, tmp_path / "model")
    opened = read_model(tmp_path / "model")
    assert Predictor(opened, "cpu").predict(TEXTS) == Predictor(model, "cpu").predict(TEXTS)
    assert Calibration.of_facts(opened.facts) == Calibration.of_facts(model.facts)


def test_a_damaged_calibration_is_refused(model: SavedModel) -> None:
    falling = {**model.facts["calibration"], "probabilities": [0.5] * len(model.facts["calibration"]["scores"])}
    with pytest.raises(ModelError, match="the calibration in model"):
        Predictor(replace(model, facts={**model.facts, "calibration": falling}), "cpu")
