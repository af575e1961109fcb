"""Minutes of everything that a client may ask, right and wrong: the service's memory does not grow with it."""

from __future__ import annotations

from collections.abc import Sequence
from time import sleep
from typing import Any

import numpy as np

from benchmarks.chaos.claims import Claim, found_and_claimed
from benchmarks.chaos.loops import arrivals, open_loop, run
from benchmarks.chaos.processes import laconic_serve, on_core, two_cores
from benchmarks.chaos.trial import Trial, capacity, watched
from benchmarks.chaos.wire import question, request
from laconic.packed.folder import open_packed

_EVERY = 1.0  # seconds between looks
_FEW_DESCRIPTORS = 2  # that may differ between two looks
_SETTLING = 0.2  # share of the time after which growth counts


def soak(trial: Trial) -> dict[str, Any]:
    theirs, own = two_cores()
    requests = mixed(trial.texts[:2000], list(open_packed(trial.model).labels[:50]))
    seconds = trial.sizes.soak_seconds
    with on_core(own), laconic_serve(trial.model, log=trial.log("soak"), core=theirs) as server:
        rate = capacity(server, requests, trial.sizes.seconds) / 2
        work = open_loop(server.port, requests, arrivals(rate, seconds), connections=128)
        before = server.descriptors()
        tally, megabytes = run(watched(work, server, every=_EVERY))
        sleep(_EVERY)  # connections are closed
        more = server.descriptors() - before
    growth = growth_a_minute(megabytes)
    figures = {
        "seconds": seconds,
        "requests_a_second": round(rate, 1),
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
        Claim(f"in {seconds:g} s memory grows by less than 1 MB a minute", f"{growth:+.2f} MB", growth < 1),
        Claim("no file or connection stays open", f"{more:+d}", more <= _FEW_DESCRIPTORS),
        Claim("no request is lost, none gets a 5xx but 503", f"{tally.lost + failed}", tally.lost + failed == 0),
    )


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
