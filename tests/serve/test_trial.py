"""A changed model is tried in a process of its own, whatever it does there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from laconic.errors import ModelError
from laconic.predict.load import Speed
from laconic.serve import trial as module
from laconic.serve.model import Served
from laconic.serve.trial import GivenUp, try_in_own_process
from laconic.storage.manifest import version_of
from tests.serve.small import in_process, write

SPEED = Speed(threads=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "model")


def never() -> bool:
    return False


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models never answer."""
    monkeypatch.setattr(module, "_MODULE", "tests.serve.stuck")


def test_a_good_model_passes_and_a_bad_one_is_refused_by_its_own_message(folder: Path) -> None:
    assert try_in_own_process(folder, SPEED, never) == version_of(folder / "packed")
    (folder / "packed" / "labels.utf8").unlink()
    with pytest.raises(ModelError, match=r"labels\.utf8"):
        try_in_own_process(folder, SPEED, never)


@pytest.mark.usefixtures("stuck")
def test_a_model_that_never_answers_is_refused_when_its_time_is_over(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"model: it did not open and answer a text within 0\.5 seconds"):
        try_in_own_process(folder, SPEED, never, seconds=0.5)


@pytest.mark.usefixtures("stuck")
def test_a_model_that_never_answers_does_not_keep_a_later_one_out(folder: Path) -> None:
    def trial(model: Path, speed: Speed, unwanted: Callable[[], bool]) -> str:
        return try_in_own_process(model, speed, lambda: bool(write(folder, neighbours=1)) and unwanted())

    served, told = Served(folder, SPEED, trial=trial), list[str]()
    assert not served.refresh(told.append)
    assert not told
    assert served.changed()
    served._trial = in_process
    assert served.refresh(told.append)
    assert told == ["taken"]


@pytest.mark.usefixtures("stuck")
def test_closing_ends_a_trial(folder: Path) -> None:
    served = Served(folder, SPEED)
    served.close()
    assert not served.refresh()


@pytest.mark.usefixtures("stuck")
def test_no_process_is_left_of_a_trial_that_was_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    popen = module.subprocess.Popen

    def remembered(*arguments: object, **options: object) -> object:
        started.append(popen(*arguments, **options))  # type: ignore[call-overload]  # whatever the caller gave
        return started[-1]

    monkeypatch.setattr(module.subprocess, "Popen", remembered)
    with pytest.raises(GivenUp):
        try_in_own_process(folder, SPEED, lambda: bool(started))
    assert started[0].returncode == -9


def test_why_a_process_ended_is_told() -> None:
    assert module._why(-9, b"", 1.0) == "the process that tried it was ended by signal 9 (Killed)"
    said = b"Traceback (most recent call last):\n ...\nMemoryError: Unable to allocate 16.0 GiB\n"
    assert module._why(1, said, 1.0).endswith("exit code 1 (MemoryError: Unable to allocate 16.0 GiB)")
