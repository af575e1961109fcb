"""How fast the repository's sparse text files are read, beside scikit-learn on the same file in the same run.

The file is the old single form, 100,000 texts with about 8 labels and 30 tf-idf features each; scikit-learn gets the
same lines less the header, which it cannot read. Both turn the file into label and feature data, plain, uncompressed.

    python -m benchmarks.sparse_reader_speed
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks.common import save
from laconic.data.formats.sparse_text import read_labelled

TEXTS, FEATURES, LABELS = 100_000, 135_909, 670_091  # the widths of AmazonTitles-670K's files
ROUNDS = 5


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "train.txt", Path(folder) / "train.svm"
        write(ours, theirs)
        compile_seconds = seconds(lambda: read_labelled(ours))
        check_agreement(ours, theirs)
        timings = [
            (seconds(lambda: read_labelled(ours)), seconds(lambda: load_svmlight_file(str(theirs), multilabel=True)))
            for _ in range(ROUNDS)
        ]
        report(timings, compile_seconds, ours.stat().st_size / 1e6)


def write(ours: Path, theirs: Path) -> None:
    generator = np.random.default_rng(0)
    lines = [line(generator) for _ in range(TEXTS)]
    ours.write_text(f"{TEXTS} {FEATURES} {LABELS}\n" + "".join(lines))
    theirs.write_text("".join(lines))


def line(generator: np.random.Generator) -> str:
    labels = np.unique(generator.integers(LABELS, size=generator.integers(1, 16)))
    features = np.unique(generator.integers(FEATURES, size=generator.integers(10, 51)))
    weights = generator.gamma(2, size=len(features))
    weights /= np.linalg.norm(weights)
    entries = (f"{feature}:{weight:.6f}" for feature, weight in zip(features, weights, strict=True))
    return f"{','.join(map(str, labels))} {' '.join(entries)}\n"


def check_agreement(ours: Path, theirs: Path) -> None:
    labels, features = read_labelled(ours)
    their_features, their_labels = load_svmlight_file(
        str(theirs), multilabel=True, n_features=FEATURES, dtype=np.float32, zero_based=True
    )
    assert (features != their_features).nnz == 0
    assert all(tuple(map(int, row)) == tuple(labels[[i]].indices) for i, row in enumerate(their_labels[:1000]))


def seconds(read: Callable[[], object]) -> float:
    start = time.perf_counter()
    read()
    return time.perf_counter() - start


def report(timings: list[tuple[float, float]], compile_seconds: float, megabytes: float) -> None:
    ours, theirs = (statistics.median(times) for times in zip(*timings, strict=True))
    figures: dict[str, object] = {
        "file_megabytes": round(megabytes, 1),
        "rounds": ROUNDS,
        "laconic_seconds": round(ours, 4),
        "laconic_megabytes_per_second": round(megabytes / ours, 1),
        "sklearn_seconds": round(theirs, 4),
        "sklearn_megabytes_per_second": round(megabytes / theirs, 1),
        "times_faster": round(theirs / ours, 1),
        "times_faster_worst_round": round(min(their / our for our, their in timings), 1),
        # With compilation, or with loading what an earlier run has compiled.
        "first_call_seconds": round(compile_seconds, 2),
    }
    save("sparse_reader_speed", figures)


if __name__ == "__main__":
    main()
