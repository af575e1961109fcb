"""What labels' own texts are worth: learnt from as texts (--label-texts), and fused with nearest texts (--fuse).

Pairs of a text with itself are left out; our own cleaning; mean and deviation of three seeds. A validation split is
held out everywhere, by which epochs, shares and the fusion are chosen; the test split is scored once.

    python -m benchmarks.label_text_quality choices
    python -m benchmarks.label_text_quality protocol
"""

from __future__ import annotations

import argparse
import json
from shutil import which
from typing import Any

from benchmarks._trainings import Figures, Job, Material, few, material, prefixed, scored, side_by_side, stored
from benchmarks.common import RESULTS, data_folder
from benchmarks.papers.datasets import OURS
from laconic.config import configure, preset_path, read_settings
from laconic.data.text import Splitter
from laconic.evaluation.evaluate import validation_figures
from laconic.methods.registry import ensemble_of
from laconic.models.fusion.ranker import FusedRanker
from laconic.training.run import Run

SEEDS = (1, 2, 3)
HELD = {"debian-related": 0.05, "npm-names-deps": 0.05, "yso-titles": 0.02}
BASES: dict[str, dict[str, dict[str, Any]]] = {  # settings by method and data
    "inceptionxml": {
        "debian-related": {"epochs": 28, "learning_rate": 0.003},
        "npm-names-deps": {"epochs": 16},
        "yso-titles": {"epochs": 6, "batch_size": 512, "prior": True},
    },
    "astec": {
        "debian-related": {"surrogate": {"epochs": 30, "learning_rate": 0.005}, "extreme": {"epochs": 10}},
        "npm-names-deps": {"surrogate": {"epochs": 12}, "extreme": {"epochs": 6}},
        "yso-titles": {"batch_size": 512, "surrogate": {"epochs": 10}, "extreme": {"epochs": 4}},
    },
}
SHARES = {"each once an epoch": {}, "a tenth of a batch": {"share": 0.1}, "at half weight": {"weight": 0.5}}
TAILS = (0.05, 0.1, 0.2, 0.4)  # of the dial, for the first seed
_FEW = 50_000  # test texts, of which that does not take long


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="+", choices=sorted(JOBS))
    parser.add_argument("--data", nargs="+", default=list(HELD))
    parser.add_argument("--methods", nargs="+", default=[*BASES, "decaf"])
    parser.add_argument("--preset", default="", help="of every method instead of the settings here: laptop, on a CPU")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--only", default="", help="trainings with this in their names")
    parser.add_argument("--ways", nargs="+", default=["plain", "learnt"], help="which of these two; protocol alone")
    parser.add_argument("--rows", type=int, default=0, help="so many training and test texts, to see that it runs")
    options = parser.parse_args()
    if options.device == "cuda" and not which("nvidia-smi"):  # asking torch would spoil the processes to come
        print("no GPU here, left out")
        return
    there = [name for name in options.data if data_folder(name) is not None]
    for what in options.what:
        jobs = [job for name in there for method in options.methods for job in JOBS[what](name, method, options)]
        jobs = [job for job in jobs if options.only in job.name]
        for name in {job.data for job in jobs}:
            of(name, options.rows)
        preset = f"_{options.preset}" if options.preset else ""
        work = Working(what, options.device, options.rows)
        side_by_side(jobs, work, f"label_text_{what}{preset}", options.at_once)


def of(name: str, rows: int = 0) -> Material:
    return few(material(name, with_label_texts=True, with_self_pairs=False, splitter=Splitter()), rows)


def base(name: str, method: str, preset: str) -> dict[str, Any]:
    if preset:
        settings = read_settings(preset_path(method, preset), [])
    else:
        settings = best_of_decaf(name) if method == "decaf" else BASES[method][name]
    return settings | {"validation": HELD[name]}


def best_of_decaf(name: str) -> dict[str, Any]:
    """Return the settings of DECAF that were best on a validation split, by nDCG@5."""
    tried = stored("decaf_choices")[name]
    settings: dict[str, Any] = OURS["choices"]["decaf"][name][max(tried, key=lambda one: tried[one]["nDCG@5"]["mean"])]
    return settings


def choices(name: str, method: str, options: Any) -> list[Job]:
    """How label texts are learnt from, on the validation split."""
    settings = base(name, method, options.preset)
    plain = [Job(name, method, SEEDS[0], settings, method)]
    return plain + [
        Job(name, f"{method}, label texts {kind}", SEEDS[0], settings | {"extra_texts": share}, method)
        for kind, share in SHARES.items()
    ]


def protocol(name: str, method: str, options: Any) -> list[Job]:
    """All of them fused: what the method answers alone is in the same model."""
    plain = base(name, method, options.preset) | {"fusion": {}}
    learnt = plain | {"extra_texts": chosen(name, method, options.preset)}
    ways = {"plain": (method, plain), "learnt": (f"{method}, label texts learnt", learnt)}
    return [Job(name, ways[way][0], seed, ways[way][1], method) for seed in options.seeds for way in options.ways]


JOBS = {"choices": choices, "protocol": protocol}


def chosen(name: str, method: str, preset: str) -> dict[str, float]:
    """The best way of learning from label texts by nDCG@5 on the validation split; each once an epoch, if none was."""
    path = RESULTS / f"label_text_choices{f'_{preset}' if preset else ''}.json"
    found = json.loads(path.read_text()).get(name, {}) if path.exists() else {}
    tried = {
        kind: found[f"{method}, label texts {kind}"] for kind in SHARES if f"{method}, label texts {kind}" in found
    }
    best = max(tried, key=lambda kind: tried[kind]["nDCG@5"]["mean"], default="each once an epoch")
    return SHARES[best]


class Working:
    """What is done with a job, in a process of its own."""

    def __init__(self, what: str, device: str, rows: int) -> None:
        self.what, self.device, self.rows = what, device, rows

    def __call__(self, job: Job) -> Figures:
        have, run = of(job.data, self.rows), Run.unkept(self.device)
        method = ensemble_of(job.method, 1, over=job.settings)
        config = configure(method.config, {"seed": job.seed} | job.settings)
        data = have.prepared.data
        trained = method.train(data, config, run)
        ranker = trained.ranker.to(run.device)
        if self.what == "choices":
            _, held = data.split(trained.config.validation, trained.config.seed)
            return {name: float(value) for name, value in validation_figures(ranker, held).items()}
        assert isinstance(ranker, FusedRanker)
        found = {**scored(ranker.base, have), **prefixed("fused", scored(ranker, have))}
        for tail in TAILS if job.seed == SEEDS[0] and have.rows.shape[0] < _FEW else ():
            found |= prefixed(f"fused, tail {tail}", scored(ranker.with_tail(tail), have))
        return found


if __name__ == "__main__":
    main()
