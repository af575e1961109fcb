"""A crash at any system call of a writer leaves the old model or the new one; a call that fails is one message."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.faults import CHECKPOINT, VERBS, crashes

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc"), reason="faults are injected by a library that is compiled here"
)


@pytest.mark.slow
@pytest.mark.parametrize("without_exchange", [False, True])
@pytest.mark.parametrize("verb", VERBS)
def test_a_kill_at_any_call_leaves_the_old_model_or_the_new_one(
    verb: str, without_exchange: bool, tmp_path: Path
) -> None:
    found = crashes(verb, tmp_path, without_exchange=without_exchange)
    assert not found.wrong
    assert found.points > 30
    assert found.old > 0
    assert found.new > 0


@pytest.mark.slow
@pytest.mark.parametrize("error", ["EIO", "EDQUOT", "ENOSPC"])
@pytest.mark.parametrize("verb", ["remove-labels", "update", "pack"])
def test_a_call_that_fails_leaves_the_old_model_or_the_new_one_and_no_traceback(
    verb: str, error: str, tmp_path: Path
) -> None:
    found = crashes(verb, tmp_path, error=error)
    assert not found.wrong
    assert found.points > 30


@pytest.mark.slow
def test_a_kill_at_any_call_leaves_the_old_checkpoint_or_the_new_one(tmp_path: Path) -> None:
    found = crashes(CHECKPOINT, tmp_path)
    assert not found.wrong
    assert found.old > 0
    assert found.new > 0


@pytest.mark.slow
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_call_that_fails_leaves_the_old_checkpoint_or_the_new_one(error: str, tmp_path: Path) -> None:
    assert not crashes(CHECKPOINT, tmp_path, error=error).wrong
