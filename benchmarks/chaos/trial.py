"""What every experiment is given: a packed model, texts to ask it, how much of everything, and a folder for scraps."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.chaos.loops import A, closed_loop, lasting, run
from benchmarks.chaos.processes import Server, memory_of

_CLIENTS = 32  # of the closed loop that tells the capacity
_OFTEN = 0.25  # seconds between looks at the memory


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much of everything; seconds where nothing else is said."""

    seconds: float = 10.0  # of each load
    soak_seconds: float = 300.0
    soak_load: float = 0.5  # of the capacity
    soak_pause: float = 20.0  # between two swaps of a soak
    connections: int = 512  # that an open loop may use
    slow_clients: int = 500
    stops: int = 20
    swaps: int = 100
    requests: int = 100_000  # whose answers are compared with offline ones
    examples: int = 200  # that schemathesis makes up for every path

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise SystemExit(f"{field.name} must be more than 0, but is {getattr(self, field.name)}")


@dataclass(frozen=True, kw_only=True)
class Trial:
    model: Path  # packed
    texts: Sequence[str]
    sizes: Sizes
    folder: Path  # for logs and copies

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def capacity(server: Server, requests: Sequence[bytes], seconds: float) -> float:
    """Good answers a second to clients that wait for each: the median of three runs."""
    closed_for(server, requests, seconds / 3)  # what is compiled, mapped or allocated once
    rates = [closed_for(server, requests, seconds / 3) for _ in range(3)]
    return median(rates)


def closed_for(server: Server, requests: Sequence[bytes], seconds: float) -> float:
    return run(closed_loop(server.port, lasting(seconds, requests), connections=_CLIENTS)).goodput()


async def watched(work: Coroutine[Any, Any, A], server: Server, every: float = _OFTEN) -> tuple[A, list[float]]:
    """What the work gives, and the server's megabytes meanwhile."""
    pids, found = server.pids(), [server.memory()]

    async def look() -> None:
        while True:
            await asyncio.sleep(every)
            found.append(memory_of(pids))

    looking = asyncio.create_task(look())
    try:
        return await work, found
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
