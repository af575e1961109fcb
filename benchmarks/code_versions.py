"""How long a packed model takes for a text with the code of another checkout and with this one.

Each has a process of its own, on the same core, and they answer all texts in turn, so that other work on the machine
slows down both. Of every text the least time counts. Answers are compared.

    python -m benchmarks.code_versions OTHER-CHECKOUT --model MODEL/packed --data debian-related
    python -m benchmarks.code_versions OTHER-CHECKOUT --model FOLDER --shape AmazonTitles-670K
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._packed_shapes import SHAPES, titles, words_of
from benchmarks._serving import one_core
from benchmarks.common import data_folder, save_beside
from laconic.data.sources import read
from laconic.predict.packed_predictor import PackedPredictor

NAME, _OWN = "code_versions", Path(__file__).parents[1]
_READY = "ready"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("other", type=Path, nargs="?", help="a checkout of another version")
    parser.add_argument("--model", type=Path, help="a packed folder")
    parser.add_argument("--data", default="debian-related", help="whose test texts are answered")
    parser.add_argument("--shape", choices=SHAPES, help="answer titles of this shape instead")
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=10, help="how often each answers all texts")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.model is None or not options.model.is_dir() or (not options.shape and data_folder(options.data) is None):
        print(f"{options.model} or {options.data}: not here, left out")
    elif options.answer:
        _answer(PackedPredictor.open(options.model, verify=False), _texts(options))
    else:
        save_beside(NAME, f"{options.shape or options.data}, {options.model.parent.name}", compared(options))


def compared(options: argparse.Namespace) -> dict[str, Any]:
    """Let both answer in turn; return their times and how many answers are equal."""
    with one_core():
        both = [_started(root) for root in (options.other.resolve(), _OWN)]
    assert all(one.stdout is not None and one.stdout.readline() == f"{_READY}\n" for one in both)
    times = np.array([[_round(one) for one in both] for _ in range(options.rounds)])  # rounds × versions × texts
    before, after = np.median(times.min(0), axis=1)
    answers = [json.loads(one.communicate()[0]) for one in both]
    return {
        "p50_ms_before": round(1000 * before, 3),
        "p50_ms_after": round(1000 * after, 3),
        "ratio": round(after / before, 3),
        "equal_best_five_percent": round(
            100 * float(np.mean([one == other for one, other in zip(*answers, strict=True)])), 2
        ),
        "texts": times.shape[2],
        "rounds": options.rounds,
    }


def _started(root: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(root / "src"), str(_OWN)])
    arguments = [sys.executable, "-m", f"benchmarks.{NAME}", *sys.argv[1:], "--answer"]
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        arguments, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_OWN
    )


def _round(process: subprocess.Popen[str]) -> list[float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("again\n")
    process.stdin.flush()
    seconds: list[float] = json.loads(process.stdout.readline())
    return seconds


def _texts(options: argparse.Namespace) -> list[str]:
    if options.shape:
        return titles(words_of(SHAPES[options.shape]), options.texts, seed=2)
    return list(read(str(data_folder(options.data))).split("test").texts or ())[: options.texts]


def _answer(predictor: PackedPredictor, texts: list[str]) -> None:
    """Answer all texts for each line that is read, and write how long each took; at last, write the answers."""
    answers = [[found.label for found in predictor.predict([text])[0]] for text in texts]
    print(_READY, flush=True)
    for _ in sys.stdin:
        seconds = []
        for text in texts:
            begun = time.perf_counter()
            predictor.predict([text])
            seconds.append(time.perf_counter() - begun)
        print(json.dumps(seconds), flush=True)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
