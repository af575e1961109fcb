"""`torchrun -m laconic train` and `laconic train --gpus`: one model, one voice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from laconic.cli.main import app
from laconic.cli.ranks import _without_gpus
from laconic.data.output import write_folder
from laconic.errors import ConfigError
from laconic.predict.load import open_folder
from tests.planted import planted_texts

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "FATAL"}
SMALL = ["--method", "inceptionxml", "--batch-size", "16", "--set", "embedding=16", "--device", "cpu"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]


def started(ranks: int, *words: str) -> subprocess.Popen[str]:
    command = [*TORCHRUN, str(ranks), "-m", "laconic", "train", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def run(ranks: int, *words: str) -> tuple[int, str, str]:
    process = started(ranks, *words)
    printed, told = process.communicate()
    return process.returncode, printed, told


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks") / "data"
    write_folder(planted_texts(num_labels=20, num_texts=200, with_label_texts=False), folder)
    return folder


def test_a_model_of_two_ranks_opens_packs_and_predicts_like_one_of_one(data: Path, tmp_path: Path) -> None:
    words = [str(data), *SMALL, "--epochs", "2"]
    together, one = (tmp_path / name for name in ("together", "alone"))
    code, printed, told = run(2, *words, "--out", str(together))
    assert code == 0, told
    assert told.count("training: 2 epochs") == 1, "the first rank alone reports"
    assert printed.count("together/packed") == 1
    app(["train", *words, "--no-pack", "--out", str(one)], standalone_mode=False)
    assert not (together / "run").exists()
    texts = ["baba bace", "difo cegu"]
    expected = open_folder(one, device="cpu").predict(texts, k=5)
    for folder in (together, together / "packed"):
        found = open_folder(folder, device="cpu").predict(texts, k=5)
        for ours, theirs in zip(found, expected, strict=True):
            assert [label for label, _ in ours] == [label for label, _ in theirs]
            np.testing.assert_allclose([score for _, score in ours], [score for _, score in theirs], rtol=1e-4)


@pytest.mark.slow
def test_the_default_is_chosen_by_one_rank_and_trained_by_all(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write_folder(planted_texts(num_labels=20, num_texts=600, with_label_texts=True), folder)
    code, printed, told = run(2, str(folder), "--device", "cpu", "--epochs", "3", "--out", str(tmp_path / "model"))
    assert code == 0, told
    assert told.count("Chosen: small Astec + label trees + nearest texts + label texts + siamese") == 1
    assert printed.count("model/packed") == 1
    predicted = open_folder(tmp_path / "model", device="cpu").predict(["baba bace", "difo cegu"], k=3)
    assert all(len(answer) == 3 for answer in predicted)


@pytest.mark.slow
def test_what_ranks_cannot_train_is_refused_once(data: Path, tmp_path: Path) -> None:
    code, _, told = run(2, str(data), "--method", "trees", "--out", str(tmp_path / "model"))
    assert code != 0
    assert told.count("error: trees cannot be trained by several processes") == 1
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpus", "64"], "--gpus must be at most the"),
        (["--gpus=2", "--device", "cpu"], "ranks on a CPU are started by torchrun --nproc-per-node 2"),
    ],
)
def test_gpus_that_are_not_there_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        app(["train", "debian-related", *words], standalone_mode=False)


@pytest.mark.parametrize("words", [["--gpus", "4"], ["--gpus=4"], []])
def test_ranks_get_the_command_without_the_number_of_gpus(words: list[str]) -> None:
    assert _without_gpus(["train", "data", *words, "--seed", "4"]) == ["train", "data", "--seed", "4"]


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_the_command_with_one_message_and_it_can_go_on(data: Path, tmp_path: Path) -> None:
    words = [str(data), *SMALL, "--epochs", "400", "--out", str(tmp_path / "model")]
    process = started(3, *words)
    log = tmp_path / "model" / "run" / "metrics.jsonl"
    while not (log.exists() and log.read_text().count("\n") > 3):
        assert process.poll() is None
        time.sleep(0.1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[1]), signal.SIGKILL)
    began = time.monotonic()
    told = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    assert told.count("lost contact with another rank") + told.count("interrupted; run the same command") == 1
    assert time.monotonic() - began < 60
