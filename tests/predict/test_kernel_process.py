"""A process beside a training compiles the kernels that its later stages take, and nothing else of it is seen."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from laconic.cli.recipe import Recipe
from laconic.cli.training_job import Among, TrainingJob, _later_kernels
from laconic.data.corpus import Corpus
from laconic.methods.registry import config_of
from laconic.predict import kernel_process
from laconic.predict.kernel_process import Task, compiled_beside, made_up, task_of
from laconic.system.ranks import Ranks
from laconic.trackers.run import Trackers

_PARENT = """
import sys
from laconic.predict import kernel_process
kernel_process.usable_cores = lambda: 8
kernel_process.free_memory = lambda: None
started = kernel_process._started
def told(task):
    process = started(task)
    print(process.pid, flush=True)
    return process
kernel_process._started = told
with kernel_process.compiled_beside(kernel_process.Task("inceptionxml", {"fusion": {}}, True)):
    sys.stdin.read()
"""
# Kernels of growing label trees, which have a process of their own.
_GROWING = {"bisection", "rows", "learn", "solver", "csr"}


def usual_task(**settings: Any) -> Task | None:
    config = config_of("inceptionxml", {"fusion": {"trees": 3, "siamese": 320}} | settings)
    return task_of("inceptionxml", config, texts=True, label_texts=True)


def test_the_default_of_a_gpu_is_a_task_and_other_trainings_are_none() -> None:
    task = usual_task()
    assert task is not None
    assert task.settings["fusion"]["siamese"] == 32
    assert task_of("nearest", config_of("nearest", {}), texts=True, label_texts=True) is None
    assert task_of("inceptionxml", config_of("inceptionxml", {}), texts=True, label_texts=True) is None
    assert task_of("inceptionxml", config_of("inceptionxml", {"fusion": {}}), texts=False, label_texts=True) is None
    assert usual_task(reranker={}) is None


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Task]:
    """The tasks of processes that would be started, on a large machine with a cache of its own."""
    seen: list[Task] = []
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_process, "usable_cores", lambda: 8)
    monkeypatch.setattr(kernel_process, "free_memory", lambda: 1 << 40)
    monkeypatch.setattr(kernel_process, "_started", seen.append)
    return seen


def test_a_process_starts_where_kernels_are_not_there(starts: list[Task]) -> None:
    task = usual_task()
    with compiled_beside(task):
        assert starts == [task]


def test_no_process_starts_where_another_has_compiled_the_same(starts: list[Task]) -> None:
    task = usual_task()
    assert task is not None
    kernel_process.mark(task.name)
    with compiled_beside(task):
        assert not starts
    with compiled_beside(task._replace(label_texts=False)):
        assert len(starts) == 1


@pytest.mark.parametrize(("name", "amount"), [("usable_cores", 3), ("free_memory", 1 << 30)])
def test_no_process_starts_where_the_training_has_use_for_all(
    starts: list[Task], monkeypatch: pytest.MonkeyPatch, name: str, amount: int
) -> None:
    monkeypatch.setattr(kernel_process, name, lambda: amount)
    with compiled_beside(usual_task()):
        assert not starts


def test_no_process_starts_where_the_training_takes_most_of_the_memory(starts: list[Task]) -> None:
    with compiled_beside(usual_task(), memory=1 << 40):
        assert not starts


@pytest.mark.parametrize(("device", "packing", "world"), [("cpu", True, 1), ("cuda", False, 1), ("cuda", True, 2)])
def test_nothing_is_compiled_ahead_on_a_cpu_without_packing_or_in_ranks(device: str, packing: bool, world: int) -> None:
    recipe = Recipe("inceptionxml", {}, {}, config_of("inceptionxml", {"fusion": {}}))
    corpus = made_up(with_label_texts=True)

    def later(device: str, packing: bool, world: int) -> Task | None:
        job = cast(TrainingJob, SimpleNamespace(packing=packing))
        ranks = cast(Ranks, SimpleNamespace(world=world))
        return _later_kernels(job, recipe, corpus, Among(ranks, torch.device(device), Trackers()))

    assert later("cuda", True, 1) is not None
    assert later(device, packing, world) is None


def test_no_process_starts_without_a_task(starts: list[Task]) -> None:
    with compiled_beside(None):
        assert not starts


@pytest.mark.parametrize("name", ["_MODULE", "sys.executable"])
def test_a_process_that_fails_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(f"laconic.predict.kernel_process.{name}", "no_such_thing")
    monkeypatch.setattr(kernel_process, "usable_cores", lambda: 8)
    monkeypatch.setattr(kernel_process, "free_memory", lambda: None)
    with caplog.at_level(logging.DEBUG, logger="laconic"), compiled_beside(usual_task()):
        assert waited_for(lambda: "no_such_thing" in caplog.text)
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, None])
def test_no_process_is_left_when_its_parent_ends(tmp_path: Path, how: signal.Signals | None) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        if how is not None:
            parent.send_signal(how)
        parent.communicate()
    assert waited_for(lambda: not is_running(pid))


def test_made_up_texts_have_labels_and_are_the_same_every_time() -> None:
    one, other = made_up(with_label_texts=True), made_up(with_label_texts=True)
    assert texts_of(one) == texts_of(other)
    assert one.labels.texts == other.labels.texts
    assert made_up(with_label_texts=False).labels.texts is None
    assert (one.split("train").labels.sum(axis=1) >= 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["inceptionxml", "inceptionxml+"])
def test_a_training_finds_the_kernels_of_its_later_stages(tmp_path: Path, method: str) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    task = task_of(method, config_of(method, {"fusion": {"siamese": 320}}), texts=True, label_texts=True)
    command = [sys.executable, "-m", "laconic.predict.kernel_process", json.dumps(task)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as process:
        assert process.wait() == 0
    before = kernels_in(tmp_path)
    write_texts(tmp_path / "data")
    options = ["--epochs", "1", "--set", "fusion.trees=2", "--set", "fusion.siamese=32", "--device", "cpu", "--quiet"]
    command = [sys.executable, "-m", "laconic", "train", str(tmp_path / "data"), "--out", str(tmp_path / "model")]
    subprocess.run([*command, "--method", method, *options], env=environment, check=True)
    missed = kernels_in(tmp_path) - before
    assert {name.partition(".")[0] for name, _ in missed} <= _GROWING, sorted(missed)


def kernels_in(folder: Path) -> set[tuple[str, str]]:
    """Return the names and signatures of all kernels that a cache has."""
    found = set()
    for index in folder.rglob("*.index"):
        _, entries = pickle.loads(index.read_bytes()[32:])
        found |= {(index.name, str(key[0])) for key in entries}
    return found


def write_texts(folder: Path) -> None:
    folder.mkdir()
    corpus = made_up(with_label_texts=True)
    names, own = corpus.labels.names, corpus.labels.texts or ()
    for name, split in corpus.splits.items():
        labels = [[names[number] for number in row.indices] for row in split.labels]
        records = [{"text": text, "labels": row} for text, row in zip(split.texts or (), labels, strict=True)]
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    records = [{"id": name, "text": text} for name, text in zip(names, own, strict=True)]
    (folder / "labels.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))


def texts_of(corpus: Corpus) -> list[str]:
    return [*(corpus.split("train").texts or ())]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def waited_for(is_so: Any) -> bool:
    for _ in range(600):
        if is_so():
            return True
        time.sleep(0.1)
    return False
