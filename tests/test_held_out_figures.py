"""What train shows, and what a model says of itself, are figures on texts that it was not trained on."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus
from laconic.data.evaluation_texts import cut_test
from laconic.data.output import write_folder
from laconic.data.sources import read
from laconic.evaluation.evaluate import rank_all
from laconic.export.pack import pack, with_texts
from laconic.export.pack import pack_ranker as original
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed.folder import open_packed
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.packing_cost import measured, split_to_measure
from laconic.predict.predictor import Predictor
from laconic.storage.card import model_card
from laconic.storage.model_folder import SavedModel, read_model
from laconic.training.run import Run
from laconic.types import UNKNOWN
from tests.planted import planted_texts
from tests.test_cli import laconic, shown_and_told
from tests.test_training_texts import rows_of, write_table

CORPUS = planted_texts(num_texts=200, seed=3)
QUICK = ["--method", "inceptionxml", "--encoder", "bag", "--device", "cpu", "--validation", "0.2"]
for setting in ("epochs=2", "embedding=16", "batch_size=32"):
    QUICK += ["--set", setting]
SMALL: dict[str, Any] = {"encoder": "bag", "epochs": 2, "embedding": 16, "batch_size": 32, "validation": 0.2}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("data") / "shop.csv", rows_of("train"))


def words(shown: str) -> str:
    return " ".join(shown.split())


def test_the_figures_after_training_on_a_file_are_of_held_out_texts(shop: Path, tmp_path: Path) -> None:
    shown = words(laconic("train", shop, *QUICK, "--out", tmp_path / "m"))
    facts = json.loads((tmp_path / "m" / "model.json").read_text())
    assert "held-out texts: 20 texts" in shown
    after = re.search(r"Top-5 labels agree with the full model for [\d.]+ % \(20 held-out texts\). P@5 ([\d.]+)", shown)
    assert after
    assert float(after[1]) == pytest.approx(facts["metrics"]["metrics"]["P@5"], abs=0.5)


def test_without_a_test_split_the_validation_texts_are_reported(shop: Path, tmp_path: Path) -> None:
    shown = words(laconic("train", shop, *QUICK, "--test", "0", "--out", tmp_path / "m"))
    assert "shop.csv, validation: 40 texts, held out of training, except to choose the epoch" in shown
    facts = json.loads((tmp_path / "m" / "model.json").read_text())
    kept = facts["metrics"]
    assert (kept["split"], kept["texts"]) == ("validation", 40)
    assert kept["metrics"]["P@1"] == pytest.approx(best_score(facts))
    assert not any("ECE" in name for name in kept["metrics"])  # calibration was learnt on these very texts
    assert open_packed(tmp_path / "m" / "packed").facts["metrics"] == kept
    assert "held out of training" in (tmp_path / "m" / "README.md").read_text()


def best_score(facts: dict[str, Any]) -> float:
    """P@1 of the epoch that was chosen, as it was measured while training."""
    history = {epoch["epoch"]: epoch for epoch in facts["training"]["epochs"]}
    return float(history[facts["training"]["best_epoch"]]["figures"]["P@1"])


def test_packing_is_judged_by_agreement_alone_on_training_texts(shop: Path, tmp_path: Path) -> None:
    shown = words(laconic("train", shop, *QUICK, "--test", "0", "--out", tmp_path / "m"))
    assert re.search(r"Top-5 labels agree with the full model for [\d.]+ % \(200 training texts\)\.$", shown)
    packing = open_packed(tmp_path / "m" / "packed").facts["packing"]
    assert packing.keys() == {"split", "texts", "found"}
    assert packing["split"] == "training texts"
    shown = words(laconic("inspect", tmp_path / "m" / "packed"))
    assert "on 200 training texts" in shown
    assert "P@5" not in shown.replace("P@5 (validation)", "")


def test_a_model_of_which_nothing_was_held_out_says_so(shop: Path, tmp_path: Path) -> None:
    told = shown_and_told("train", shop, "--method", "nearest", "--test", "0", "--no-pack", "--out", tmp_path / "m")[1]
    assert "No texts were held out, so there are no figures" in told
    assert "metrics" not in json.loads((tmp_path / "m" / "model.json").read_text())


def test_a_validation_split_of_the_data_is_reported_too(tmp_path: Path) -> None:
    train, test = CORPUS.split("train"), CORPUS.split("test")
    write_folder(replace(CORPUS, splits={"train": train, "valid": test}), tmp_path / "data")
    laconic("train", tmp_path / "data", "--method", "nearest", "--no-pack", "--out", tmp_path / "m")
    kept = json.loads((tmp_path / "m" / "model.json").read_text())["metrics"]
    assert (kept["split"], kept["texts"]) == ("valid", 50)
    expected = Predictor(read_model(tmp_path / "m"), "cpu").evaluate(read(tmp_path / "data"), "valid").metrics
    assert kept["metrics"]["PSP@5"] == pytest.approx(expected["PSP@5"])


@pytest.mark.parametrize(("settings", "members"), [({"refit": True}, 1), ({"validation": 0.0}, 1), ({}, 2)])
def test_texts_that_were_learnt_in_the_end_are_not_held_out(settings: dict[str, Any], members: int) -> None:
    model = trained({**SMALL, **settings}, without_test(CORPUS), members)
    assert "metrics" not in model.facts
    assert "metrics" in trained(SMALL, without_test(CORPUS)).facts


def trained(settings: dict[str, Any], corpus: Corpus, members: int = 1) -> SavedModel:
    return train_model(corpus, "inceptionxml", config_of("inceptionxml", settings), Run.unkept("cpu"), members)


def without_test(corpus: Corpus) -> Corpus:
    return replace(corpus, splits={"train": corpus.split("train")})


def one_file(corpus: Corpus) -> Corpus:
    return replace(corpus, splits={"all": corpus.split("train")})


def test_packing_again_neither_learns_from_held_out_texts_nor_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = cut_test(one_file(CORPUS), 0.1)
    model = trained(SMALL, cut)
    seen = []
    monkeypatch.setattr(
        "laconic.export.pack.pack_ranker", lambda ranker, texts, *others: seen.append(texts) or original(ranker)
    )
    packed = pack(model, one_file(CORPUS))
    assert [len(probes.starts) - 1 for probes in seen] == [180]
    kept = with_texts(packed, one_file(CORPUS)).kept_texts
    assert kept is not None
    assert not {*kept.texts} & {*(cut.split("test").texts or ())}


def test_texts_of_another_file_are_not_taken_for_training_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = trained(SMALL, without_test(CORPUS)), []
    monkeypatch.setattr(
        "laconic.export.pack.pack_ranker", lambda ranker, texts, *others: seen.append(texts) or original(ranker)
    )
    other = replace(CORPUS, splits={"all": CORPUS.split("test")})
    packed = pack(model, other)
    assert seen == [None]
    cost = measured(packed, model, other, split_to_measure(other))[1]
    assert (cost.split, cost.texts) == ("all", 50)
    assert cost.precision is not None
    assert cost.precision.after == pytest.approx(PackedPredictor(packed).evaluate(other, "all").metrics["P@5"])


def test_a_card_says_what_the_figures_are_of() -> None:
    facts = trained(SMALL, without_test(CORPUS)).facts
    card = model_card(facts)
    assert "## Figures on the split `validation`" in card
    assert "held out of training, except to choose the epoch" in card
    held = {**facts, "metrics": {**facts["metrics"], "split": "held-out"}}
    assert "held out of the file that the model was trained on" in model_card(held)


def test_held_out_figures_are_those_of_texts_read_as_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text has a word of its own: a held-out text's is in the vocabulary, but must not be read."""
    seen: list[csr_array] = []
    monkeypatch.setattr(
        "laconic.methods.validation.rank_all", lambda ranker, rows, k: seen.append(rows) or rank_all(ranker, rows, k)
    )
    split = CORPUS.split("train")
    texts = [f"{text} own{at}" for at, text in enumerate(split.texts or ())]
    corpus = replace(without_test(CORPUS), splits={"train": replace(split, texts=texts)})
    model = train_model(corpus, "trees", config_of("trees", {"validation": 0.25}), Run.unkept("cpu"))
    assert model.vocabulary is not None
    own = {id for word, id in model.vocabulary.ids.items() if word.startswith("own")}
    (rows,) = seen
    assert len(own) == len(texts)
    assert not {*rows.indices.tolist()} & own
    assert (rows.indices == UNKNOWN).sum() == rows.shape[0] == model.facts["metrics"]["texts"] == 50
