"""Run a function over many values in several processes, or in this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Protocol, TypeVar

from laconic.errors import UserError

V = TypeVar("V")
R = TypeVar("R")


class RunAll(Protocol):
    """Return the results of a function for values, in their order."""

    def __call__(self, function: Callable[[V], R], values: Iterable[V], /) -> Iterator[R]: ...


@contextmanager
def processes(count: int) -> Iterator[RunAll]:
    """Yield what runs functions of a module in so many processes; of one, it is this process, and they run in turn."""
    if count == 1:
        yield map
        return
    # Not forked: a forked process has none of the threads of its parent's libraries, but all of their locks.
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"))
    try:
        yield pool.map
    except BrokenProcessPool:
        raise UserError("a process was killed, as for want of memory; use fewer of them (--workers)") from None
    finally:
        pool.shutdown(cancel_futures=True)
