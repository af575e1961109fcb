"""More than the service can do: what it still does, how long that takes, what it needs; beside a bare application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from benchmarks.chaos.bare import bare_serve
from benchmarks.chaos.claims import Claim, exceptions, found_and_claimed
from benchmarks.chaos.loops import arrivals, closed_loop, lasting, open_loop, run
from benchmarks.chaos.processes import Server, haproxy, laconic_serve, on_core, two_cores
from benchmarks.chaos.trial import Trial, capacity, watched
from benchmarks.chaos.wire import question

TIMES = (0.5, 1.0, 2.0, 4.0)  # the capacity
ANNIF = 8.0  # milliseconds, the median of Annif's REST interface on the same data; a given figure, not measured here
_DEADLINE = 1.0  # seconds, of the service's own defaults
_MOST_TEXTS = 2000


def load(trial: Trial) -> dict[str, Any]:
    theirs, own = two_cores()
    requests = [question({"text": text}) for text in trial.texts[:_MOST_TEXTS]]
    with on_core(own):
        with laconic_serve(trial.model, log=trial.log("load"), core=theirs) as server:
            served = _measured(server, requests, trial)
        with bare_serve(trial.model, log=trial.log("bare"), core=theirs) as server:
            bare = _measured(server, requests, trial, rates=[one["offered"] for one in served["loads"]])
    return found_and_claimed({"laconic": served, "bare": bare, "annif_p50_ms": ANNIF}, *_claims(served))


def proxied(trial: Trial) -> dict[str, Any]:
    """Measure loads with HAProxy in front, on the service's core, by the configuration that we deliver."""
    theirs, own = two_cores()
    requests = [question({"text": text}) for text in trial.texts[:_MOST_TEXTS]]
    with (
        on_core(own),
        laconic_serve(trial.model, log=trial.log("behind"), core=theirs) as behind,
        haproxy(behind, trial.folder, core=theirs) as front,
    ):
        served = _measured(front, requests, trial, watching=behind)
    return found_and_claimed({"laconic": served}, *_claims(served, "behind HAProxy: "))


def shown(figures: Mapping[str, Any]) -> str:
    """The loads, a line each."""
    lines = [f"{'':8} {'offered':>8} {'sent':>8} {'goodput':>8} {'p50 ms':>8} {'p99 ms':>8} {'MB':>7}  answers"]
    for name in (name for name in ("laconic", "bare") if name in figures):
        for one in figures[name]["loads"]:
            numbers = [one[key] for key in ("offered", "sent", "goodput", "p50_ms", "p99_ms")]
            row = " ".join(f"{number:8,.1f}" for number in numbers)
            lines.append(f"{name:8} {row} {one['megabytes'][1]:7.1f}  {one['statuses']}, {one['lost']} lost")
        alone = figures[name]["one_at_a_time"]
        lines.append(f"{name:8} one at a time: p50 {alone['p50_ms']} ms, p99 {alone['p99_ms']} ms")
    if "annif_p50_ms" in figures:
        lines.append(f"{'Annif':8} p50 {figures['annif_p50_ms']} ms")
    return "\n".join(lines)


def _measured(
    server: Server,
    requests: Sequence[bytes],
    trial: Trial,
    rates: Sequence[float] | None = None,
    watching: Server | None = None,
) -> dict[str, Any]:
    """What a server answers, and the memory of that server or of another behind it."""
    seconds = trial.sizes.seconds
    most = capacity(server, requests, seconds)
    alone = run(closed_loop(server.port, lasting(seconds / 3, requests), connections=1))
    return {
        "capacity": round(most, 1),
        "one_at_a_time": {"p50_ms": alone.milliseconds(50), "p99_ms": alone.milliseconds(99)},
        "loads": [
            _under(rate, server, requests, trial, watching or server)
            for rate in rates or [times * most for times in TIMES]
        ],
    }


def _under(rate: float, server: Server, requests: Sequence[bytes], trial: Trial, watching: Server) -> dict[str, Any]:
    """Requests a second, a figure each."""
    due = arrivals(rate, trial.sizes.seconds)
    work = open_loop(server.port, requests, due, connections=trial.sizes.connections)
    tally, megabytes = run(watched(work, watching))
    return {
        "offered": round(rate, 1),
        "sent": round(len(tally.late) / tally.seconds, 1),
        "goodput": round(tally.goodput(within=_DEADLINE), 1),
        "p50_ms": tally.milliseconds(50),
        "p99_ms": tally.milliseconds(99),
        "statuses": {str(status): count for status, count in sorted(tally.statuses.items())},
        "lost": tally.lost,
        "unsent": tally.unsent,
        "sent_late_p99_ms": round(1000 * float(np.percentile(tally.late, 99)), 2),
        "megabytes": [round(value, 1) for value in (min(megabytes), median(megabytes), max(megabytes))],
    }


def _claims(served: Mapping[str, Any], where: str = "") -> list[Claim]:
    loads = served["loads"]
    usual, worst = loads[0]["megabytes"][1], loads[-1]
    share = worst["goodput"] / max(one["goodput"] for one in loads)
    low, high = (100 * (worst["megabytes"][place] / usual - 1) for place in (0, 2))
    strange = sum(one["lost"] for one in loads) + sum(
        count for one in loads for status, count in one["statuses"].items() if status not in ("200", "503")
    )
    alone, slowest = served["one_at_a_time"]["p50_ms"], worst["p99_ms"]
    return [
        Claim(f"{where}goodput at 4 times capacity is 90 % of peak or more", f"{100 * share:.1f} %", share >= 0.9),
        Claim(f"{where}memory then stays within 5 %", f"{low:+.1f} .. {high:+.1f} %", low >= -5 and high <= 5),
        Claim(f"{where}p99 of what is accepted then is within 1,000 ms", f"{slowest} ms", slowest <= 1000),
        Claim(f"{where}answers are 200 or 503, and none is lost", exceptions(strange), strange == 0),
        Claim(f"{where}one at a time, p50 is below Annif's {ANNIF:g} ms", f"{alone} ms", alone < ANNIF),
    ]
