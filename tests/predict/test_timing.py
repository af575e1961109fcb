"""Texts are asked one by one and together, as often as was said, by the dial that was given; no time is asserted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from laconic.analysis import latency as timing
from laconic.analysis.latency import OwnProcess, Trial, opened, timed
from laconic.errors import UserError
from laconic.export.pack import pack
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed.folder import write_packed
from laconic.predict.load import Speed, packed_predictor
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.prediction import Prediction
from laconic.training.run import Run
from tests.planted import planted_texts

CORPUS = planted_texts(num_texts=40)


class Asked(PackedPredictor):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.questions = list[list[str]]()

    def predict(self, texts: Sequence[str], k: int = 5, **among: Any) -> list[list[Prediction]]:
        self.questions.append(list(texts))
        return [[Prediction("L0", 1.0)] * k for _ in texts]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setattr(timing, "_WARM_UP", 3)
    monkeypatch.setattr(timing, "_LEAST_SECONDS", 1e-4)
    return Asked()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = train_model(CORPUS, "nearest", config_of("nearest", {}), Run.unkept())
    packed = tmp_path_factory.mktemp("models") / "packed"
    write_packed(pack(model), packed)
    return packed


def test_texts_are_asked_singly_in_turn_and_then_together(asked: Asked) -> None:
    found = timed(asked, Trial(folder="packed", texts=["a", "b", "c"], singly=4))
    assert asked.questions[:7] == [["a"], ["b"], ["c"], ["a"], ["b"], ["c"], ["a"]]  # three to warm up, four that count
    assert asked.questions[7:]
    assert all(batch == ["a", "b", "c"] for batch in asked.questions[7:])
    assert found.singly == 4


def test_a_slow_model_is_not_asked_for_ever(asked: Asked) -> None:
    assert timed(asked, Trial(folder="packed", texts=["a", "b"], singly=10**9, longest=0.0)).singly == 1
    assert asked.questions[:2] == [["a"], ["a", "b"]]


@pytest.mark.parametrize("dial", [{}, {"beam": 3}, {"exact": True}])
def test_the_dial_is_turned(folder: Path, monkeypatch: pytest.MonkeyPatch, dial: dict[str, Any]) -> None:
    speeds: list[Speed] = []
    monkeypatch.setattr(
        timing, "packed_predictor", lambda packed, speed: speeds.append(speed) or packed_predictor(packed, speed)
    )
    assert opened(Trial(folder=str(folder), texts=["a"], **dial)).predict(["a"], 2)
    assert speeds == [Speed(**dial)]


@pytest.mark.slow
def test_a_process_of_its_own_answers_one_trial_after_another(folder: Path) -> None:
    trial = Trial(folder=str(folder), texts=list(CORPUS.split("test").texts or ()), singly=20)
    with OwnProcess() as process:
        first, second = process.ask(trial), process.ask(replace(trial, singly=5))
    assert (first.singly, second.singly) == (20, 5)
    for found in (first, second):
        assert 0 < found.p50 <= found.p99
        assert found.texts_a_second > 0
        assert found.private is None or found.private > 0
    assert not Path(f"/proc/{process.pid}").exists()


def test_a_process_that_ends_without_an_answer_is_an_error(tmp_path: Path) -> None:
    with OwnProcess() as process, pytest.raises(UserError, match=r"nowhere: .* ended with code 1"):
        process.ask(Trial(folder=str(tmp_path / "nowhere"), texts=["a"]))


def test_nothing_else_takes_part_in_that_process() -> None:
    """torch alone would take more memory than most packed models."""
    code = "import laconic.analysis.latency, sys; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
