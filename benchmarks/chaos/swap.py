"""Models exchanged under a busy service, some of them broken: nobody notices but by the version that answers."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.chaos.claims import Claim, exceptions, found_and_claimed, how_often
from benchmarks.chaos.loops import Tally, closed_loop, run
from benchmarks.chaos.models import SPOILS, Known, other_version, put, said, same
from benchmarks.chaos.processes import Server, laconic_serve, on_core, two_cores
from benchmarks.chaos.slow import unanswered
from benchmarks.chaos.trial import Trial
from benchmarks.chaos.wire import Answer, question, request

TOGETHER = 4  # texts of a request
_CLIENTS = 16
_TEXTS = 400
_PATIENCE = 30.0  # seconds for a model to be taken or refused
_UNSIGNALLED = 10  # of so many swaps one is found by the service itself


@dataclass
class Answers:
    """What clients are told, held against what each version would say."""

    known: Mapping[str, Known]  # by version
    right: dict[str, int] = field(default_factory=dict)  # answers by version
    wrong: int = 0

    def look(self, number: int, answer: Answer) -> None:
        if answer.status != 200:
            return
        told = answer.json()
        version = self.known.get(told["model"])
        if version is not None and all(map(same, map(said, told["answers"]), _asked(number, version.answers))):
            self.right[version.version] = self.right.get(version.version, 0) + 1
        else:
            self.wrong += 1


def swap(trial: Trial) -> dict[str, Any]:
    theirs, own = two_cores()
    versions = two_versions(trial.model, trial.folder, trial.texts[:_TEXTS])
    place = trial.folder / "served"
    put(versions[0].folder, place)
    answers = Answers({one.version: one for one in versions})
    with on_core(own), laconic_serve(place, log=trial.log("swap"), core=theirs) as server:
        tally, swapped = run(under_load(server, Swapper(server, place, versions), answers, trial.sizes.swaps))
    failed = unanswered(tally)
    figures = {
        "swaps": swapped.taken,
        "broken": swapped.refused,
        "longest_seconds": round(swapped.longest, 2),
        "requests": tally.statuses.total(),
        "answers_by_version": answers.right,
        "failed": failed,
        "wrong": answers.wrong,
    }
    broken = min(len(SPOILS), trial.sizes.swaps // 2)
    as_wished = (swapped.taken, swapped.refused) == (trial.sizes.swaps - broken, broken)
    return found_and_claimed(
        figures,
        Claim(
            "every good model is taken, every broken one refused",
            f"{swapped.taken} taken, {swapped.refused} refused",
            as_wished,
        ),
        Claim("no request fails", f"{failed} of {tally.statuses.total():,} do", failed == 0),
        Claim("every answer is wholly of the version it names", exceptions(answers.wrong), answers.wrong == 0),
        Claim("both versions have answered", how_often(answers.right), len(answers.right) == len(versions)),
    )


def two_versions(model: Path, folder: Path, texts: Sequence[str]) -> list[Known]:
    return [Known.of(one, texts) for one in (model, other_version(model, folder / "other"))]


@dataclass
class Swapped:
    taken: int = 0
    refused: int = 0
    longest: float = 0.0  # seconds until it was taken or refused


@dataclass
class Swapper:
    """Puts models in the place of what is served, and waits until the service has seen them."""

    server: Server
    place: Path
    versions: Sequence[Known]
    pause: float = 0.0  # seconds before each swap
    swapped: Swapped = field(default_factory=Swapped)

    async def swap(self, times: int) -> Swapped:
        """Every other one is broken, until there was one of each kind."""
        broken = list(SPOILS[: times // 2])
        others = cycle([*self.versions[1:], self.versions[0]])
        another = next(others)
        for number in range(times):
            await asyncio.sleep(self.pause)
            spoil = broken.pop() if number % 2 and broken else None
            await self._put(another, number % _UNSIGNALLED != _UNSIGNALLED - 1, spoil)
            if spoil is None:
                another = next(others)
        return self.swapped

    async def _put(self, model: Known, signalled: bool, spoil: Callable[[Path], None] | None) -> None:
        refused, began = await self._refused(), perf_counter()
        await asyncio.to_thread(put, model.folder, self.place, spoil or (lambda folder: None))
        if signalled:
            self.server.process.send_signal(signal.SIGUSR1)
        while perf_counter() - began < _PATIENCE:
            if spoil is None and await self._version() == model.version:
                self.swapped.taken += 1
                break
            if spoil is not None and await self._refused() > refused:
                self.swapped.refused += 1
                break
            await asyncio.sleep(0.05)
        self.swapped.longest = max(self.swapped.longest, perf_counter() - began)

    async def _version(self) -> str:
        answer = await asyncio.to_thread(self.server.ready)
        return "" if answer is None else str(answer.json()["model"])

    async def _refused(self) -> float:
        """How many models the service has refused, as it says itself."""
        answer = await asyncio.to_thread(self.server.asked, request("GET", "/metrics"))
        found = re.search(rb'laconic_model_swaps_total\{result="refused"\} (\S+)', answer.body if answer else b"")
        return float(found[1]) if found else 0.0


async def under_load(server: Server, swapper: Swapper, answers: Answers, times: int) -> tuple[Tally, Swapped]:
    swapping = asyncio.create_task(swapper.swap(times))
    texts = next(iter(answers.known.values())).texts
    requests = [question({"texts": list(_asked(number, texts))}) for number in range(len(texts))]

    def until_swapped() -> Iterator[bytes]:
        for one in cycle(requests):
            if swapping.done():
                return
            yield one

    tally = await closed_loop(server.port, until_swapped(), connections=_CLIENTS, look=answers.look)
    return tally, await swapping


def _asked(number: int, values: Sequence[Any]) -> Iterator[Any]:
    """What belongs to the texts of the request of that number."""
    return (values[(number + place) % len(values)] for place in range(TOGETHER))
