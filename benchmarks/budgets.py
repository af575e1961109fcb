"""Budgets of `laconic train`: whether a training ends when it was asked to, and what more time brings.

Every training runs as one would type it, pinned to two cores, with and without another process on one of them. What
was estimated stands beside what it took: seconds, and the most memory.

    python -m benchmarks.budgets --budgets 2m 10m --at-once 8
    python -m benchmarks.budgets --budgets 2m --only "npm-names-deps 2m, busy"
    python -m benchmarks.budgets --budgets 20s --data tests/data/tiny --rows 2000          to see that it runs
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from benchmarks.common import data_folder, save_beside
from laconic.units import seconds_of

_SHOWN = ("P@1", "P@5", "PSP@5", "tail R@10")
_CORES = 2  # of a training
_FREE = 0.0  # budget of a training without one


class Training(NamedTuple):
    """One training of the benchmark."""

    data: str
    budget: str  # empty: none
    busy: bool  # whether another process runs on one of its cores

    @property
    def name(self) -> str:
        return f"{Path(self.data).name} {self.budget or 'without a budget'}" + ", busy" * self.busy


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=["debian-related", "npm-names-deps"])
    parser.add_argument("--budgets", nargs="+", default=["2m", "10m", "30m"], help="as for train; none: no budget")
    parser.add_argument("--beside", nargs="+", choices=["idle", "busy"], default=["idle", "busy"])
    parser.add_argument("--only", nargs="+", default=[], help="names of trainings, such as 'npm-names-deps 2m, busy'")
    parser.add_argument("--at-once", type=int, default=1, help="trainings side by side, two cores each")
    parser.add_argument("--rows", type=int, default=0, help="so many training texts, to see that it runs")
    parser.add_argument("--set", dest="settings", nargs="*", default=[], help="further words of the command")
    parser.add_argument("--name", default="budgets", help="of the file of figures")
    options = parser.parse_args()
    budgets = ["" if budget == "none" else budget for budget in options.budgets]
    trainings = [
        one
        for data in options.data
        for budget in budgets
        for beside in options.beside
        for one in [Training(data, budget, beside == "busy")]
        if not options.only or one.name in options.only
    ]
    # The longest first: what is left over at the end is then short.
    trainings.sort(key=lambda one: -seconds_of(one.budget) if one.budget else _FREE)
    saving, free = threading.Lock(), SimpleQueue[Sequence[int]]()
    cores = sorted(os.sched_getaffinity(0))
    for number in range(options.at_once):
        free.put(cores[_CORES * number : _CORES * (number + 1)])

    def one(training: Training) -> None:
        own = free.get()
        try:
            figures = measured(training, own, options.rows, options.settings)
        finally:
            free.put(own)
        with saving:
            save_beside(options.name, training.name, figures)

    with ThreadPoolExecutor(options.at_once) as threads:
        list(threads.map(one, trainings))


def measured(training: Training, cores: Sequence[int], rows: int, settings: Sequence[str]) -> dict[str, Any]:
    """Train once, and return what was planned and what it took."""
    source = data_folder(training.data)
    assert source is not None, f"there is no data {training.data}"
    with tempfile.TemporaryDirectory() as folder:
        data = few(source, Path(folder) / source.name, rows) if rows else source
        model = Path(folder) / "model"
        words = ["train", str(data), "--device", "cpu", "--out", str(model), *settings]
        words += ["--budget", training.budget] if training.budget else []
        pinned = ["taskset", "-c", ",".join(map(str, cores))]
        with busy_process(cores[0] if training.busy else None), tempfile.TemporaryFile("w+") as said:
            began = time.perf_counter()
            process = subprocess.Popen([*pinned, sys.executable, "-m", "laconic", *words], stdout=said, stderr=said)
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            lines = said.read().replace(str(data), data.name).splitlines()
        if process.returncode:
            return {"failed": lines[-20:], "seconds": round(seconds, 1)}
        facts = json.loads((model / "model.json").read_text())
    return {
        "budget": seconds_of(training.budget) if training.budget else None,
        "seconds": round(seconds, 1),
        # The most of each stage is counted anew, so that the process's own figure is that of its last part.
        "memory": max(used.ru_maxrss << 10, *(stage["memory"] for stage in facts.get("stages") or [{"memory": 0}])),
        "estimated": facts.get("estimated"),
        "method": facts["method"],
        "decisions": facts.get("decisions"),
        **{name: round(facts["metrics"]["metrics"][name], 2) for name in _SHOWN if name in facts["metrics"]["metrics"]},
        "stages": facts.get("stages"),
        "lines": list(takewhile(lambda line: not line.startswith(folder), lines)),  # up to the table of metrics
        "cores": len(cores),
    }


def few(source: Path, to: Path, rows: int) -> Path:
    """Copy data with its first training texts alone."""
    import gzip
    import shutil

    shutil.copytree(source, to)
    path = to / "train.jsonl.gz"
    path.chmod(0o644)
    to.chmod(0o755)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line for _, line in zip(range(rows), file, strict=False)]
    path.unlink()
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(lines)
    return to


@contextmanager
def busy_process(core: int | None) -> Iterator[None]:
    """Keep a core busy with another process, if one is named; it ends with this one, also where this one is killed."""
    if core is None:
        yield
        return
    endless = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
    process = subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", endless])
    try:
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
