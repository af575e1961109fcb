"""Every method beside the other libraries on one dataset: accuracy, training time, size and time of an answer.

Methods are trained as one would type it: on two cores each, and in full on a GPU where there is one. Each model is
measured by `laconic bench` on the cores it was trained on, as soon as it is there; the libraries that are installed are
trained and measured on two cores too, beside `trees`. Many trainings at once share the memory of the machine, so
milliseconds are those of a busy machine, for all rows alike.

    python -m benchmarks.which_method --folder build/which-method
    python -m benchmarks.which_method --folder build/which-method --at-once 7       two cores for each training
    python -m benchmarks.which_method --only 'default, 5 minutes' trees 'default, GPU' --at-once 2       README's rows
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from shutil import which

from benchmarks.common import save

ROOT = Path(__file__).parents[1]

LAPTOP = {
    "default, 10 minutes": ["--budget", "10m"],
    "default, 5 minutes": ["--budget", "5m"],
    "decaf, laptop": ["--method", "decaf", "--preset", "laptop"],
    "astec, laptop": ["--method", "astec", "--preset", "laptop"],
    "inceptionxml+, laptop": ["--method", "inceptionxml+", "--preset", "laptop"],
    "inceptionxml, laptop": ["--method", "inceptionxml", "--preset", "laptop"],
    "trees": ["--method", "trees"],
    "nearest": ["--method", "nearest"],
}
GPU = {
    "default, GPU": [],
    "inceptionxml, GPU": ["--method", "inceptionxml"],
    "inceptionxml+, GPU": ["--method", "inceptionxml+"],
    "astec, GPU": ["--method", "astec"],
    "mach, GPU": ["--method", "mach"],
    "xml-cnn, GPU": ["--method", "xml-cnn"],
    "decaf, GPU": ["--method", "decaf"],
}
BESIDE_LIBRARIES = "trees"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="debian-related")
    parser.add_argument("--folder", type=Path, default=Path("build/which-method"))
    parser.add_argument("--at-once", type=int, default=1, help="trainings on the CPU side by side")
    parser.add_argument("--only", nargs="+", choices=[*LAPTOP, *GPU], default=[*LAPTOP, *GPU])
    parser.add_argument("--texts", type=int, default=20_000, help="test texts")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    work = partial(trained_and_measured, options.data, options.folder, options.texts)
    small = {name: [*given, "--device", "cpu"] for name, given in LAPTOP.items() if name in options.only}
    large = {name: given for name, given in GPU.items() if name in options.only and which("nvidia-smi")}
    pairs = [sorted(os.sched_getaffinity(0))[place : place + 2] for place in range(0, 2 * options.at_once + 2, 2)]
    with ThreadPoolExecutor(1) as beside:  # the GPU's trainings one after another, beside the others
        on_gpu = beside.submit(on_cores, work, large, pairs[-1:])
        on_cores(work, small, pairs[:-1] if large or options.at_once > 1 else pairs[:1])
        on_gpu.result()
    keep([options.folder / f"{name}.json" for name in [*small, *large]])


def on_cores(
    train: Callable[[str, Sequence[str], Sequence[int]], None],
    rows: dict[str, list[str]],
    pairs: Sequence[Sequence[int]],
) -> None:
    """Train all rows, as many at once as there are pairs of cores."""
    free: SimpleQueue[Sequence[int]] = SimpleQueue()
    for pair in pairs:
        free.put(pair)

    def one(name: str) -> None:
        cores = free.get()
        try:
            train(name, rows[name], cores)
        finally:
            free.put(cores)

    with ThreadPoolExecutor(len(pairs)) as threads:
        list(threads.map(one, rows))


def trained(data: str, folder: Path, name: str, given: Sequence[str], cores: Sequence[int]) -> None:
    command = ["train", data, "--out", name, *given]
    with open(folder / f"{name}.log", "w", encoding="utf-8") as log:
        done = subprocess.run(
            laconic(command), cwd=folder, stdout=log, stderr=log, preexec_fn=lambda: os.sched_setaffinity(0, cores)
        )
    print(f"{name}: {'done' if done.returncode == 0 else f'ended with {done.returncode}, see {log.name}'}", flush=True)


def trained_and_measured(
    data: str, folder: Path, texts: int, name: str, given: Sequence[str], cores: Sequence[int]
) -> None:
    trained(data, folder, name, given, cores)
    if (folder / name / "packed").exists():
        measure(data, folder, texts, name, cores)


def measure(data: str, folder: Path, texts: int, name: str, cores: Sequence[int]) -> None:
    """Run `laconic bench` over a model, and over all libraries beside the one that is most like them."""
    against = "all" if name == BESIDE_LIBRARIES else "none"
    command = ["bench", name, data, "--against", against, "--texts", str(texts), "--json", f"{name}.json"]
    subprocess.run(laconic(command), cwd=folder, check=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))


def keep(files: Sequence[Path]) -> None:
    """Write the figures of all models that were measured as one file of results."""
    found = [json.loads(file.read_text()) for file in files if file.exists()]
    if not found:
        raise SystemExit("no model was measured")
    entries = [entry for one in found for entry in one["entries"]]
    about = {key: value for key, value in found[0].items() if key in ("data", "split", "texts", "cores")}
    save("which_method", {"bench": [one["command"] for one in found], **about, "entries": entries}, quietly=True)


def laconic(command: Sequence[str]) -> list[str]:
    return [
        "env",
        f"PYTHONPATH={ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}",
        sys.executable,
        "-m",
        "laconic",
        *command,
    ]


if __name__ == "__main__":
    main()
