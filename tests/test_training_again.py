"""A finished model is not replaced unasked: the same training is found done, and another one needs --force."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laconic import Laconic
from laconic.data.corpus import Corpus
from laconic.data.output import write_folder
from laconic.methods.registry import config_of
from laconic.methods.train import Training
from laconic.packed.folder import open_packed
from tests.planted import planted_texts
from tests.test_cli import laconic, shown_and_told
from tests.test_training_texts import rows_of, write_table

NEAREST = ["--method", "nearest", "--no-pack"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("data") / "shop.csv", rows_of("train"))


@pytest.fixture
def model(shop: Path, tmp_path: Path) -> Path:
    laconic("train", shop, *NEAREST, "--out", tmp_path / "m")
    return tmp_path / "m"


def content(model: Path) -> dict[Path, tuple[int, bytes]]:
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in model.rglob("*") if path.is_file()}


def test_the_same_command_finds_the_model_trained(model: Path, shop: Path) -> None:
    before = content(model)
    shown = laconic("train", shop, *NEAREST, "--out", model)
    assert "already trained" in shown
    assert content(model) == before


def test_force_trains_the_same_model_anew(model: Path, shop: Path) -> None:
    before = content(model)
    assert "already trained" not in laconic("train", shop, *NEAREST, "--force", "--out", model)
    assert content(model) != before


@pytest.mark.parametrize(
    ("more", "difference"),
    [
        (["--set", "neighbours=3"], "config.neighbours = 100 (now 3)"),
        (
            ["--set", "neighbours=3", "--set", "power=2"],
            "config.neighbours = 100 (now 3), config.power = 3.0 (now 2.0)",
        ),
        (["--method", "trees"], "method = 'nearest' (now 'trees')"),
        (["--test", "0.2"], "test = 0.1 (now 0.2)"),
        (["--test", "0"], "test = 0.1 (now 0)"),
        (["--half"], "storage.half = False (now True)"),
    ],
)
def test_another_training_asks_for_force_and_says_what_differs(
    model: Path, shop: Path, more: list[str], difference: str
) -> None:
    before = content(model)
    refused = " ".join(laconic("train", shop, *NEAREST, *more, "--out", model, code=2).split())
    assert difference in refused
    assert "--force" in refused
    assert content(model) == before


def test_other_data_ask_for_force(model: Path, tmp_path: Path) -> None:
    for rows in (rows_of("train")[:-1], [(text, labels.replace("L1", "M1")) for text, labels in rows_of("train")]):
        other = write_table(tmp_path / "shop.csv", rows)
        refused = " ".join(laconic("train", other, *NEAREST, "--out", model, code=2).split())
        assert "it was trained on other data" in refused
    laconic("train", other, *NEAREST, "--force", "--out", model)
    assert "already trained" in laconic("train", other, *NEAREST, "--out", model)


def test_a_model_that_was_changed_since_asks_for_force(model: Path, shop: Path) -> None:
    laconic("remove-labels", model, "--label", "L0")
    refused = " ".join(laconic("train", shop, *NEAREST, "--out", model, code=2).split())
    assert "it was changed by remove-labels since it was trained" in refused


def test_a_model_that_does_not_tell_how_it_was_trained_asks_for_force(model: Path, shop: Path) -> None:
    change(model, lambda facts: {name: fact for name, fact in facts.items() if name != "run"})
    refused = " ".join(laconic("train", shop, *NEAREST, "--out", model, code=2).split())
    assert "it does not say what it was trained with" in refused
    change(model, lambda facts: facts | {"format": 99})
    refused = " ".join(laconic("train", shop, *NEAREST, "--out", model, code=2).split())
    assert "the model has format 99" in refused
    assert "--force" in refused
    laconic("train", shop, *NEAREST, "--force", "--out", model)


def change(model: Path, function: Any) -> None:
    text = json.dumps(function(json.loads((model / "model.json").read_text())))
    (model / "model.json").write_text(text)
    manifest = json.loads((model / "manifest.json").read_text())
    manifest.pop("crc32 of what follows", None)
    manifest["files"]["model.json"]["bytes"] = len(text.encode())
    (model / "manifest.json").write_text(json.dumps(manifest))


def test_the_same_command_packs_what_was_not_packed(model: Path, shop: Path) -> None:
    packing = ["--method", "nearest", "--out", model]
    before = content(model)
    assert "already trained" in laconic("train", shop, *packing)
    assert {path: one for path, one in content(model).items() if "packed" not in path.parts} == before
    packed = content(model / "packed")
    assert packed
    laconic("train", shop, *packing)
    assert content(model / "packed") == packed
    laconic("train", shop, *packing, "--keep-texts")
    assert open_packed(model / "packed").num_kept == 180
    laconic("train", shop, *packing)
    assert open_packed(model / "packed").num_kept == 180


TRAINED = ["--encoder", "bag", "--device", "cpu", "--validation", "0", "--no-pack", "--test", "0"]
for setting in ("epochs=2", "embedding=16", "batch_size=32"):
    TRAINED += ["--set", setting]


def test_a_run_that_was_stopped_goes_on_beside_a_finished_model(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["train", shop, *TRAINED, "--out", tmp_path / "m"]
    laconic(*command)
    longer = [*command, "--set", "epochs=3"]
    monkeypatch.setattr("laconic.methods.fit.learnt_calibration", stopped)
    laconic(*longer, "--force", code=130)
    assert (tmp_path / "m" / "run" / "train.safetensors").exists()
    monkeypatch.undo()
    told = shown_and_told(*longer)[1]
    assert "done before" in told
    assert json.loads((tmp_path / "m" / "model.json").read_text())["config"]["epochs"] == 3


def stopped(*arguments: Any, **options: Any) -> None:
    raise KeyboardInterrupt


def test_a_kept_run_does_not_make_a_finished_model_unfinished(shop: Path, tmp_path: Path) -> None:
    command = ["train", shop, *TRAINED, "--keep-run", "--out", tmp_path / "m"]
    laconic(*command)
    assert "already trained" in laconic(*command)
    assert "--force" in laconic(*command, "--set", "epochs=3", code=2)


def test_whatever_a_training_learns_from_is_in_its_fingerprint() -> None:
    corpus, config = planted_texts(num_texts=40, with_label_texts=True), config_of("nearest", {})
    facts = Training.of(corpus, "nearest", config).facts
    assert facts == Training.of(planted_texts(num_texts=40, with_label_texts=True), "nearest", config).facts
    others = [
        planted_texts(num_texts=41, with_label_texts=True),
        planted_texts(num_texts=40),
        renamed(corpus),
        with_valid(corpus, 3),
        with_valid(corpus, 4),
    ]
    found = [Training.of(other, "nearest", config).facts["data"] for other in others]
    assert len({facts["data"], *found}) == 6


def renamed(corpus: Corpus) -> Corpus:
    names = [f"other {name}" for name in corpus.labels.names]
    return replace(corpus, labels=replace(corpus.labels, names=names))


def with_valid(corpus: Corpus, texts: int) -> Corpus:
    return replace(corpus, splits={**corpus.splits, "valid": corpus.split("test").rows(np.arange(texts))})


def test_save_replaces_a_model(model: Path) -> None:
    texts, labels = [text for text, _ in rows_of("train")], [own.split(";") for _, own in rows_of("train")]
    Laconic("nearest").fit(texts[:50], labels[:50]).save(model)
    assert json.loads((model / "model.json").read_text())["sizes"]["texts"] == 50


def test_a_model_folder_that_was_copied_is_trained_too(model: Path, shop: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "copy")
    assert "already trained" in laconic("train", shop, *NEAREST, "--out", tmp_path / "copy")


def test_a_student_is_not_trained_twice(tmp_path: Path) -> None:
    write_folder(planted_texts(num_texts=60), tmp_path / "data")
    laconic("train", tmp_path / "data", *NEAREST, "--out", tmp_path / "teacher")
    settings = ["--encoder", "bag", "--device", "cpu", "--no-pack", "--set", "epochs=1", "--set", "embedding=16"]
    command = ["train", tmp_path / "data", "--teacher", tmp_path / "teacher", "--out", tmp_path / "m", *settings]
    laconic(*command)
    assert "already trained" in laconic(*command)
