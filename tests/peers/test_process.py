"""A peer's process: what it leaves behind when it ends badly, and that it does not outlive whoever asked."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from laconic.analysis.peers.exam import Exam
from laconic.analysis.peers.process import PeerError, Questions, measured, write_work
from tests.planted import planted_texts

ROOT = Path(__file__).parents[2]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    exam = Exam.of(planted_texts(), "test", 10)
    questions = Questions(texts=exam.texts, names=exam.names, places=exam.places, k=5, singly=1)
    write_work(tmp_path, exam.examples, questions)
    return tmp_path


def test_an_end_without_an_answer_is_a_failure_even_if_it_looks_like_success(work: Path) -> None:
    with pytest.raises(PeerError, match="ended with code 0: it said nothing"):
        measured("tests.peers.toy:LEAVING", work, 0)


@pytest.mark.slow
def test_a_peer_goes_when_whoever_asked_is_killed(work: Path) -> None:
    asking = (
        f"import pathlib; from laconic.analysis.peers.process import measured as m; work = pathlib.Path({str(work)!r})"
    )
    command = [sys.executable, "-c", f"{asking}; m('tests.peers.toy:ENDLESS', work, 0)"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        _wait(lambda: (work / "0" / "model" / "begun").exists())
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if not children.exists():
            process.kill()
            pytest.skip("this system does not tell whose child a process is")
        [child] = children.read_text().split()
        process.send_signal(signal.SIGKILL)
    _wait(lambda: _ended(child))


def _ended(process: str) -> bool:
    """Gone, or a zombie that nobody has asked for yet."""
    status = Path(f"/proc/{process}/status")
    return not status.exists() or "State:\tZ" in status.read_text()


def _wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not until():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
