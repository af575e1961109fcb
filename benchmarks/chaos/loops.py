"""Load on a server: an open loop sends when it is time, whatever the server does; a closed loop waits for answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Float

from benchmarks.chaos.connections import Connection
from benchmarks.chaos.wire import Answer

try:
    from uvloop import new_event_loop
except ImportError:  # three times as slow, but as right
    from asyncio import new_event_loop

A = TypeVar("A")
Look: TypeAlias = Callable[[int, Answer], None]  # at the answer to the request of that number
_LEAD = 0.001  # seconds before the next request is due from which the loop no longer sleeps
_AT_ONCE = 16  # requests that are sent before answers are looked at, however many are due


@dataclass(repr=False)
class Tally:
    """What became of requests; times are in seconds."""

    statuses: Counter[int] = field(default_factory=Counter)
    good: list[float] = field(default_factory=list)  # from when a request was to be sent to its answer, where 200
    late: list[float] = field(default_factory=list)  # from when a request was to be sent to when it was
    lost: int = 0  # sent, but the connection ended without an answer
    unsent: int = 0  # no connection was free
    seconds: float = 0.0

    def add(self, answer: Answer | None, seconds: float) -> None:
        if answer is None:
            self.lost += 1
            return
        self.statuses[answer.status] += 1
        if answer.status == 200:
            self.good.append(seconds)

    def goodput(self, within: float = float("inf")) -> float:
        """Good answers a second: those that came within so many seconds."""
        return sum(seconds <= within for seconds in self.good) / self.seconds

    def milliseconds(self, percent: float) -> float:
        return round(1000 * float(np.percentile(self.good, percent)), 2) if self.good else float("nan")


def arrivals(rate: float, seconds: float, seed: int = 0) -> Float[np.ndarray, "n"]:
    """When requests are to be sent: as of many clients that know nothing of each other (Poisson)."""
    gaps = np.random.default_rng(seed).exponential(1 / rate, size=max(1, round(rate * seconds)))
    return np.cumsum(gaps)


def run(work: Coroutine[Any, Any, A]) -> A:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def lasting(seconds: float, requests: Sequence[bytes]) -> Iterator[bytes]:
    end = perf_counter() + seconds
    for request in cycle(requests):
        if perf_counter() > end:
            return
        yield request


async def closed_loop(
    port: int, requests: Iterable[bytes], *, connections: int, look: Look = lambda number, answer: None
) -> Tally:
    """So many clients, each of which asks what is next when it has its answer; all end with the requests."""
    tally, numbered, began = Tally(), enumerate(requests), perf_counter()

    async def client() -> None:
        connection = await Connection.to(port)
        for number, request in numbered:
            if not connection.open:
                connection = await Connection.to(port)
            sent = perf_counter()
            answer = await connection.ask(request)
            tally.add(answer, perf_counter() - sent)
            if answer is not None:
                look(number, answer)
        connection.close()

    await asyncio.gather(*(client() for _ in range(connections)))
    tally.seconds = perf_counter() - began
    return tally


async def open_loop(
    port: int, requests: Sequence[bytes], due: Float[np.ndarray, "n"], *, connections: int = 512
) -> Tally:
    """Sends each at its time. One for which no connection is free is not sent at all, and counted as such."""
    sender = _Sender(port)
    await sender.open(connections)
    await sender.send_all(requests, due)
    await sender.end()
    return sender.tally


class _Sender:
    def __init__(self, port: int) -> None:
        self.tally = Tally()
        self._port, self._under_way, self._start = port, 0, 0.0
        self._idle: list[Connection] = []  # the last one back goes first: few are in use where few will do
        self._opening: set[asyncio.Task[None]] = set()

    async def open(self, connections: int) -> None:
        await asyncio.gather(*(self._open() for _ in range(connections)))

    async def send_all(self, requests: Sequence[bytes], due: Float[np.ndarray, "n"]) -> None:
        self._start = perf_counter()
        for number, (time, request) in enumerate(zip(due.tolist(), cycle(requests), strict=False)):
            while (ahead := time - (perf_counter() - self._start)) > 0:
                await asyncio.sleep(max(0, ahead - _LEAD))
            self._send(request, time)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        self.tally.seconds = perf_counter() - self._start

    async def end(self, patience: float = 30) -> None:
        """After the last answer."""
        end = perf_counter() + patience
        while self._under_way and perf_counter() < end:
            await asyncio.sleep(0.01)
        self.tally.lost += self._under_way
        for connection in self._idle:
            connection.close()

    def _send(self, request: bytes, time: float) -> None:
        connection = self._free()
        if connection is None:
            self.tally.unsent += 1
            return
        self._under_way += 1
        self.tally.late.append(perf_counter() - self._start - time)
        connection.send(request, partial(self._answered, connection, time))

    def _free(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.open:
                return connection
            self._reopen()
        return None

    def _answered(self, connection: Connection, time: float, answer: Answer | None) -> None:
        self._under_way -= 1
        self.tally.add(answer, perf_counter() - self._start - time)
        if connection.open:
            self._idle.append(connection)
        else:
            self._reopen()

    def _reopen(self) -> None:
        task = asyncio.get_running_loop().create_task(self._open_again())
        self._opening.add(task)  # or nobody would hold it
        task.add_done_callback(self._opening.discard)

    async def _open_again(self) -> None:
        with suppress(OSError):  # a server that takes no more is seen in what is not sent
            await self._open()

    async def _open(self) -> None:
        self._idle.append(await Connection.to(self._port))
