"""Measures the latency and memory of a packed model in a separate process without torch.

That process reads a trial a line and answers each with a line of figures, both JSON, until there are no more.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from laconic.errors import UserError
from laconic.packed.folder import open_packed
from laconic.predict.load import Speed, packed_predictor
from laconic.predict.packed_predictor import PackedPredictor

_WARM_UP = 200  # texts that are not counted: what is looked at for the first time has to be fetched
_LEAST_SECONDS = 1.0  # so long batches are answered, or how quick they are would be chance
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A packed model and the texts to time it with."""

    folder: str  # of the packed model
    texts: Sequence[str]
    k: int = 5
    beam: int | None = None  # None: its own
    exact: bool = False
    singly: int = 2000  # texts that are asked one by one, again from the first where they run out
    longest: float = 30.0  # seconds after which no more are


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Latency, throughput and memory of a packed model."""

    singly: int  # texts that were timed
    p50: float  # milliseconds of one text on one thread
    p99: float
    texts_a_second: float  # on all cores
    private: int | None  # bytes that the process has for itself; None: the system does not tell


class OwnProcess:
    """A process that runs trials; it ends with the block."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "laconic.analysis.latency"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def __enter__(self) -> OwnProcess:
        return self

    def __exit__(self, *error: Any) -> None:
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, trial: Trial) -> Timing:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended; then there is no answer either
            self._process.stdin.write(json.dumps(asdict(trial)) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise UserError(
                f"{trial.folder}: the process that timed it ended with code {code}; is there enough memory?"
            )
        return Timing(**json.loads(line))


def opened(trial: Trial) -> PackedPredictor:
    return packed_predictor(open_packed(Path(trial.folder)), Speed(beam=trial.beam, exact=trial.exact))


def timed(packed: PackedPredictor, trial: Trial) -> Timing:
    """Run a trial in this process."""
    milliseconds = singly(packed.predict, trial)
    p50, p99 = np.percentile(milliseconds, [50, 99]).tolist()
    private = _private_memory()  # before there are many answers to keep
    texts_a_second = _texts_a_second(packed, trial)
    return Timing(singly=len(milliseconds), p50=p50, p99=p99, texts_a_second=texts_a_second, private=private)


def singly(predict: Callable[[Sequence[str], int], Any], trial: Trial) -> list[float]:
    """Return the milliseconds that each text took, asked one at a time."""
    milliseconds, end = list[float](), perf_counter() + trial.longest
    for number, text in enumerate(islice(cycle(trial.texts), _WARM_UP + trial.singly)):
        started = perf_counter()
        predict([text], trial.k)
        done = perf_counter()
        if number >= _WARM_UP or done > end:
            milliseconds.append(1000 * (done - started))
        if done > end:
            break
    return milliseconds


def _texts_a_second(packed: PackedPredictor, trial: Trial) -> float:
    answered, started = 0, perf_counter()
    while (seconds := perf_counter() - started) < _LEAST_SECONDS:
        packed.predict(trial.texts, trial.k)
        answered += len(trial.texts)
    return answered / seconds


def _private_memory() -> int | None:
    """Return RssAnon: memory that is not mapped from a file and so not shared between processes."""
    lines = _STATUS.read_text().splitlines() if _STATUS.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), None)


def main() -> None:
    for line in sys.stdin:
        trial = Trial(**json.loads(line))
        packed = opened(trial)  # and it stays so: somebody may want to see which pages are shared
        sys.stdout.write(json.dumps(asdict(timed(packed, trial))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # whoever asked is told
        main()
