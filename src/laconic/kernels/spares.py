"""Scratch arrays that loops in threads use one after another: making them anew takes longer than many texts do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

A = TypeVar("A")


class Spares(Generic[A]):
    """Lends values, and makes one where all are lent. Whoever borrows one leaves it as it was."""

    def __init__(self, make: Callable[[], A]) -> None:
        self._make, self._free = make, list[A]()

    @contextmanager
    def lent(self) -> Iterator[A]:
        try:
            value = self._free.pop()
        except IndexError:
            value = self._make()
        yield value
        self._free.append(value)  # not after an error, which may have left it changed
