"""Clients that never finish what they say: others must not notice, and they must not stay."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from benchmarks.chaos.claims import Claim, exceptions, found_and_claimed
from benchmarks.chaos.connections import HOST
from benchmarks.chaos.loops import Tally, arrivals, open_loop, run
from benchmarks.chaos.processes import laconic_serve, on_core, two_cores
from benchmarks.chaos.trial import Trial, capacity
from benchmarks.chaos.wire import question

_HEADERS = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
# What a client says at once, and what it then repeats, a byte a second.
KINDS = {
    "half-sent headers": (_HEADERS[:50], b""),
    "headers a byte a second": (_HEADERS + b"x-slow: ", b"a"),
    "a body a byte a second": (_HEADERS + b"content-length: 900\r\n\r\n", b" "),
}
_GONE = 30.0  # seconds by which the server must have closed all of them
_PAUSE = 1.0


@dataclass
class Crowd:
    """Slow clients; for each that is sent away another comes, until they are to end."""

    port: int
    size: int
    ages: list[float] = field(default_factory=list)  # seconds that each was kept for
    ended: bool = False
    _here: set[_Slow] = field(default_factory=set)
    _coming: set[asyncio.Task[None]] = field(default_factory=set)

    async def come(self) -> None:
        kinds = list(KINDS.values())
        for number in range(self.size):
            await self._one(*kinds[number % len(kinds)])

    async def drip(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE)
            for slow in list(self._here):
                slow.drip()

    async def leave(self) -> int:
        """How many the server still keeps when all should be gone."""
        self.ended, end = True, perf_counter() + _GONE + 2
        while self._here and perf_counter() < end:
            await asyncio.sleep(0.1)
        return len(self._here)

    def disperse(self) -> None:
        """They go of themselves."""
        self.ended = True
        for slow in self._here:
            slow.go()

    def lost(self, slow: _Slow) -> None:
        self._here.discard(slow)
        self.ages.append(perf_counter() - slow.came)
        if not self.ended:
            task = asyncio.get_running_loop().create_task(self._one(slow.says, slow.repeats))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    async def _one(self, says: bytes, repeats: bytes) -> None:
        loop = asyncio.get_running_loop()
        _, slow = await loop.create_connection(lambda: _Slow(self, says, repeats), HOST, self.port)
        self._here.add(slow)


class _Slow(asyncio.Protocol):
    def __init__(self, crowd: Crowd, says: bytes, repeats: bytes) -> None:
        self.came, self.says, self.repeats, self._crowd = perf_counter(), says, repeats, crowd

    def connection_made(self, transport: Any) -> None:  # uvloop's are no asyncio.Transport
        self._transport = transport
        transport.write(self.says)

    def drip(self) -> None:
        if self.repeats and not self._transport.is_closing():
            self._transport.write(self.repeats)

    def go(self) -> None:
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.lost(self)


def slow(trial: Trial) -> dict[str, Any]:
    theirs, own = two_cores()
    requests = [question({"text": text}) for text in trial.texts[:2000]]
    with on_core(own), laconic_serve(trial.model, log=trial.log("slow"), core=theirs) as server:
        rate = capacity(server, requests, trial.sizes.seconds) / 2
        due = arrivals(rate, trial.sizes.seconds)
        before = run(open_loop(server.port, requests, due, connections=64))
        crowd = Crowd(server.port, trial.sizes.slow_clients)
        among, kept = run(among_slow(crowd, requests, due))
    times = among.milliseconds(99) / before.milliseconds(99)
    figures = {
        "requests_a_second": round(rate, 1),
        "slow_clients": crowd.size,
        "p99_ms_without": before.milliseconds(99),
        "p99_ms_among_slow": among.milliseconds(99),
        "p50_ms_without": before.milliseconds(50),
        "p50_ms_among_slow": among.milliseconds(50),
        "slow_ones_closed": len(crowd.ages),
        "kept_at_most_seconds": round(max(crowd.ages, default=0.0), 1),
    }
    oldest, failed = max(crowd.ages, default=0.0), unanswered(among)
    return found_and_claimed(
        figures,
        Claim(f"p99 among {crowd.size} slow clients is at most 1.5 times as long", f"{times:.2f} times", times <= 1.5),
        Claim("every other request is answered", exceptions(failed), failed == 0),
        Claim("slow clients are gone after 30 s", f"{kept} stay, {oldest:.1f} s", kept == 0 and oldest <= _GONE),
    )


async def among_slow(crowd: Crowd, requests: Sequence[bytes], due: Any) -> tuple[Tally, int]:
    """What became of the requests, and how many slow clients the server never sent away."""
    dripping = asyncio.create_task(crowd.drip())
    await crowd.come()
    tally = await open_loop(crowd.port, requests, due, connections=64)
    kept = await crowd.leave()
    dripping.cancel()
    return tally, kept


def unanswered(tally: Tally) -> int:
    return tally.lost + tally.unsent + sum(count for status, count in tally.statuses.items() if status != 200)
