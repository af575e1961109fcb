"""InceptionXML's accuracy on a GPU, by the protocol of the figures of the authors' code: all training texts, fixed
epochs, test split scored once, self pairs kept, words `[a-z0-9+#]+`, 16 of them, random 300-d vectors; mean and
deviation of seeds.

    python -m benchmarks.inception_quality                        every dataset and seed
    python -m benchmarks.inception_quality --variants glove       what else can be changed, one thing at a time
    python -m benchmarks.inception_quality --variants protocol plain 'eps 2e-7' 'plain, eps 2e-7' --name row_kernels
                                                                  what kernels make of it: nothing
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.common import DATA, data_folder, save

METRICS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "nDCG@5", "tail R@10")
EPOCHS = {"debian-related": 42, "npm-names-deps": 21, "yso-titles": 12}
AUTHORS = {
    "debian-related": {"P@1": 60.1, "P@3": 39.5, "P@5": 30.0, "PSP@5": 20.5},
    "npm-names-deps": {"P@1": 41.7, "P@3": 28.5, "P@5": 21.6, "PSP@5": 30.2},
    "yso-titles": {"P@1": 36.8, "P@3": 22.4, "P@5": 16.5, "PSP@5": 36.0},
}
PROTOCOL = {"length": "16", "text.pattern": "[a-z0-9+#]+", "text.stop_words": "false", "validation": "0"}
VARIANTS = {
    "protocol": {},
    "glove": {"vectors": str(DATA / "glove-6b-100d" / "glove.6B.100d.subset.txt.gz")},
    "our cleaning": {"text.pattern": "", "text.stop_words": "true"},
    "our cleaning, stop words kept": {"text.pattern": ""},
    "32 words": {"length": "32"},
    "bf16": {"precision": "bf16"},
    "words of 2 texts": {"vocabulary.min_count": "2"},
    "adam-bf16": {"optimiser": "adam-bf16"},
    "adagrad-bf16": {"optimiser": "adagrad-bf16"},
    "eps 2e-7": {"eps": "2e-7"},  # against gradients so small that it counts, as it does at 670,000 labels
    "plain": {},
    "plain, eps 2e-7": {"eps": "2e-7"},
}


class Job(NamedTuple):
    data: str
    variant: str
    seed: int


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=list(EPOCHS))
    parser.add_argument("--variants", nargs="+", default=["protocol"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--at-once", type=int, default=5)
    parser.add_argument("--name", default="inception_quality")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU here, left out")
        return
    names = [name for name in options.data if data_folder(name) is not None]
    jobs = [Job(name, variant, seed) for name in names for variant in options.variants for seed in options.seeds]
    with ThreadPoolExecutor(options.at_once) as pool:
        results = dict(zip(jobs, pool.map(measured, jobs), strict=True))
    save(options.name, {name: summary(name, options.variants, results) for name in names})


def measured(job: Job) -> dict[str, float]:
    """Trains and evaluates by the command line, in processes of their own."""
    epochs = {"epochs": str(EPOCHS[job.data])} if job.data in EPOCHS else {}  # other data: as the method chooses
    settings = PROTOCOL | epochs | {"seed": str(job.seed)} | VARIANTS[job.variant]
    with tempfile.TemporaryDirectory() as folder:
        model, figures, data = Path(folder) / "model", Path(folder) / "figures.json", data_folder(job.data)
        started = time.perf_counter()
        run(
            "benchmarks._plainly" if job.variant.startswith("plain") else "laconic",
            "train",
            data,
            "--method",
            "inceptionxml",
            "--no-pack",
            "--out",
            model,
            *(x for s in settings.items() for x in ("--set", "=".join(s))),
        )
        run("laconic", "evaluate", model, data, "--keep-self", "--json", figures)
        metrics: dict[str, float] = json.loads(figures.read_text())["metrics"]
    metrics["seconds"] = time.perf_counter() - started
    print(*job, {name: round(metrics[name], 2) for name in (*METRICS, "seconds")}, flush=True)
    return metrics


def run(module: str, *arguments: object) -> None:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr[-2000:]}")


def summary(name: str, variants: list[str], results: dict[Job, dict[str, float]]) -> dict[str, object]:
    table: dict[str, object] = {"authors' code": AUTHORS[name]} if name in AUTHORS else {}
    for variant in variants:
        runs = [metrics for job, metrics in results.items() if (job.data, job.variant) == (name, variant)]
        table[variant] = {metric: spread([one[metric] for one in runs]) for metric in (*METRICS, "seconds")}
    return table


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values) if len(values) > 1 else 0:.2f}"


if __name__ == "__main__":
    main()
