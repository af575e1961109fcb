"""Requests that nobody honest sends: every one is refused in few words, and the service is there afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.serve.hostile import corpus
from tests.serve.hostile_case import TOKEN, Hostile, complaints

from benchmarks.chaos.claims import Claim, exceptions, found_and_claimed
from benchmarks.chaos.exchange import exchange
from benchmarks.chaos.fuzzing import fuzzed
from benchmarks.chaos.processes import Server, laconic_serve, on_core, two_cores
from benchmarks.chaos.trial import Trial

_SLOWEST_REFUSAL = 0.05  # seconds, of a body that is far too large
_TRIES = 5


def hostile(trial: Trial) -> dict[str, Any]:
    theirs, own = two_cores()
    with on_core(own), guarded_serve(trial.model, trial.folder, core=theirs) as server:
        pids, cases = server.pids(), corpus()
        said = attacked(server, cases)
        seconds = {case.name: _refused_in(server, case) for case in cases if "50 MB" in case.name}
        made_up = fuzzed(server.port, TOKEN, trial.sizes.examples, trial.folder)
        same, log = server.pids() == pids, server.log.read_text()
    if made_up.failures:
        print(made_up.said)
    figures = {
        "requests": len(cases),
        "complaints": said,
        "refused_in_ms": {name: round(1000 * value, 1) for name, value in seconds.items()},
        "schemathesis": {"cases": made_up.cases, "failures": made_up.failures},
    }
    slowest, failures = max(seconds.values()), len(made_up.failures)
    return found_and_claimed(
        figures,
        Claim(
            f"{len(cases)} hostile requests are refused, or answered where harmless", exceptions(len(said)), not said
        ),
        Claim("50 MB are refused in less than 50 ms", f"{1000 * slowest:.1f} ms", slowest < _SLOWEST_REFUSAL),
        Claim(f"schemathesis finds nothing in {made_up.cases:,} cases", f"{failures} kinds of failure", not failures),
        Claim(
            "no process has died, nothing failed unforeseen",
            "none has" if same else "one has",
            same and "raceback" not in log,
        ),
    )


@contextmanager
def guarded_serve(model: Path, folder: Path, *options: str, core: int | None = None) -> Iterator[Server]:
    """A service that wants a token."""
    (folder / "token").write_text(TOKEN)
    options = ("--token-file", str(folder / "token"), *options)
    with laconic_serve(model, *options, log=folder / "hostile.log", core=core) as server:
        yield server


def attacked(server: Server, cases: Sequence[Hostile]) -> list[str]:
    """What is wrong about the answers; whether the service is ready is looked at after each."""
    said = []
    for case in cases:
        said += complaints(case, exchange(server.port, case.sends, wanted=case.answers, then_ends=case.ends))
        ready = server.ready()
        if ready is None or ready.status != 200:
            said.append(f"{case.name}: the service is not ready afterwards")
    return said


def _refused_in(server: Server, case: Hostile) -> float:
    """Seconds, the longest of a few tries."""
    return max(exchange(server.port, case.sends).first for _ in range(_TRIES))
