"""Training that keeps the packed model alone, and the bars and lines of evaluation and packing."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from laconic import Laconic
from laconic.cli import progress as bars
from laconic.data.output import write_folder
from laconic.errors import ConfigError, ModelError
from laconic.packed.folder import is_packed, open_packed
from laconic.storage.manifest import files_of
from tests.planted import planted_texts
from tests.test_cli import laconic, shown_and_told

CORPUS = planted_texts(with_label_texts=True)
TEXTS = list(CORPUS.split("test").texts or ())
LINES = "".join(text + "\n" for text in TEXTS)
TRAIN = ["--method", "nearest", "--device", "cpu"]
ALONE = [*TRAIN, "--no-keep-torch"]
FILES = {"arrays.safetensors", "label_texts.utf8", "labels.utf8", "manifest.json", "packed.json", "vocabulary.utf8"}


@pytest.fixture(autouse=True)
def _without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "planted"
    write_folder(CORPUS, folder)
    return folder


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with its packed version; nothing may change it."""
    folder = tmp_path_factory.mktemp("models") / "whole"
    laconic("train", data, *TRAIN, "--keep-texts", "--out", folder)
    return folder


@pytest.fixture(scope="module")
def alone(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of which the packed version is kept alone, trained like `whole`; nothing may change it."""
    folder = tmp_path_factory.mktemp("models") / "alone"
    shown = laconic("train", data, *ALONE, "--keep-texts", "--out", folder)
    assert "(packed alone)" in shown
    assert "Top-5 labels agree with the full model" in shown
    return folder


def answers(model: Path, *more: Any) -> list[Any]:
    shown = laconic("predict", model, "--json", *more, stdin=LINES)
    return [json.loads(line) for line in shown.splitlines()]


def test_the_folder_has_no_torch_weights_and_says_all_that_the_model_says(alone: Path, whole: Path) -> None:
    assert {path.name for path in alone.iterdir()} == FILES | {"README.md", "texts.utf8"} == {*files_of(alone)}
    facts, expected = (json.loads(path.read_text()) for path in (alone / "packed.json", whole / "model.json"))
    changing = {"format", "storage", "command", "created", "seconds", "stages"}
    own = {name: fact for name, fact in expected.items() if name not in changing | {"vocabulary", "training_texts"}}
    assert {name: facts[name] for name in own} == own
    assert {"command", "created", "metrics"} <= facts.keys()
    assert (alone / "README.md").read_text().startswith("# nearest on planted")


def test_it_answers_as_the_packed_version_of_the_model_does(alone: Path, whole: Path, data: Path) -> None:
    assert answers(alone) == answers(whole / "packed") == answers(whole)
    assert answers(alone, "--explain") == answers(whole, "--explain")
    figures = [json.loads(laconic("evaluate", model, data, "--json"))["metrics"] for model in (alone, whole / "packed")]
    assert figures[0] == figures[1]


def test_it_is_inspected_with_what_takes_the_room(alone: Path) -> None:
    facts = json.loads(laconic("inspect", alone, "--json", "--verify"))
    assert facts["method"] == "nearest"
    assert facts["metrics"]["texts"] == len(TEXTS)
    assert {"index.numbers", "texts.utf8"} <= facts["parts"].keys()
    assert not any(":" in part for part in facts["parts"])


def test_a_threshold_is_stored_in_it(alone: Path, data: Path, tmp_path: Path) -> None:
    shutil.copytree(alone, tmp_path / "model")
    assert "The threshold for" in laconic("threshold", tmp_path / "model", data)
    stored = open_packed(tmp_path / "model").facts["threshold"]
    assert 0 <= stored["score"] <= 1
    assert "threshold" in (tmp_path / "model" / "README.md").read_text()
    found = answers(tmp_path / "model", "--min-score", "stored")
    scores = [one["score"] for answer in found for one in answer["predictions"]]
    assert scores
    assert min(scores) >= stored["score"]
    assert {path.name for path in (tmp_path / "model").iterdir()} == {path.name for path in alone.iterdir()}


def test_a_threshold_of_a_packed_folder_is_written_elsewhere(whole: Path, data: Path, tmp_path: Path) -> None:
    laconic("threshold", whole / "packed", data, "--out", tmp_path / "other")
    assert "threshold" in open_packed(tmp_path / "other").facts
    assert "threshold" not in open_packed(whole / "packed").facts


@pytest.mark.parametrize(
    "arguments",
    [
        ["pack", "MODEL"],
        ["add-labels", "MODEL", "labels.csv"],
        ["remove-labels", "MODEL", "--label", "L0"],
        ["update", "MODEL", "DATA"],
        ["calibrate", "MODEL", "DATA"],
        ["sweep", "MODEL", "DATA"],
        ["compare", "MODEL", "MODEL", "DATA"],
        ["export", "MODEL", "--onnx", "graph.onnx"],
        ["train", "DATA", "--teacher", "MODEL", "--method", "inceptionxml", "--out", "pupil"],
    ],
)
def test_what_needs_torch_weights_is_refused_with_a_remedy(
    arguments: list[str], alone: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(alone, "MODEL")
    (tmp_path / "DATA").symlink_to(data)
    (tmp_path / "labels.csv").write_text("id,text\nnew,a text\n")
    told = " ".join(laconic(*arguments, code=2).split())
    assert "MODEL: a folder of kind 'model' is needed here, but this one is of kind 'packed model'; it predicts" in told
    assert "train again without --no-keep-torch" in told
    assert {path.name for path in (tmp_path / "MODEL").iterdir()} == {path.name for path in alone.iterdir()}


def test_the_same_command_again_trains_nothing(alone: Path, data: Path, tmp_path: Path) -> None:
    shutil.copytree(alone, tmp_path / "model")
    before = (tmp_path / "model" / "manifest.json").read_bytes()
    assert "already trained" in laconic("train", data, *ALONE, "--keep-texts", "--out", tmp_path / "model")
    assert (tmp_path / "model" / "manifest.json").read_bytes() == before
    told = laconic("train", data, *TRAIN, "--out", tmp_path / "model", code=2)
    assert "it keeps the packed model alone (--no-keep-torch); --force replaces it" in " ".join(told.split())
    told = laconic("train", data, *ALONE, "--set", "neighbours=3", "--out", tmp_path / "model", code=2)
    assert "it has config.neighbours" in " ".join(told.split())
    assert (tmp_path / "model" / "manifest.json").read_bytes() == before
    laconic("train", data, *TRAIN, "--force", "--out", tmp_path / "model")
    assert not is_packed(tmp_path / "model")
    assert is_packed(tmp_path / "model" / "packed")


def test_texts_that_were_not_kept_take_another_training(data: Path, tmp_path: Path) -> None:
    laconic("train", data, *ALONE, "--out", tmp_path / "model")
    told = laconic("train", data, *ALONE, "--keep-texts", "--out", tmp_path / "model", code=2)
    assert "it keeps no training texts; --force replaces it" in " ".join(told.split())


def test_a_finished_model_gives_up_its_torch_weights_without_training(
    whole: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(whole, tmp_path / "model")
    monkeypatch.setattr("laconic.methods.fit.Learning.run", None)  # nothing is learnt
    assert "already trained" in laconic("train", data, *ALONE, "--keep-texts", "--out", tmp_path / "model")
    assert is_packed(tmp_path / "model")
    assert answers(tmp_path / "model") == answers(whole)


def test_a_model_that_cannot_be_packed_is_not_lost(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise ConfigError("such a model cannot be packed")

    bag = ["--method", "inceptionxml", "--encoder", "bag", "--epochs", "1", "--set", "embedding=16", "--device", "cpu"]
    with monkeypatch.context() as patched:
        patched.setattr("laconic.export.pack.pack_ranker", refuse)
        told = laconic("train", data, *bag, "--no-keep-torch", "--out", tmp_path / "model", code=2)
    assert "such a model cannot be packed (--no-keep-torch keeps the packed model alone" in " ".join(told.split())
    assert (tmp_path / "model" / "run").is_dir()
    told = "".join(shown_and_told("train", data, *bag, "--out", tmp_path / "model"))
    assert "done before" in told
    assert answers(tmp_path / "model")


@pytest.mark.parametrize("more", [["--no-pack"], ["--keep-run"], ["--half"], ["--shard-size", "16MB"]])
def test_options_of_other_files_are_refused(more: list[str], data: Path, tmp_path: Path) -> None:
    told = " ".join(laconic("train", data, *ALONE, *more, "--out", tmp_path / "model", code=2).split())
    assert f"--no-keep-torch keeps the packed model alone, which {more[0]} is not for; leave one out" in told
    assert not (tmp_path / "model").exists()


def test_python_saves_and_loads_a_packed_model_alone(tmp_path: Path) -> None:
    labels = [text.split() for text in TEXTS]
    model = Laconic("nearest", device="cpu").fit(TEXTS, labels)
    with pytest.raises(ModelError, match=r"keep_torch=False writes the packed model alone, .*; call pack\(texts\)"):
        model.save(tmp_path / "model", keep_torch=False)
    model.pack(TEXTS).save(tmp_path / "model", keep_torch=False)
    assert is_packed(tmp_path / "model")
    loaded = Laconic.load(tmp_path / "model", device="cpu")
    assert loaded.predict(TEXTS) == model.predict(TEXTS)
    with pytest.raises(ModelError, match="a packed model can only predict"):
        loaded.save(tmp_path / "other")
    others = [f"{text} {word}" for text in TEXTS for word in ("of", "in")]
    loaded.choose_threshold(others, [own for own in labels for _ in range(2)]).save(
        tmp_path / "again", keep_torch=False
    )
    again = Laconic.load(tmp_path / "again", device="cpu")
    assert again.threshold_ == loaded.threshold_
    assert again.predict(TEXTS) == model.predict(TEXTS)
    model.save(tmp_path / "model")  # with torch weights, over one without
    assert not is_packed(tmp_path / "model")


def test_stages_have_a_line_each_where_there_is_no_terminal(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = ["evaluating: ", "packing: ", "comparing the packed model with the model: "]
    monkeypatch.setattr(bars, "SHORT", 0.0)
    told = shown_and_told("train", data, *TRAIN, "--out", tmp_path / "model")[1]
    assert [sum(line.startswith(stage) for line in told.splitlines()) for stage in stages] == [1, 1, 1]
    assert shown_and_told("train", data, *TRAIN, "--quiet", "--force", "--out", tmp_path / "model") == ("", "")
    assert "ranking: " in shown_and_told("evaluate", tmp_path / "model", data)[1]
    monkeypatch.setattr(bars, "SHORT", float("inf"))
    told = shown_and_told("train", data, *TRAIN, "--force", "--out", tmp_path / "model")[1]
    assert not any(stage in told for stage in stages)


def test_a_terminal_shows_a_bar_with_what_is_done_and_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "SHORT", 0.0)
    shown = io.StringIO()
    with bars.progress(Console(file=shown, force_terminal=True, width=80), "packing") as bar:
        bar.update(bar.task_ids[0], completed=2.5, total=6)
        bar.refresh()
    assert "2/6" in shown.getvalue()
    assert "packing: " not in shown.getvalue()


@pytest.mark.parametrize("stage", ["evaluating", "packing", "comparing the packed model with the model"])
def test_a_stage_that_ended_is_done_to_the_last_text_and_part(
    stage: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}
    counting = bars.counting

    def recorded(console: Console) -> Any:
        bar = counting(console)
        seen[len(seen)] = bar
        return bar

    monkeypatch.setattr(bars, "counting", recorded)
    laconic("train", data, *TRAIN, "--out", tmp_path / "model")
    task = next(bar.tasks[0] for bar in seen.values() if bar.tasks[0].description == stage)
    assert task.total
    assert task.completed == task.total
