"""Minutes of everything that a client may ask, right and wrong, while models are exchanged: memory does not grow."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from time import sleep
from typing import Any

import numpy as np

from benchmarks.chaos.claims import Claim, found_and_claimed
from benchmarks.chaos.loops import Tally, arrivals, open_loop, run
from benchmarks.chaos.models import put
from benchmarks.chaos.processes import laconic_serve, on_core, two_cores
from benchmarks.chaos.swap import Swapper, two_versions
from benchmarks.chaos.trial import Trial, capacity, watched
from benchmarks.chaos.wire import question, request
from laconic.packed.folder import open_packed

_EVERY = 1.0  # seconds between looks
_SETTLED = 10.0  # seconds after the last request
_FEW_DESCRIPTORS = 2  # that may differ between two looks
_SETTLING = 0.2  # share of the time after which growth counts


def soak(trial: Trial) -> dict[str, Any]:
    theirs, own = two_cores()
    requests = mixed(trial.texts[:2000], list(open_packed(trial.model).labels[:50]))
    seconds, place = trial.sizes.soak_seconds, trial.folder / "served"
    versions = two_versions(trial.model, trial.folder, trial.texts[:1])
    put(versions[0].folder, place)
    with on_core(own), laconic_serve(place, log=trial.log("soak"), core=theirs) as server:
        rate = capacity(server, requests, trial.sizes.seconds) * trial.sizes.soak_load
        swapper = Swapper(server, place, versions, pause=trial.sizes.soak_pause)
        work = open_loop(server.port, requests, arrivals(rate, seconds), connections=128)
        before = server.descriptors()
        tally, megabytes = run(watched(_swapped_meanwhile(work, swapper), server, every=_EVERY))
        sleep(_SETTLED)  # connections are closed, and a trial has ended
        more = server.descriptors() - before
    growth = growth_a_minute(megabytes)
    figures = {
        "seconds": seconds,
        "requests_a_second": round(rate, 1),
        "swaps": swapper.swapped.taken,
        "statuses": {str(status): count for status, count in sorted(tally.statuses.items())},
        "lost": tally.lost,
        "more_descriptors": more,
        "megabytes_at_first": round(megabytes[0], 1),
        "megabytes_at_last": round(megabytes[-1], 1),
        "megabytes_a_minute": round(growth, 3),
    }
    failed = sum(count for status, count in tally.statuses.items() if status >= 500 and status != 503)
    return found_and_claimed(
        figures,
        Claim(
            f"in {seconds:g} s and {swapper.swapped.taken} swaps memory grows by less than 1 MB a minute",
            f"{growth:+.2f} MB",
            growth < 1,
        ),
        Claim("no file or connection stays open", f"{more:+d}", more <= _FEW_DESCRIPTORS),
        Claim("no request is lost, none gets a 5xx but 503", f"{tally.lost + failed}", tally.lost + failed == 0),
    )


async def _swapped_meanwhile(work: Coroutine[Any, Any, Tally], swapper: Swapper) -> Tally:
    """Do the work while models are exchanged."""
    swapping = asyncio.create_task(swapper.swap(10**6))
    try:
        return await work
    finally:
        swapping.cancel()
        with suppress(asyncio.CancelledError):
            await swapping


def mixed(texts: Sequence[str], labels: Sequence[str]) -> list[bytes]:
    """Of twenty requests fifteen are simple; the others ask for more, or are wrong, or take their leave."""
    rare = [
        lambda text: question({"texts": [text, *texts[:9]], "k": 20}),
        lambda text: question({"text": text, "explain": True}),
        lambda text: question({"text": text, "allow": labels, "block": labels[:5], "min_score": 0.01}),
        lambda text: question({"text": text, "k": 0}),
        lambda text: request("GET", f"/{len(text)}", headers={"connection": "close"}),
    ]
    return [
        rare[number // 4 % len(rare)](text) if number % 4 == 3 else question({"text": text})
        for number, text in enumerate(texts)
    ]


def growth_a_minute(megabytes: Sequence[float]) -> float:
    """The slope of the straight line through what was seen after settling."""
    settled = megabytes[int(_SETTLING * len(megabytes)) :]
    minutes = np.arange(len(settled)) * _EVERY / 60
    return float(np.polyfit(minutes, settled, 1)[0]) if len(settled) > 1 else 0.0
