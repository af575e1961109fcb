"""Many clients at once, every text another: each answer is that which the model gives without a service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.chaos.claims import Claim, exceptions, found_and_claimed
from benchmarks.chaos.loops import Tally, closed_loop, run
from benchmarks.chaos.models import Known, id_coded, said, same
from benchmarks.chaos.processes import Server, laconic_serve, on_core, two_cores
from benchmarks.chaos.slow import unanswered
from benchmarks.chaos.trial import Trial
from benchmarks.chaos.wire import Answer, question

CLIENTS = 64


@dataclass
class Comparison:
    known: Known
    wrong: int = 0
    nearly: int = 0  # right but for the last digits

    def look(self, number: int, answer: Answer) -> None:
        if answer.status != 200:
            return
        told = answer.json()
        (own,) = told["answers"]
        right = told["model"] == self.known.version and answer.header("x-request-id") == _id(number)
        if not (right and same(said(own), self.known.answers[number])):
            self.wrong += 1
        elif said(own) != self.known.answers[number]:
            self.nearly += 1


def equal(trial: Trial) -> dict[str, Any]:
    theirs, own = two_cores()
    known = Known.of(trial.model, id_coded(trial.texts, trial.sizes.requests))
    with on_core(own), laconic_serve(trial.model, log=trial.log("equal"), core=theirs) as server:
        tally, found = compared(server, known)
    failed, different = unanswered(tally), distinct(known.answers)
    figures = {
        "clients": CLIENTS,
        "requests": len(known.texts),
        "different_answers": different,
        "a_second": round(tally.goodput(), 1),
        "failed": failed,
        "wrong": found.wrong,
        "other_last_digits": found.nearly,
    }
    return found_and_claimed(
        figures,
        Claim(f"{len(known.texts):,} requests of {CLIENTS} clients are answered", exceptions(failed), failed == 0),
        Claim(
            f"each as offline to 1e-6 and with its own id, {different:,} of them different",
            exceptions(found.wrong),
            found.wrong == 0,
        ),
    )


def compared(server: Server, known: Known) -> tuple[Tally, Comparison]:
    """What became of a request for each text, and what its answers were."""
    comparison = Comparison(known)
    requests = (question({"text": text}, {"x-request-id": _id(number)}) for number, text in enumerate(known.texts))
    return run(closed_loop(server.port, requests, connections=CLIENTS, look=comparison.look)), comparison


def distinct(answers: Sequence[Any]) -> int:
    return len({tuple(answer) for answer in answers})


def _id(number: int) -> str:
    return f"request-{number}"
