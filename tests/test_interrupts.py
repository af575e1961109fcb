"""Interrupts of a verb that changes a model."""

from __future__ import annotations

import ctypes
import signal
import sys
import time

import pytest
import typer

from laconic.cli.interrupts import RESUME, interruptible

CALLBACK = ctypes.CFUNCTYPE(None)


def interrupt_in_callback(number: int) -> None:
    """Be interrupted where Python ignores errors: in a function that compiled code calls."""

    def interrupted() -> None:
        signal.raise_signal(number)
        time.sleep(0)

    CALLBACK(interrupted)()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interrupt_that_was_lost_comes_again(number: int, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler), sys.unraisablehook
    try:
        with pytest.raises(typer.Exit) as left, interruptible(RESUME):
            interrupt_in_callback(number)
            for _ in range(500):
                time.sleep(0.01)
    finally:
        signal.signal(signal.SIGINT, before[0])
    assert left.value.exit_code == code
    assert RESUME in capsys.readouterr().err
    assert sys.unraisablehook is before[1]


def test_what_fails_because_of_a_lost_interrupt_ends_as_one() -> None:
    with pytest.raises(typer.Exit) as left, interruptible(RESUME):
        interrupt_in_callback(signal.SIGTERM)
        raise RuntimeError("no compiled object yet")
    assert left.value.exit_code == 143


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match="of another kind"), interruptible(RESUME):
        raise RuntimeError("of another kind")
