"""What the model is worth that training chooses by itself, and each of its channels: all, and all but one of them.

Pairs of a text with itself are left out; our own cleaning. The combiner learns on a validation split that no channel
has learnt from; the test split is scored at the end. Mean and deviation of seeds.

    python -m benchmarks.combined_quality
    python -m benchmarks.combined_quality --device cpu --budget 10m --data debian-related npm-names-deps
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from shutil import which
from time import perf_counter
from typing import Any

from torch import Tensor

from benchmarks._trainings import (
    METRICS,
    Figures,
    Job,
    Material,
    evaluated,
    few,
    material,
    prefixed,
    scored,
    side_by_side,
)
from benchmarks.common import data_folder
from laconic.config import configure, merged, read_settings
from laconic.data.text import Splitter
from laconic.errors import ConfigError
from laconic.methods.auto import choose
from laconic.methods.config import FusionConfig
from laconic.methods.registry import METHODS, add_extra_texts
from laconic.methods.result import Trained
from laconic.methods.stage_times import Situation
from laconic.methods.wrappers import fusion
from laconic.models.rankers import Ranker
from laconic.system.machine import usable_cores
from laconic.training.run import Run
from laconic.units import seconds_of

SEEDS = (1, 2, 3)
DATASETS = ("debian-related", "npm-names-deps", "yso-titles", "eurlex57k-titles")
WAYS: dict[str, dict[str, Any]] = {
    "all": {},
    "without trees": {"trees": 0},
    "without nearest texts": {"neighbours": 0},
    "without label texts": {"label_texts": False},
    "without siamese": {"siamese": 0},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=list(DATASETS))
    parser.add_argument("--budget", default="", help="as for train")
    parser.add_argument("--set", dest="settings", nargs="*", default=[], help="further settings, as for train")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--rows", type=int, default=0, help="so many training and test texts, to see that it runs")
    parser.add_argument("--name", default="combined_quality")
    options = parser.parse_args()
    if options.device == "cuda" and not which("nvidia-smi"):  # asking torch would spoil the processes to come
        print("no GPU here, left out")
        return
    there = [name for name in options.data if data_folder(name) is not None]
    jobs = [job(name, seed, options) for name in there for seed in options.seeds]
    side_by_side(jobs, Working(options.device, options.rows, options.ways), options.name, options.at_once)


def of(name: str, rows: int = 0) -> Material:
    return few(material(name, with_label_texts=True, with_self_pairs=False, splitter=Splitter()), rows)


def job(name: str, seed: int, options: Any) -> Job:
    """What training chooses by itself."""
    data = of(name, options.rows).prepared.data
    gpu, cores = options.device == "cuda", usable_cores()
    budget = seconds_of(options.budget) if options.budget else None
    about = Situation(
        len(data), data.num_labels, data.labels.nnz, "text", data.label_inputs is not None, gpu, cores, budget
    )
    choice = choose(about)
    if "fusion" not in choice.settings:
        raise ConfigError(f"{name}: {choice.method} would be chosen, which combines nothing; more rows or time, please")
    return Job(name, "combined", seed, merged(choice.settings, read_settings(None, options.settings)), choice.method)


class Working:
    """What is done with a job, in a process of its own: the base is trained once, and combined in every way."""

    def __init__(self, device: str, rows: int, ways: list[str]) -> None:
        self.device, self.rows, self.ways = device, rows, ways

    def __call__(self, job: Job) -> Figures:
        have, run = of(job.data, self.rows), Remembering(Run.unkept(self.device))
        method = add_extra_texts(METHODS[job.method]) if "extra_texts" in job.settings else METHODS[job.method]
        settings = {name: value for name, value in job.settings.items() if name != "fusion"}
        config = configure(method.config, {"seed": job.seed} | settings)
        base = method.train(have.prepared.data, config, run)
        found = self._said(job, job.method, scored(base.ranker.to(run.device), have))
        for way in self.ways:
            ranker = combined(base, have, job.settings["fusion"] | WAYS[way], run).ranker
            alone = {"trees": ranker.trees, "siamese": ranker.siamese} if way == "all" else {}
            for name, channel in alone.items():
                found |= self._said(job, name, scored(channel, have)) if channel is not None else {}
            found |= self._said(job, way, scored(ranker, have))
            found |= prefixed(way, intervals(ranker, have)) if way == "all" else {}
        return found

    def _said(self, job: Job, name: str, figures: Figures) -> Figures:
        """As soon as they are known: a run may be stopped."""
        shown = {key: round(value, 2) for key, value in figures.items()}
        print(f"[{perf_counter():.0f}] {job.data} {job.seed} {name}: {shown}", flush=True)
        return prefixed(name, figures)


def intervals(ranker: Ranker, have: Material) -> Figures:
    """Half of what 95 % of bootstrap samples of the test texts lie within, by metric."""
    bounds = evaluated(ranker, have).intervals
    return {f"{name} ±": (high - low) / 2 for name, (low, high) in bounds.items() if name in METRICS}


def combined(base: Trained, have: Material, settings: dict[str, Any], run: Any) -> Trained:
    config = replace(base.config, fusion=configure(FusionConfig, settings))
    learnt = base._replace(config=config)
    return fusion.train_over(lambda data, config, run: learnt, have.prepared.data, config, run)


class Remembering:
    """A run that learns trees, and a space of label texts, once for all ways of combining them."""

    def __init__(self, run: Run) -> None:
        self.run, self.kept = run, dict[str, Mapping[str, Tensor]]()

    def remember(self, name: str, make: Callable[[], Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
        if name in self.kept:
            return self.kept[name]
        started = perf_counter()
        made = make()
        print(f"[{perf_counter():.0f}] {name}: {perf_counter() - started:.0f} s", flush=True)
        if name.startswith(("fusion-trees", "fusion-space")):
            self.kept[name] = made
        return made

    def knows(self, name: str) -> bool:
        return name in self.kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)


if __name__ == "__main__":
    main()
