"""The runs that trackers are told of: parameters, metrics and the model; a tracker that fails stops no training."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from laconic import __version__
from laconic.storage.json_files import write_json
from laconic.system.files import replacing_file

log = logging.getLogger(__name__)
_TRIES = 3  # failures at the end, after which nothing more is sent: the tracker is away
_KEY = "run"  # in the file of identifiers: what the run was started with


class Status(Enum):
    """How a run ended."""

    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "interrupted"


class About(NamedTuple):
    """What a tracker is told of a run when it begins."""

    title: str
    parameters: Mapping[str, Any]


@runtime_checkable
class TrackedRun(Protocol):
    """A run of a tracker."""

    @property
    def id(self) -> str: ...
    def log(self, series: str, metrics: Mapping[str, float], step: int) -> None:
        """Log metrics of a series, such as a stage of training, at one of its steps."""
        ...

    def add_model(self, folder: Path) -> None:
        """Store the files of a model folder."""
        ...

    def end(self, status: Status) -> None: ...


@runtime_checkable
class Tracker(Protocol):
    """A tracker of experiments."""

    @property
    def name(self) -> str: ...
    def start(self, about: About, earlier: str | None) -> TrackedRun:
        """Start a run, or resume the earlier one with that identifier."""
        ...


class Trackers:
    """The trackers of one run, which ends with the block that this opens.

    What a tracker does not take is kept, and sent once more when the run ends: training goes on meanwhile.
    """

    def __init__(self, trackers: Sequence[Tracker] = (), title: str = "", about: Mapping[str, Any] | None = None):
        self.title, self.about = title, dict(about or {})
        self._guarded = [_Guarded(tracker) for tracker in trackers]

    def __enter__(self) -> Trackers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        self.end(Status.KILLED if interrupted else Status.FINISHED if kind is None else Status.FAILED)

    def begin(self, facts: Mapping[str, Any], *, kept: Path | None = None, key: str = "") -> None:
        """Start the run of every tracker, or resume those that the file `kept` names for the same key."""
        earlier = _read(kept, key)
        parameters = {"laconic": __version__, **self.about, **flat(facts)}
        for one in self._guarded:
            one.begin(About(self.title, parameters), earlier.get(one.name))
        if kept is not None and self.ids:
            with replacing_file(kept) as partial:
                write_json(partial, {_KEY: key, **self.ids})

    def log(self, series: str, metrics: Mapping[str, float], step: int = 0) -> None:
        """Log metrics of a series, such as a stage of training; those that are no numbers are left out."""
        known = {metric_name(name): float(value) for name, value in metrics.items() if math.isfinite(value)}
        for one in self._guarded if known else ():
            one.do(lambda run: run.log(metric_name(series), known, step))

    def log_figures(self, facts: Mapping[str, Any]) -> None:
        """Log the metrics that a model's facts have, of the split that they are of."""
        match facts.get("metrics"):
            case {"split": str(split), "metrics": dict(metrics)}:
                self.log(split, metrics)

    def add_model(self, folder: Path) -> None:
        """Store a model folder in every tracker."""
        for one in self._guarded:
            one.do(lambda run: run.add_model(folder))

    def end(self, status: Status) -> None:
        for one in self._guarded:
            one.end(status)

    @property
    def ids(self) -> dict[str, str]:
        """Return the identifiers of the runs that have begun, by tracker."""
        return {one.name: one.run.id for one in self._guarded if one.run is not None}


class _Guarded:
    """A tracker whose errors are logged once."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker, self.name = tracker, tracker.name
        self.run: TrackedRun | None = None
        self.waiting: list[Callable[[], None]] = []  # for the end, since the tracker failed
        self.begun = False

    def begin(self, about: About, earlier: str | None) -> None:
        def start() -> None:
            self.run = self.tracker.start(about, earlier)

        self.begun = True
        self._send(start)

    def do(self, action: Callable[[TrackedRun], None]) -> None:
        def act() -> None:
            assert self.run is not None, "what began the run is sent first"
            action(self.run)

        if self.begun:
            self._send(act)

    def end(self, status: Status) -> None:
        if not self.begun:
            return
        self.do(lambda run: run.end(status))
        if self.waiting and status is not Status.KILLED:  # who interrupts a run does not want to wait
            self._send_again()
        self.begun = False

    def _send(self, action: Callable[[], None]) -> None:
        error = None if self.waiting else _error_of(action)
        if error is not None:
            log.warning("%s: %s; the work goes on, and this is sent again at its end", self.name, error)
        if self.waiting or error is not None:
            self.waiting.append(action)

    def _send_again(self) -> None:
        errors = list[str]()
        for action in self.waiting:
            if len(errors) < _TRIES and (error := _error_of(action)) is not None:
                errors.append(error)
        if errors:
            log.warning("%s: %s; the run is incomplete there", self.name, errors[0])


def _error_of(action: Callable[[], None]) -> str | None:
    """Return what went wrong; None: nothing did."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - whatever a tracker may raise, the training is worth more
        return f"{type(error).__name__}: {error}"
    return None


def metric_name(name: str) -> str:
    """Return a name that every tracker takes: P@5 is P_at_5."""
    return re.sub(r"[^\w./ -]", "_", name.replace("@", "_at_"), flags=re.ASCII)


def flat(facts: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested facts by their paths, with dots between the names."""
    found: dict[str, Any] = {}
    for name, value in facts.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def parts(mapping: Mapping[str, Any], size: int) -> Iterator[dict[str, Any]]:
    """Yield a few entries of a mapping at a time."""
    entries = list(mapping.items())
    for first in range(0, len(entries), size):
        yield dict(entries[first : first + size])


def _read(kept: Path | None, key: str) -> dict[str, str]:
    """Return the identifiers of the trackers' runs by which a run with that key is resumed."""
    found: object = None
    with suppress(OSError, ValueError, RecursionError):
        found = None if kept is None else json.loads(kept.read_bytes())
    if not isinstance(found, dict) or found.get(_KEY) != key:
        return {}
    return {name: value for name, value in found.items() if name != _KEY and isinstance(value, str)}
