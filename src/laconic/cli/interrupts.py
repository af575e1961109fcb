"""Ctrl-C and SIGTERM while a verb changes a model: a message and an exit code instead of a traceback."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from laconic.cli.options import err

RESUME = "interrupted; run the same command again to resume"
UNCHANGED = "interrupted; nothing was changed"


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which is handled like Ctrl-C."""


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """Print the message when the block is interrupted by Ctrl-C (exit code 130) or by SIGTERM (143)."""

    def terminate(number: int, frame: Any) -> None:
        raise _Terminated

    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, terminate) if in_main else None
    try:
        yield
    except KeyboardInterrupt as error:
        err.print(message)
        number = signal.SIGTERM if isinstance(error, _Terminated) else signal.SIGINT
        raise typer.Exit(128 + number) from None
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, before)
