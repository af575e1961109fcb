"""Training texts that are kept, as a user asks for them: train and pack keep them, predict shows them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from laconic.data.output import write_folder
from laconic.packed.folder import open_packed
from laconic.packed.kept_texts import FILE
from laconic.storage.model_folder import read_model
from tests.planted import planted_vectors
from tests.test_cli import laconic, shown_and_told

TRAIN = [
    ("red rose in the garden", ["flower", "red"]),
    ("white  rose\nfrom   日本", ["flower"]),  # as JSON may hold it
    ("yellow tulip in a vase", ["flower"]),
    ("blue sea", ["water"]),
    ("deep blue ocean", ["water"]),
    ("red sea", ["water", "red"]),
]


@pytest.fixture(autouse=True)
def _without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed models answer where there is no GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "planted"
    folder.mkdir()
    records = (json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in TRAIN)
    (folder / "train.jsonl").write_text("".join(records))
    return folder


@pytest.fixture(scope="module")
def keeping(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "keeping"
    told = laconic("train", data, "--method", "nearest", "--keep-texts", "--out", folder)
    assert told.strip().endswith("It keeps 6 training texts.")
    return folder


@pytest.fixture(scope="module")
def plain(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "plain"
    assert "keeps" not in laconic("train", data, "--method", "nearest", "--out", folder)
    return folder


def answers(model: Path, text: str, *more: Any) -> dict[str, dict[str, Any]]:
    (line,) = laconic("predict", model, "--json", "-k", 3, *more, stdin=text).splitlines()
    return {one["label"]: one for one in json.loads(line)["predictions"]}


def test_an_answer_comes_with_the_nearest_texts_of_its_label(keeping: Path) -> None:
    found = answers(keeping, "a white rose", "--explain")
    assert {label: one["texts"][0]["text"] for label, one in found.items() if "texts" in one} == {
        "flower": TRAIN[1][0],
        "red": TRAIN[0][0],
    }
    assert "texts" not in found["water"]  # it shares no word with any
    (same, *_) = answers(keeping, "blue sea", "--explain")["water"]["texts"]
    assert same == {"text": "blue sea", "similarity": 1.0}
    assert all(one.keys() == {"label", "score"} for one in answers(keeping, "a white rose").values())


def test_people_read_a_line_for_each_text(keeping: Path) -> None:
    lines = laconic("predict", keeping, "-k", 1, "--explain", stdin="a white rose").splitlines()
    assert (lines[0], lines[1].split()[1]) == ("a white rose", "flower")
    assert "white +" in lines[2]
    near = [line.split(maxsplit=2) for line in lines[3:]]
    assert [(word, text) for word, _, text in near] == [("near", "white rose from 日本"), ("near", TRAIN[0][0])]
    assert 1 > float(near[0][1]) > float(near[1][1]) > 0


def test_a_file_of_answers_has_them_too(keeping: Path, tmp_path: Path) -> None:
    laconic("predict", keeping, "-k", 3, "--explain", "--out", tmp_path / "told.jsonl", stdin="a white rose")
    told = json.loads((tmp_path / "told.jsonl").read_text())["predictions"]
    assert {one["label"]: one for one in told} == answers(keeping, "a white rose", "--explain")


def test_nothing_is_kept_or_shown_by_default(plain: Path, keeping: Path) -> None:
    for text in ("rose\nfrom", "yellow tulip", "deep blue ocean"):
        assert [path.name for path in files_with(text, keeping)] == [FILE]
        assert files_with(text, plain) == []
    for one in answers(plain, "a white rose", "--explain").values():
        assert one.keys() == {"label", "score", "words"}
    assert "near" not in laconic("predict", plain, "--explain", stdin="a white rose")


def files_with(text: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_texts_are_kept_in_what_is_packed_alone(keeping: Path, plain: Path) -> None:
    assert {path.name for path in keeping.iterdir()} == {path.name for path in plain.iterdir()}
    assert {path.name for path in (keeping / "packed").iterdir()} == {
        FILE,
        *(path.name for path in (plain / "packed").iterdir()),
    }
    assert answers(keeping, "a white rose") == answers(plain, "a white rose")


def test_a_model_says_whether_it_keeps_texts(keeping: Path, plain: Path, tmp_path: Path) -> None:
    for model, shown, count in ((keeping, "6 are kept", 6), (plain, "are not kept", 0)):
        for folder in (model, model / "packed"):
            assert shown in laconic("inspect", folder)
            assert json.loads(laconic("inspect", folder, "--json"))["kept_texts"] == count
    shutil.copytree(keeping, tmp_path / "alone", ignore=shutil.ignore_patterns("packed"))
    assert json.loads(laconic("inspect", tmp_path / "alone", "--json"))["kept_texts"] == 0


def test_a_finished_model_is_packed_with_texts_and_without(plain: Path, data: Path, tmp_path: Path) -> None:
    shutil.copytree(plain, tmp_path / "model")
    told = laconic("pack", tmp_path / "model", "--data", data, "--keep-texts")
    assert "It keeps 6 training texts." in told
    assert list(open_packed(tmp_path / "model" / "packed").kept_texts.texts) == [text for text, _ in TRAIN]  # type: ignore[union-attr]
    laconic("pack", tmp_path / "model", "--data", data)
    assert not (tmp_path / "model" / "packed" / FILE).exists()


def test_texts_go_when_a_model_is_changed_and_come_back_without_removed_labels(
    keeping: Path, data: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(keeping, model)
    _, told = shown_and_told("remove-labels", model, "--label", "water")
    again = f"`laconic pack {model} --data TRAINING_DATA --keep-texts` keeps them"
    assert f"the training texts that the packed model kept are gone; {again}" in told
    assert not (model / "packed" / FILE).exists()
    laconic("pack", model, "--data", data, "--keep-texts")
    content = (model / "packed" / FILE).read_text()
    assert "red sea" in content  # which is red as well
    assert "ocean" not in content
    assert "blue sea" not in content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "DATA", "--out", "NEW", "--keep-texts", "--no-pack"], "but --no-pack makes none"),
        (["pack", "MODEL", "--keep-texts"], "--keep-texts needs the data that the model was trained on"),
        (["pack", "MODEL", "--data", "FEATURES", "--keep-texts"], "the model reads texts, but this data has none"),
        (["train", "FEATURES", "--out", "NEW", "--keep-texts"], "FEATURES: it has no training texts to keep"),
    ],
)
def test_a_mistake_is_one_message_and_changes_nothing(
    arguments: list[str], message: str, plain: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(plain, "MODEL")
    (tmp_path / "DATA").symlink_to(data)
    write_folder(planted_vectors(), tmp_path / "FEATURES")
    complained = laconic(*arguments, code=2)
    assert message in complained
    assert "Traceback" not in complained
    assert not (tmp_path / "NEW").exists()
    assert open_packed(tmp_path / "MODEL" / "packed", verify=True).kept_texts is None
    read_model(tmp_path / "MODEL", verify=True)
