"""`nearest` on every dataset that is there: from files to figures, in a process each, with time and memory.

Beside each figure is that of another implementation of the same formula (scikit-learn's vectoriser and scipy products),
on all test texts but for yso-titles, where it was measured on a sample of 20,000.

    python -m benchmarks.nearest_quality
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.common import data_folder, save

METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "tail R@10")
OTHER = {
    "debian-related": (55.1, 38.6, 29.6, 48.1, 12.8, 22.1, 26.1, 22.7),
    "npm-names-deps": (39.5, 26.7, 20.5, 38.9, 21.0, 25.9, 29.2, 29.6),
    "yso-titles": (34.3, 21.0, 15.4, 36.5, 29.0, 31.7, 34.4, 24.8),
}


def main() -> None:
    figures = {}
    for name, other in OTHER.items():
        folder = data_folder(name)
        if folder is None:
            print(f"{name}: not here, left out")
            continue
        figures[name] = measure(folder) | {"another implementation": dict(zip(METRICS, other, strict=True))}
    save("nearest_quality", figures)


def measure(folder: Path) -> dict[str, object]:
    """Train and evaluate by the command line, as a user would."""
    with tempfile.TemporaryDirectory() as temporary:
        model, figures = Path(temporary) / "model", Path(temporary) / "figures.json"
        train = cost("train", folder, "--method", "nearest", "--out", model)
        evaluate = cost("evaluate", model, folder, "--json", figures)
        metrics = json.loads(figures.read_text())["metrics"]
    return {
        "train_seconds": round(train.seconds, 1),
        "evaluate_seconds": round(evaluate.seconds, 1),
        "peak_gigabytes": round(max(train.gigabytes, evaluate.gigabytes), 2),
        "nearest": {metric: round(metrics[metric], 1) for metric in METRICS},
    }


class Cost(NamedTuple):
    seconds: float
    gigabytes: float


def cost(*arguments: object) -> Cost:
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "laconic", *map(str, arguments)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0
    return Cost(time.perf_counter() - started, usage.ru_maxrss / 2**20)


if __name__ == "__main__":
    main()
