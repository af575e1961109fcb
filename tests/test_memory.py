"""A training that would not fit into memory is refused, and the user can overrule that."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from sklearn.base import clone

from laconic import Laconic
from laconic.errors import TrainingError
from laconic.methods.costs import training_machine
from laconic.training.loop import Silent
from laconic.training.run import Run
from tests.test_cli import data, laconic, shown_and_told

__all__ = ["data"]  # a fixture
SMALL = ["--method", "inceptionxml", "--device", "cpu", "--validation", "0", "--no-pack"]
for setting in ("epochs=1", "embedding=16", "encoder=bag"):
    SMALL += ["--set", setting]
TEXTS, LABELS = ["red car", "blue car", "green house"] * 8, [["red", "car"], ["car"], ["house"]] * 8


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laconic.training.run.free_memory", lambda: 1000)


def test_a_limit_of_the_container_refuses_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run.unkept("cpu")
    for free, fits in ((999, False), (1000, True), (None, True)):
        monkeypatch.setattr("laconic.training.run.free_memory", lambda free=free: free)
        assert run.fits(1000) == fits


@pytest.mark.usefixtures("little_memory")
def test_a_refusal_names_what_overrules_it() -> None:
    with pytest.raises(TrainingError, match=r"but 1\.0 kB are free .*; --ignore-memory \(Python: ignore_memory=True\)"):
        Run.unkept("cpu").report_costs(2000, 1.0, {})


@pytest.mark.usefixtures("little_memory")
def test_every_member_of_an_ensemble_is_overruled_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(None, watcher=Silent(), device=torch.device("cpu"), ignore_memory=True)
    with caplog.at_level(logging.WARNING):
        run.report_costs(2000, 1.0, {})
        run.member(1, of=3).report_costs(2000, 1.0, {})
    assert ["training anyway" in message for message in caplog.messages] == [True, True]


@pytest.mark.usefixtures("little_memory")
def test_the_command_line_refuses_and_can_be_overruled(data: Path, tmp_path: Path) -> None:
    command = ["train", data, *SMALL, "--out", tmp_path / "model"]
    assert "--ignore-memory" in laconic(*command, code=2)
    assert not (tmp_path / "model" / "model.json").exists()
    shown_and_told(*command, "--ignore-memory")
    assert (tmp_path / "model" / "model.json").exists()


@pytest.mark.usefixtures("little_memory")
def test_the_estimator_refuses_and_can_be_overruled() -> None:
    model = Laconic("inceptionxml", device="cpu", encoder="bag", epochs=1, embedding=16, validation=0.0)
    with pytest.raises(TrainingError, match="ignore_memory=True"):
        model.fit(TEXTS, LABELS)
    overruled = clone(model).set_params(ignore_memory=True)
    assert overruled.get_params()["ignore_memory"] is True
    assert "ignore_memory=True" in repr(overruled)
    assert len(overruled.fit(TEXTS, LABELS).labels_) == 3


def test_time_is_estimated_by_the_cores_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        monkeypatch.setattr("laconic.methods.costs.usable_cores", lambda: 2)
        assert training_machine(torch.device("cpu")).name == "2 × CPU core"
        monkeypatch.setattr("laconic.methods.costs.usable_cores", lambda: 64)
        assert training_machine(torch.device("cpu")).name == "4 × CPU core"
        assert training_machine(torch.device("cuda")).name == "H200"
    finally:
        torch.set_num_threads(before)


def test_the_size_of_a_model_is_that_of_its_files(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shown = laconic("train", data, *SMALL, "--keep-run", "--out", folder)
    assert (folder / "run").is_dir()
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    assert f"{size:,} bytes" in shown
