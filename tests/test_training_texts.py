"""A model knows what it was trained on: figures on training texts are never shown as those of a test split."""

from __future__ import annotations

import csv
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from laconic import Laconic
from laconic.data.output import write_folder
from laconic.packed.folder import open_packed
from laconic.storage.model_folder import read_model, write_model
from tests.planted import planted_texts, planted_vectors
from tests.test_cli import laconic, shown_and_told

CORPUS = planted_texts(num_texts=200, seed=3)
CLUSTERED = ["--method", "inceptionxml+", "--encoder", "bag", "--device", "cpu", "--validation", "0"]
for setting in ("epochs=1", "embedding=16", "clusters=2", "top=1"):
    CLUSTERED += ["--set", setting]


def rows_of(split: str) -> list[tuple[str, str]]:
    part = CORPUS.split(split)
    names = CORPUS.labels.names
    own = [";".join(names[label] for label in part.labels[[row]].indices) for row in range(len(part))]
    return list(zip(part.texts or (), own, strict=True))


def write_table(path: Path, rows: list[tuple[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "labels"), *rows])
    return path


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A single file of 200 different texts."""
    return write_table(tmp_path_factory.mktemp("data") / "shop.csv", rows_of("train"))


@pytest.fixture(scope="module")
def model(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    shown, told = shown_and_told("train", shop, "--method", "nearest", "--out", folder)
    assert "Held out 20 of 200 texts as the test split (--test 0 trains on all)." in told
    assert "held-out texts: 20 texts" in " ".join(shown.split())
    assert "nearest, 180 texts" in shown
    return folder


@pytest.fixture(scope="module")
def uncut(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "uncut"
    laconic("train", shop, "--method", "nearest", "--test", "0", "--out", folder)
    return folder


def evaluated(model: Path, data: Path, tmp_path: Path, *more: Any) -> tuple[str, dict[str, Any]]:
    shown = laconic("evaluate", model, data, "--json", tmp_path / "figures.json", *more)
    return " ".join(shown.split()), json.loads((tmp_path / "figures.json").read_text())


def test_training_texts_are_not_shown_as_a_test_split(uncut: Path, shop: Path, tmp_path: Path) -> None:
    for folder in (uncut, uncut / "packed"):
        shown, found = evaluated(folder, shop, tmp_path, "--split", "test")
        assert "all texts: 200 texts, all of them seen in training" in shown
        assert found["split"] == "all"
        assert found["seen_in_training"] == {"texts": 200, "share": 1.0, "exact": True}


def test_the_file_of_the_training_is_evaluated_on_what_was_held_out(model: Path, shop: Path, tmp_path: Path) -> None:
    kept = json.loads((model / "model.json").read_text())["metrics"]
    for folder in (model, model / "packed"):
        shown, found = evaluated(folder, shop, tmp_path)
        assert "held-out texts: 20 texts" in " ".join(shown.split())
        assert "seen in training" not in shown
        assert (found["split"], found["texts"]) == ("held-out", 20)
        assert found["seen_in_training"] == {"texts": 0, "share": 0.0, "exact": True}
        assert found["metrics"]["P@1"] == kept["metrics"]["P@1"]
    assert (kept["split"], kept["texts"]) == ("held-out", 20)


def test_every_text_of_the_file_can_be_asked_for_and_is_told_to_be_seen(
    model: Path, shop: Path, tmp_path: Path
) -> None:
    shown, found = evaluated(model, shop, tmp_path, "--split", "all")
    assert "all texts: 200 texts, 90 % of them seen in training" in shown
    assert found["seen_in_training"] == {"texts": 180, "share": 0.9, "exact": True}


def test_another_file_is_evaluated_whole_and_chance_duplicates_are_only_counted(
    model: Path, uncut: Path, tmp_path: Path
) -> None:
    rows = [(f"new {text}", labels) for text, labels in rows_of("test")]
    table = write_table(tmp_path / "other.csv", [*rows, *rows_of("train")[:5]])
    for folder in (model, uncut):
        shown, found = evaluated(folder, table, tmp_path)
        assert "all texts: 55 texts" in shown
        assert "seen in training" not in shown
    assert found["seen_in_training"] == {"texts": 5, "share": 5 / 55, "exact": True}


def test_a_test_split_of_training_texts_is_found_out_too(uncut: Path, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_table(tmp_path / "data" / "train.csv", rows_of("test"))
    write_table(tmp_path / "data" / "test.csv", rows_of("train")[:80] + rows_of("test")[:20])
    shown, found = evaluated(uncut, tmp_path / "data", tmp_path)
    assert f"test: 100 texts, {found['seen_in_training']['texts']} % of them seen in training" in shown
    assert found["seen_in_training"]["texts"] >= 80


def test_two_models_are_compared_on_what_was_held_out_of_both(
    model: Path, uncut: Path, shop: Path, tmp_path: Path
) -> None:
    laconic("train", shop, "--method", "nearest", "--set", "neighbours=1", "--no-pack", "--out", tmp_path / "other")
    for one, other, texts, seen in ((model, tmp_path / "other", 20, [0, 0]), (model, uncut, 20, [0, 20])):
        shown = " ".join(laconic("compare", one, other, shop, "--json", tmp_path / "found.json").split())
        assert f"held-out texts: {texts} texts" in shown
        found = json.loads((tmp_path / "found.json").read_text())
        assert (found["split"], found["texts"]) == ("held-out", texts)
        assert [part["texts"] for part in found["seen_in_training"]] == seen
    assert f"20 texts, all of them seen in training by {uncut}" in shown


@pytest.mark.slow
def test_a_sweep_and_a_bench_tell_of_training_texts(shop: Path, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    laconic("train", shop, *CLUSTERED, "--out", folder)
    bench = ["--texts", 30, "--singly", 1]
    for verb, more in (("sweep", ["--device", "cpu"]), ("bench", bench)):
        for split, name, texts, seen in ((["--split", "all"], "all", 200, 180), ([], "held-out", 20, 0)):
            shown = laconic(verb, folder, shop, *split, *more, "--json", tmp_path / "found.json")
            found = json.loads((tmp_path / "found.json").read_text())
            asked = min(texts, 30) if verb == "bench" else texts
            assert (found["split"], found["texts"]) == (name, asked)
            assert found["seen_in_training"]["share"] == pytest.approx(seen / texts, abs=0.15)
            assert ("seen in training" in " ".join(shown.split())) == (seen > 0)


def test_features_have_fingerprints_too(tmp_path: Path) -> None:
    write_folder(planted_vectors(), tmp_path / "data")
    laconic("train", tmp_path / "data", "--method", "nearest", "--out", tmp_path / "model")
    for folder in (tmp_path / "model", tmp_path / "model" / "packed"):
        shown, found = evaluated(folder, tmp_path / "data", tmp_path, "--split", "train")
        assert "train: 120 texts, all of them seen in training" in shown
        assert found["seen_in_training"]["share"] == 1
        assert evaluated(folder, tmp_path / "data", tmp_path)[1]["seen_in_training"]["texts"] == 0


def test_a_model_from_before_does_not_tell(model: Path, shop: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    write_model(replace(read_model(model), sketch=None), tmp_path / "old")
    assert not (tmp_path / "old" / "training_texts.safetensors").exists()
    shown, found = evaluated(tmp_path / "old", shop, tmp_path)
    assert "all texts: 200 texts" in shown
    assert found["seen_in_training"] is None


def test_the_hashes_are_listed_in_the_manifest_and_come_back(model: Path) -> None:
    manifest = json.loads((model / "manifest.json").read_text())
    assert "training_texts.safetensors" in manifest["files"]
    read, packed = read_model(model, verify=True), open_packed(model / "packed", verify=True)
    assert read.sketch is not None
    assert packed.sketch is not None
    assert read.sketch.hashes.tolist() == packed.sketch.hashes.tolist()
    assert read.facts["training_texts"] == packed.facts["training_texts"] == {"hashes": 180, "complete": True}
    assert read.facts["data"]["holdout"] == packed.facts["data"]["holdout"]


def test_texts_that_are_learnt_later_are_training_texts_too(uncut: Path, tmp_path: Path) -> None:
    shutil.copytree(uncut, tmp_path / "m")
    new = write_table(tmp_path / "new.csv", [(f"brand new {text}", labels) for text, labels in rows_of("test")])
    assert evaluated(tmp_path / "m", new, tmp_path)[1]["seen_in_training"]["texts"] == 0
    laconic("update", tmp_path / "m", new)
    assert evaluated(tmp_path / "m", new, tmp_path)[1]["seen_in_training"]["share"] == 1


def test_a_split_is_cut_by_a_fraction_that_was_asked_for(shop: Path, tmp_path: Path) -> None:
    laconic("train", shop, "--method", "nearest", "--test", "0.25", "--no-pack", "--out", tmp_path / "m")
    facts = json.loads((tmp_path / "m" / "model.json").read_text())
    assert (facts["sizes"]["texts"], facts["metrics"]["texts"]) == (150, 50)
    assert facts["data"]["holdout"]["fraction"] == 0.25
    write_folder(CORPUS, tmp_path / "data")
    refused = laconic(
        "train", tmp_path / "data", "--method", "nearest", "--test", "0.1", "--out", tmp_path / "n", code=2
    )
    assert "it has a test split, so no other one can be cut off; leave --test out" in " ".join(refused.split())
    assert "--test" in laconic("train", shop, "--test", "1.5", "--out", tmp_path / "n", code=2)


def test_labels_that_only_held_out_texts_have_are_counted(tmp_path: Path) -> None:
    rows = [(f"thing number {number}", f"label {number}") for number in range(40)]
    told = shown_and_told(
        "train", write_table(tmp_path / "rare.csv", rows), "--method", "nearest", "--no-pack", "--out", tmp_path / "m"
    )[1]
    assert "Held out 4 of 40 texts" in told
    assert "4 labels occur in them alone." in told


def test_scoring_training_texts_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    texts, labels = [text for text, _ in rows_of("train")], [own.split(";") for _, own in rows_of("train")]
    fitted = Laconic("nearest").fit(texts[:150], labels[:150])
    with caplog.at_level(logging.WARNING):
        fitted.score(texts[150:], labels[150:])
        assert not caplog.text
        fitted.score(texts, labels)
    assert "score on 200 texts, 75 % of them seen in training" in caplog.text
