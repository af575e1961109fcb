"""Values that a thread computes while others work, such as label trees on the cores while a GPU trains."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Event, Thread
from time import perf_counter
from typing import Generic, TypeVar

A = TypeVar("A")
Advance = Callable[[float], None]  # gets the fraction that is done, time and again


class _StoppedError(Exception):
    """Nobody waits for the value any more."""


class Background(Generic[A]):
    """A value on its way. The computation must report its progress now and then, and is stopped at such a moment."""

    def __init__(self, compute: Callable[[Advance], A]) -> None:
        self.seconds = 0.0  # that the computation took, once it is done
        self._compute, self._stopped, self._done = compute, Event(), Future[A]()
        self._advance: Advance = lambda fraction: None
        Thread(target=self._run, daemon=True, name="laconic-background").start()

    def result(self, advance: Advance) -> A:
        """Wait for the value, and raise what its computation raised; `advance` gets its progress from now on."""
        self._advance = advance
        return self._done.result()

    def wait(self) -> None:
        """Wait until the computation has ended, however it ends."""
        wait([self._done])

    def stop(self) -> None:
        """End the computation at its next report, if it is not done before."""
        self._stopped.set()

    def _run(self) -> None:
        began = perf_counter()
        try:
            found = self._compute(self._report)
        except BaseException as error:  # noqa: BLE001 - whoever waits for the value raises it
            self._done.set_exception(error)
        else:
            self.seconds = perf_counter() - began
            self._done.set_result(found)

    def _report(self, fraction: float) -> None:
        if self._stopped.is_set():
            raise _StoppedError
        self._advance(fraction)
