"""Ctrl-C and SIGTERM while a verb changes a model: a message and an exit code instead of a traceback."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from laconic.cli.options import err

RESUME = "interrupted; run the same command again to resume"
UNCHANGED = "interrupted; nothing was changed"
_AGAIN = 0.2  # seconds after which an interrupt that was lost comes again


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which is handled like Ctrl-C."""


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """Print the message when the block is interrupted by Ctrl-C (exit code 130) or by SIGTERM (143)."""

    def terminate(number: int, frame: Any) -> None:
        raise _Terminated

    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, terminate) if in_main else None
    with _found_again() as lost:
        try:
            yield
        except Exception as error:
            if not lost:
                raise
            _leave(message, lost[0], error)  # what was interrupted without knowing it has failed
        except KeyboardInterrupt as error:
            _leave(message, error, error)
        finally:
            if in_main:
                signal.signal(signal.SIGTERM, before)


def _leave(message: str, interrupt: BaseException, cause: BaseException) -> None:
    err.print(message)
    raise typer.Exit(128 + _number_of(interrupt)) from (None if interrupt is cause else cause)


def _number_of(interrupt: BaseException) -> int:
    return signal.SIGTERM if isinstance(interrupt, _Terminated) else signal.SIGINT


@contextmanager
def _found_again() -> Iterator[list[BaseException]]:
    """Send an interrupt again that came where Python ignores errors, as in a compiler's callback; yield those lost."""
    lost, timers, before = list[BaseException](), list[threading.Timer](), sys.unraisablehook

    def hook(ignored: Any) -> None:
        if not isinstance(ignored.exc_value, KeyboardInterrupt):
            before(ignored)
            return
        lost.append(ignored.exc_value)
        timers.append(threading.Timer(_AGAIN, os.kill, (os.getpid(), _number_of(ignored.exc_value))))
        timers[-1].start()

    sys.unraisablehook = hook
    try:
        yield lost
    finally:
        sys.unraisablehook = before
        for timer in timers:
            timer.cancel()
