"""Training by the command line: one writer of a folder, stops by signals, and runs that go on elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from laconic.storage.model_folder import read_model
from laconic.system.locks import locked
from tests.test_cli import laconic, process, shown_and_told
from tests.test_training_again import stopped
from tests.test_training_texts import rows_of, write_table

QUICK = ["--encoder", "bag", "--device", "cpu", "--validation", "0", "--no-pack", "--test", "0"]
for setting in ("embedding=16", "batch_size=32"):
    QUICK += ["--set", setting]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("data") / "shop.csv", rows_of("train"))


@pytest.fixture(scope="module")
def model(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "m"
    laconic("train", shop, "--method", "nearest", "--out", folder)
    return folder


@pytest.fixture
def held(model: Path) -> Iterator[Path]:
    """A model folder that another thread is writing."""
    with ThreadPoolExecutor(1) as thread:
        lock = locked(model)
        thread.submit(lock.__enter__).result()
        yield model
        thread.submit(lock.__exit__, None, None, None).result()


@pytest.mark.parametrize("verb", ["train", "pack", "update", "add-labels", "remove-labels", "calibrate"])
def test_a_verb_is_refused_at_its_start_while_another_process_writes_the_folder(
    verb: str, held: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: Any, **options: Any) -> None:
        raise AssertionError("this is work for nothing")

    monkeypatch.setattr("laconic.data.sources.read", never)
    monkeypatch.setattr("laconic.cli.train.read_corpus", never)
    monkeypatch.setattr("laconic.cli.labels.read_corpus", never)
    monkeypatch.setattr("laconic.cli.pack.read_corpus", never)
    more = {
        "train": [shop, "--method", "nearest", "--force", "--out", held],
        "pack": [held, "--data", shop],
        "add-labels": [held, "labels.jsonl"],
        "remove-labels": [held, "--label", "L0"],
    }
    told = " ".join(laconic(verb, *more.get(verb, [held, shop]), code=2).split())
    assert f"{held.name}: process {os.getpid()} on " in told.replace(f"{held.parent}/", "")
    assert "is writing this folder; wait until it has ended, or choose another folder" in told


def test_the_current_folder_can_be_trained_into(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    shown = laconic("train", shop, "--method", "nearest", "--out", ".")
    assert "packed: " in shown
    assert "not packed" not in shown
    assert "(the model: 0 bytes)" not in shown
    assert {"model.json", "packed"} <= {path.name for path in (tmp_path / "here").iterdir()}
    assert "already trained" in laconic("train", shop, "--method", "nearest", "--out", ".")


@pytest.mark.parametrize("folder", ["/proc/x", "/proc/x/y", "/dev/null", "/dev/null/x", "shop.csv/x"])
def test_a_folder_that_cannot_be_made_is_one_message(folder: str, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.parent)
    told = laconic("train", shop, "--method", "nearest", "--out", folder, code=2)
    assert "error" in told or folder in told.replace("\n", "")
    assert "Traceback" not in told


def test_a_file_where_the_run_belongs_is_one_message(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "run").touch()
    told = " ".join(laconic("train", shop, *QUICK, "--epochs", "1", "--out", tmp_path / "m", code=2).split())
    assert "this is a file, where the run's folder belongs; move it away" in told


def test_the_same_request_goes_on_with_its_choice_on_another_number_of_cores(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from laconic.methods import auto

    choose = auto.choose

    def chosen(method: str, settings: dict[str, Any]) -> Any:
        return lambda situation: choose(situation)._replace(method=method, settings=settings)

    command = ["train", shop, "--budget", "5m", "--no-pack", "--device", "cpu", "--out", tmp_path / "m"]
    small = {"epochs": 1, "embedding": 16, "validation": 0.0, "encoder": "bag"}
    monkeypatch.setattr(auto, "choose", chosen("inceptionxml", small))
    with monkeypatch.context() as patch:
        patch.setattr("laconic.methods.fit.learnt_calibration", stopped)
        laconic(*command, code=130)
    facts = json.loads((tmp_path / "m" / "run" / "run.json").read_text())
    assert facts["asked"]["budget"] == 300
    assert facts["laconic"]
    monkeypatch.setattr(auto, "choose", chosen("nearest", {}))  # as other cores would have it
    told = shown_and_told(*command)[1]
    assert "Chosen: inceptionxml, as when this command was first run" in told
    assert "done before" in told
    assert read_model(tmp_path / "m").facts["method"] == "inceptionxml"
    assert "already trained" in laconic(*command)
    assert "--force" in laconic(*command, "--budget", "6m", code=2)
    assert "nearest" in laconic(*command, "--force")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_a_checkpoint_and_frees_the_folder(shop: Path, tmp_path: Path, number: int) -> None:
    command = ["train", shop, *QUICK, "--out", tmp_path / "m", "--set", "epochs=100000"]
    running = process(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in running.stderr:
        if b"epoch 3/" in line:
            break
    told = " ".join(laconic(*command, code=2).split())  # a second training of this folder
    assert f"process {running.pid} on " in told
    running.send_signal(number)
    _, complained = running.communicate()
    assert running.returncode == 128 + number
    assert b"interrupted; run the same command again to resume" in complained
    assert (tmp_path / "m" / "run" / "train.safetensors").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
