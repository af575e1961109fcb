"""The speed of this machine's cores beside that of the machine on which training was timed, by a few small kernels.

Time is counted in which the kernel runs, not in which it waits for a core: what other processes leave of the cores is
measured by `share_of_cores`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

_SECONDS, _ROUNDS = 0.02, 3  # that each kernel is repeated for, and how often; the best round counts
_REFERENCE = (235.0, 1125.0, 5800.0)  # repetitions per second on one core of a Neoverse N1, as in Speed


class Speed(NamedTuple):
    """How many times as fast as the reference a core is."""

    products: float = 1.0  # of dense matrices
    memory: float = 1.0  # reading and writing more than the caches hold
    lookups: float = 1.0  # of rows by sparse features


def core_speed() -> Speed:
    """Measure the speed of one core, in a fifth of a second.

    The best of several rounds counts: what others on the same processor do in a moment slows down caches and memory.
    """
    kernels = (_products(), _memory(), _lookups())
    rates = ([_rate(kernel) / usual for kernel, usual in zip(kernels, _REFERENCE, strict=True)] for _ in range(_ROUNDS))
    return best_of(*(Speed(*one) for one in rates))


def best_of(*speeds: Speed) -> Speed:
    """Return the best of several measurements."""
    return Speed(*map(max, zip(*speeds, strict=True)))


def _products() -> Callable[[], object]:
    import torch

    one, other = torch.ones(256, 128), torch.ones(128, 2048)

    def multiply() -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        torch.mm(one, other)
        torch.set_num_threads(threads)

    return multiply


def _memory() -> Callable[[], object]:
    numbers = np.ones(1 << 22, dtype=np.float32)
    return lambda: np.add(numbers, 1.0, out=numbers)


def _lookups() -> Callable[[], object]:
    random = np.random.default_rng(0)
    texts, words, length = 2000, 50_000, 8
    columns = random.integers(0, words, texts * length, dtype=np.int32)
    starts = np.arange(0, texts * length + 1, length, dtype=np.int32)
    rows = csr_array((np.ones(texts * length, dtype=np.float32), columns, starts), shape=(texts, words))
    weights = np.ones((words, 8), dtype=np.float32)
    return lambda: rows @ weights


def _rate(kernel: Callable[[], object]) -> float:
    """Return how often a kernel runs in a second of its thread; the first run, which allocates, does not count."""
    kernel()
    began, times = time.thread_time(), 0
    while (taken := time.thread_time() - began) < _SECONDS:
        kernel()
        times += 1
    return max(times, 1) / max(taken, 1e-9)
