"""A run folder notices damage, whatever was damaged, and nothing of another run is taken into this one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from laconic.errors import TrainingError
from laconic.methods.inceptionxml import train
from laconic.training import stage_file
from laconic.training.run import Run
from laconic.training.run_folder import RunFolder
from tests.test_run import Stopping, kept, small

FACTS = {"config": {"seed": 1}, "data": "of a kind"}
DATA, CONFIG = small()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped after its first epoch, with a value that it remembers."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    run = Run(folder, watcher=Stopping(KeyboardInterrupt), device=torch.device("cpu"), seconds=0.0)
    run.begin(FACTS)
    run.remember("clusters", lambda: {"labels": torch.arange(6)})
    with pytest.raises(KeyboardInterrupt):
        train(DATA, CONFIG, run)
    return folder


@pytest.fixture
def folder(stopped: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stopped, tmp_path / "run")


def resumed(folder: Path, facts: Any = FACTS) -> dict[str, torch.Tensor]:
    run = kept(folder)
    run.begin(facts)
    run.remember("clusters", lambda: {"labels": torch.arange(6)})
    return train(DATA, CONFIG, run).ranker.state_dict()


def test_a_run_that_is_whole_goes_on(folder: Path) -> None:
    whole = train(DATA, CONFIG, Run.unkept()).ranker.state_dict()
    found = resumed(folder)
    assert all(torch.equal(found[name], whole[name]) for name in whole)


@pytest.mark.parametrize("name", ["train.safetensors", "clusters.safetensors"])
def test_every_flipped_bit_is_noticed(folder: Path, name: str) -> None:
    path = folder / name
    content = path.read_bytes()
    for place in np.random.default_rng(0).integers(len(content), size=100):
        spoilt = bytearray(content)
        spoilt[place] ^= 1 << int(place) % 8
        path.write_bytes(spoilt)
        with pytest.raises(TrainingError, match=rf"{name}: this file of the run is damaged .*; remove .*/run to start"):
            resumed(folder)


def rename(tensors: dict[str, Any], state: dict[str, Any]) -> None:
    tensors["task.other"] = tensors.pop(next(name for name in tensors if name.startswith("task.")))


def reshape(tensors: dict[str, Any], state: dict[str, Any]) -> None:
    tensors["random.cpu"] = tensors["random.cpu"][:-1].clone()


def change(**fields: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda tensors, state: state.update(fields)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (rename, "the tensor task.* must be .* but is absent"),
        (reshape, r"the tensor random\.cpu must be .* but is"),
        (lambda tensors, state: tensors.pop("loss_sum"), r"the tensor loss_sum must be \[\] of .* but is absent"),
        (change(epoch=10**9), "epoch 1000000000, step 2 .* are not of 2 × 3"),
        (change(step=10**9), "step 1000000000"),
        (change(epoch=-1), "epoch -1"),
        (change(best_epoch=2), "best epoch 2"),
        (change(other=1), "the fields that it must have"),
        (change(epoch="1"), "the fields that it must have"),
        (change(epoch=1), "its history is not that of 1 epoch"),
        (change(history=[3]), "its history is not that of 0 epochs"),
        (lambda tensors, state: state.clear(), "the fields that it must have"),
    ],
)
def test_a_checkpoint_that_this_run_cannot_have_written_is_refused(folder: Path, spoil: Any, words: str) -> None:
    path = folder / "train.safetensors"
    run = RunFolder(folder)
    run.begin(FACTS, {})
    tensors, metadata = run.load(path.name)  # type: ignore[misc]
    state = json.loads(metadata["state"])
    spoil(tensors, state)
    run.save(path.name, tensors, {"state": json.dumps(state)})  # with a right checksum
    with pytest.raises(TrainingError, match=rf"train\.safetensors: this file of the run is damaged \(.*{words}"):
        resumed(folder)


@pytest.mark.parametrize("state", ["", "{", "3", "[]", "null"])
def test_progress_that_is_no_object_is_refused(folder: Path, state: str) -> None:
    run = RunFolder(folder)
    run.begin(FACTS, {})
    tensors, _ = run.load("train.safetensors")  # type: ignore[misc]
    run.save("train.safetensors", tensors, {"state": state})
    with pytest.raises(TrainingError, match=r"train\.safetensors: this file of the run is damaged"):
        resumed(folder)


@pytest.mark.parametrize("name", ["run.json", "manifest.json"])
@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"3", b"\xff", b"{}", b"[" * 100_000])
def test_facts_and_manifest_that_are_damaged_are_refused(folder: Path, name: str, content: bytes | None) -> None:
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(TrainingError, match="to start again"):
        resumed(folder)


@pytest.mark.parametrize("name", ["train.safetensors", "clusters.safetensors"])
def test_a_file_that_is_gone_or_was_not_listed_is_noticed(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    with pytest.raises(TrainingError, match=rf"{name}: this file of the run is damaged \(it is missing\)"):
        resumed(folder)
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["files"][name]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(TrainingError, match=rf"{name}: this file of the run is damaged \(the manifest does not list"):
        resumed(folder)


@pytest.mark.parametrize("log", ["{}\n", "3\n", '{"stage": 1, "epoch": 1}\n', "[\n", "\xff\n", ""])
def test_a_log_with_strange_lines_is_written_without_them(folder: Path, log: str) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(log)
    resumed(folder)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["epoch"]) for line in lines] == [("train", 1), ("train", 2)]


def test_a_checkpoint_of_another_run_is_refused(folder: Path, tmp_path: Path) -> None:
    other = kept(tmp_path / "other")
    other.begin(FACTS | {"config": {"seed": 2}})
    train(DATA, CONFIG, other)
    for name in ("train.safetensors", "manifest.json"):
        shutil.copy(tmp_path / "other" / name, folder / name)
    (folder / "clusters.safetensors").unlink()
    with pytest.raises(TrainingError, match=r"train\.safetensors: .* \(it is of a run with other settings or data\)"):
        resumed(folder)


def test_a_run_of_another_version_of_laconic_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laconic.training.run_folder.__version__", "99")
    with pytest.raises(TrainingError, match=r"a run with laconic = '.*' \(now '99'\) was started here"):
        resumed(folder)


def test_a_kill_between_manifest_and_checkpoint_leaves_the_old_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest lists both; whichever of them is there is accepted, also after a second such kill."""
    before = load_file(folder / "train.safetensors")
    replace = Path.replace

    def killed(path: Path, target: Path) -> Path:
        if target.name == "train.safetensors":
            raise KeyboardInterrupt
        return replace(path, target)

    for _ in range(2):
        run = RunFolder(folder)
        run.begin(FACTS, {})
        tensors, metadata = run.load("train.safetensors")  # type: ignore[misc]
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Path, "replace", killed)
            run.save("train.safetensors", {**tensors, "more": torch.ones(1)}, {"state": metadata["state"]})
        assert load_file(folder / "train.safetensors").keys() == before.keys()
    resumed(folder)


def test_a_kill_before_the_first_checkpoint_leaves_a_run_without_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def killed(path: Path, target: Path) -> Path:
        if target.name == "more.safetensors":
            raise KeyboardInterrupt
        return replace(path, target)

    run = kept(folder)
    run.begin(FACTS)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", killed)
        run.remember("more", lambda: {"rows": torch.ones(2)})
    run = kept(folder)
    run.begin(FACTS)
    assert run.remember("more", lambda: {"rows": torch.zeros(2)})["rows"].tolist() == [0, 0]


def test_what_a_killed_writer_left_half_written_is_removed(folder: Path) -> None:
    (folder / ".train.safetensors.partial-0123").write_bytes(b"half")
    resumed(folder)
    assert not list(folder.glob(".*"))


def test_a_file_where_the_run_belongs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(TrainingError, match="run: this is a file, where the run's folder belongs; move it away"):
        kept(tmp_path / "run").begin(FACTS)


def test_what_goes_wrong_in_a_resumed_run_is_blamed_on_its_files(folder: Path) -> None:
    run = kept(folder)
    run.begin(FACTS)
    with pytest.raises(ZeroDivisionError), run.blaming_its_files():  # nothing was loaded yet
        1 / 0  # noqa: B018
    values = run.remember("clusters", lambda: {"labels": torch.arange(6)})["labels"]
    with (
        pytest.raises(TrainingError, match=r"run: the training cannot go on from this run \(RuntimeError: .*; remove"),
        run.blaming_its_files(),
    ):
        values.reshape(5)


class Slow:
    """A run folder that takes its time to save."""

    def __init__(self, clock: list[float], seconds: float) -> None:
        self.clock, self.seconds = clock, seconds

    def save(self, *_: Any) -> None:
        self.clock[0] += self.seconds


@pytest.mark.parametrize(("weights", "waited"), [(0, 60), (10**8, 60), (10**9, 160)])
def test_a_checkpoint_that_takes_long_is_saved_less_often(
    weights: int, waited: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(stage_file, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    kept = stage_file.StageFile(Slow(clock, 6.0), "train", 60.0, {}, weights)  # type: ignore[arg-type]  # no whole run folder
    clock[0] = waited - 1
    assert not kept.due()
    clock[0] = waited
    assert kept.due()
    kept.save({}, {})
    clock[0] += 119  # it took 6 seconds, a twentieth of 120
    assert not kept.due()
    clock[0] += 1
    assert kept.due()
