"""Told to stop while it is busy: whoever was let in is answered, and it ends soon and well."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from time import perf_counter
from typing import Any

from benchmarks.chaos.claims import Claim, exceptions, found_and_claimed, how_often
from benchmarks.chaos.connections import Connection
from benchmarks.chaos.loops import run
from benchmarks.chaos.processes import Server, laconic_serve, on_core, two_cores
from benchmarks.chaos.trial import Trial
from benchmarks.chaos.wire import question

_CLIENTS = 32
_BUSY = 0.5  # seconds before it is told
_SOON = 10.0


@dataclass
class Stopped:
    statuses: Counter[int] = field(default_factory=Counter)
    lost: int = 0  # requests without an answer, on connections that the server had let in
    turned_away: int = 0  # likewise, but on new connections that came too late to be let in
    seconds: float = 0.0  # from the signal to the end
    code: int | None = None


def stop(trial: Trial) -> dict[str, Any]:
    theirs, own = two_cores()
    requests = [question({"text": text}) for text in trial.texts[:2000]]
    found = []
    with on_core(own):
        for _ in range(trial.sizes.stops):
            with laconic_serve(trial.model, log=trial.log("stop"), core=theirs) as server:
                found.append(run(stopped(server, requests)))
    lost, longest = sum(one.lost for one in found), max(one.seconds for one in found)
    codes = Counter(str(one.code) for one in found)
    strange = sum(one.statuses.total() - one.statuses[200] - one.statuses[503] for one in found)
    figures = {
        "stops": len(found),
        "answered": sum(one.statuses.total() for one in found),
        "refused": sum(one.statuses[503] for one in found),
        "lost": lost,
        "turned_away_at_the_end": sum(one.turned_away for one in found),
        "longest_seconds": round(longest, 2),
        "exit_codes": dict(codes),
    }
    return found_and_claimed(
        figures,
        Claim(f"stopped {len(found)} times under load, no accepted request is lost", exceptions(lost), lost == 0),
        Claim("answers are 200 or 503", exceptions(strange), strange == 0),
        Claim("it ends with 0", how_often(codes), set(codes) == {"0"}),
        Claim("within 10 s", f"{longest:.2f} s", longest <= _SOON),
    )


async def stopped(server: Server, requests: Sequence[bytes], signal_number: int = signal.SIGTERM) -> Stopped:
    """Clients that go on until nobody takes their connections, and a server that is told to stop meanwhile."""
    found, asking = Stopped(), cycle(requests)
    clients = [asyncio.create_task(_client(server.port, asking, found)) for _ in range(_CLIENTS)]
    await asyncio.sleep(_BUSY)
    told = perf_counter()
    server.process.send_signal(signal_number)
    await asyncio.wait_for(asyncio.gather(*clients), 60)
    found.code = await asyncio.to_thread(server.process.wait, 60)
    found.seconds = perf_counter() - told
    return found


async def _client(port: int, asking: Iterator[bytes], found: Stopped) -> None:
    while True:
        try:
            connection = await Connection.to(port)
        except OSError:
            return
        while connection.open:
            answer = await connection.ask(next(asking))
            if answer is not None:
                found.statuses[answer.status] += 1
            elif connection.answers:
                found.lost += 1
            else:
                found.turned_away += 1
