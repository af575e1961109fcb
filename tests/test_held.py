"""Values that are held for kernels."""

from __future__ import annotations

import gc
import sys
from typing import NamedTuple

import numpy as np

from laconic.kernels.held import hold
from laconic.kernels.jit import compiled


class Pair(NamedTuple):
    left: np.ndarray
    right: np.ndarray


@compiled
def add_up(held, into):  # type: ignore[no-untyped-def]
    (pair, factor), limit = held.value
    for i in range(min(limit, len(into))):
        into[i] += factor * (pair.left[i] + pair.right[i])


def test_a_kernel_reads_what_is_held_again_and_again() -> None:
    held, into = hold(((Pair(np.arange(4.0), np.ones(4)), np.float32(2)), 3)), np.zeros(4)
    for _ in range(2):
        add_up(held, into)
    assert into.tolist() == [4, 8, 12, 0]


def test_held_arrays_are_kept_and_not_copied() -> None:
    left, into = np.zeros(2), np.zeros(2)
    held = hold(((Pair(left, np.zeros(2)), 1.0), 2))
    left[:] = 5
    add_up(held, into)
    assert into.tolist() == [5, 5]


def test_what_is_no_longer_held_is_let_go() -> None:
    left, right = np.zeros(2), np.ones(2)
    before = sys.getrefcount(left), sys.getrefcount(right)
    for _ in range(3):
        held = hold(((Pair(left, right), 1.0), 2))
        for _ in range(5):
            add_up(held, np.zeros(2))
        assert sys.getrefcount(left) > before[0]
        del held
        gc.collect()
        assert (sys.getrefcount(left), sys.getrefcount(right)) == before
