"""A deadline: what is left of a run's time budget, and how much of each part of the run it has room for.

A run is planned as parts with estimated times. Some parts may be done more or less than planned, within bounds: epochs
of a stage, trees of a forest. All of them are scaled by the same factor, which is found anew before each, from the time
that is left, from how long finished parts took beside their estimate, and from the measured speed of the part itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_PRIOR = 0.05  # of the budget: time for which the estimates are believed before anything is measured
_HALVINGS = 40
_SPARE = 0.03  # of the budget that is not planned for
_WRONG, _SHORT = 0.25, 20.0  # of an announced time, and seconds, by which it may be wrong and stay as it is
_BELIEVED = 3.0  # times as fast or slow as estimated
OVER = 1.1  # by how much the shortest plan may exceed what is left before a part is left out


class Part(NamedTuple):
    """A part of a run."""

    seconds: float  # that it is estimated to take as planned
    least: float = 1.0  # fraction of the plan that must be done
    most: float = 1.0  # multiple of the plan that is worth its time
    follows: str = ""  # another part: what is decided of that one holds for this one too
    once: float = 0.0  # seconds besides, however much of it is done; how long it takes then says nothing of the machine

    def scaled(self, scale: float) -> float:
        """Return the factor by which this part is scaled where all are scaled by `scale`."""
        return min(max(scale, self.least), self.most)


def total_seconds(parts: Mapping[str, Part], scale: float) -> float:
    """Return the seconds of all parts together where they are scaled by `scale`, each within its bounds."""
    return sum(part.once + part.seconds * part.scaled(scale) for part in parts.values())


def scale_within(parts: Mapping[str, Part], seconds: float) -> float:
    """Return the largest scale with which the parts take no longer than that; 0 if there is none."""
    low, high = 0.0, max((part.most for part in parts.values()), default=1.0)
    if total_seconds(parts, high) <= seconds:
        return high
    for _ in range(_HALVINGS):
        scale = (low + high) / 2
        low, high = (scale, high) if total_seconds(parts, scale) <= seconds else (low, scale)
    return low


class Amount(NamedTuple):
    """How much of a part is done."""

    planned: int  # such as epochs
    done: int


@dataclass(eq=False)
class Deadline:
    """The end of a run that has a time budget."""

    seconds: float
    parts: dict[str, Part]  # that are still to be done, in any order
    clock: Callable[[], float] = time.monotonic
    began: float | None = None  # by the clock; None: now
    is_limit: bool = True  # a budget to be kept; if not, the time that the parts were estimated to take
    announced: float = field(init=False)  # seconds of the whole run that its user knows of
    amounts: dict[str, Amount] = field(default_factory=dict, init=False)  # what was decided
    _evidence: dict[str, tuple[float, float]] = field(
        default_factory=dict, init=False
    )  # measured and estimated seconds

    def __post_init__(self) -> None:
        if self.began is None:
            self.began = self.clock()
        self.announced = self.expected

    @property
    def elapsed(self) -> float:
        assert self.began is not None
        return self.clock() - self.began

    @property
    def left(self) -> float:
        """Return the seconds to plan with: what is left, but for a small reserve."""
        return max(0.0, (1 - _SPARE) * self.seconds - self.elapsed)

    @property
    def pace(self) -> float:
        """Return how many times as long as estimated this machine takes, by what was measured so far."""
        prior = _PRIOR * self.seconds
        took = prior + sum(seconds for seconds, _ in self._evidence.values())
        return took / (prior + sum(estimated for _, estimated in self._evidence.values()))

    @property
    def expected(self) -> float:
        """Return the seconds that the whole run is now expected to take."""
        ahead = self._ahead()
        return self.elapsed + total_seconds(ahead, scale_within(ahead, self.left) if self.is_limit else 1.0)

    def amount(self, name: str, planned: int, seconds: float | None = None, done: int = 0) -> int:
        """Decide how much of a part to do where `planned` of it was planned, such as epochs; at least 1.

        `seconds` is what one of them takes here, if that was measured; so many are `done` already.
        """
        if seconds is not None:
            self._learn(name, planned * seconds, self.parts[name].seconds)
            self.parts[name] = self.parts[name]._replace(once=0.0)  # it has passed
        ahead = self._ahead()
        if seconds is not None:
            ahead[name] = ahead[name]._replace(seconds=planned * seconds)
        found = ahead[name].scaled(scale_within(ahead, self.left + done * (seconds or 0.0)))
        return max(1, int(planned * found + 0.3))

    def may_change(self, name: str) -> bool:
        """Return whether more or less of a part than planned may be done."""
        return self.is_limit and name in self.parts and self.parts[name].least < self.parts[name].most

    def affords(self) -> bool:
        """Return whether there is time for all that is planned, or only without something that can be left out."""
        return total_seconds(self._ahead(), 0.0) <= OVER * self.left

    def leave_out(self, prefix: str) -> None:
        """Take parts off the plan whose names begin so."""
        self.parts = {name: part for name, part in self.parts.items() if not name.startswith(prefix)}

    def finished(self, name: str, seconds: float | None) -> bool:
        """Take note that a part is done, and how long it took; None: an earlier process has done it, or some of it.

        Return whether the time of the whole run is another one now than was announced.
        """
        part = self.parts.pop(name, None)
        if part is not None and seconds is not None and not part.once:
            planned, done = self._amount(name, part)
            self._learn(name, seconds, part.seconds * done / planned)
        expected = self.expected
        if abs(expected - self.announced) < max(_WRONG * self.announced, _SHORT):
            return False
        self.announced = expected
        return True

    def resumed(self, elapsed: float) -> None:
        """Count the time that a run had taken before it was interrupted."""
        self.began = min(self.began or 0.0, self.clock() - elapsed)

    def _learn(self, name: str, seconds: float, estimated: float) -> None:
        """Take what a part takes for evidence of this machine's pace; a larger error is one of the estimate."""
        self._evidence[name] = (min(max(seconds, estimated / _BELIEVED), _BELIEVED * estimated), estimated)

    def _amount(self, name: str, part: Part) -> Amount:
        return self.amounts.get(part.follows or name, Amount(1, 1))

    def _ahead(self) -> dict[str, Part]:
        """Return the parts ahead as this machine's pace has them; those of a decided amount are fixed."""
        ahead = {}
        for name, part in self.parts.items():
            planned, done = self._amount(name, part)
            fixed = (part.follows or name) in self.amounts
            seconds = self.pace * part.seconds * done / planned
            ahead[name] = Part(seconds, once=part.once) if fixed else part._replace(seconds=seconds)
        return ahead


def deadline_of(parts: Mapping[str, Part], budget: float | None, began: float | None = None) -> Deadline:
    """Return the deadline of a run: by its budget or, without one, by the estimated times of its parts."""
    seconds = total_seconds(parts, 1.0) if budget is None else budget
    return Deadline(seconds, dict(parts), began=began, is_limit=budget is not None)
