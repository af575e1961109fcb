"""DECAF, its lite form, an ensemble of instances and Astec beside it, its parts one by one, and its figures, on a GPU.

Pairs of a text with itself are left out of truth and predictions; words `[a-z0-9+#]+`; random 300-d vectors; mean and
deviation of seeds. Settings are the best of `choices`, which come from a validation split; everything else learns from
all training texts with fixed epochs and scores the test split once.

    python -m benchmarks.decaf_quality choices
    python -m benchmarks.decaf_quality protocol ablations figure-5 figure-6
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np

from benchmarks import astec_quality
from benchmarks._decaf_pictures import plot_ensembles, plot_recalls
from benchmarks._trainings import WORDS, Figures, Job, Material, few, material, prefixed, scored, side_by_side
from benchmarks.astec_quality import GLOVE, HELD, merged, with_vectors
from benchmarks.common import RESULTS, data_folder
from laconic.config import configure, preset_path, read_settings
from laconic.data.dataset import Dataset
from laconic.evaluate import shortlist_figures, validation_figures
from laconic.methods import ensemble_of
from laconic.methods.trained import Trained
from laconic.rankers import Ensemble, Ranker, ShortlistRanker
from laconic.run import Run

SEEDS = (1, 2, 3)
MOST_INSTANCES = 6  # of Figure 5
PROTOCOL: dict[str, Any] = {"text": WORDS, "batch_size": 256}
QUICK = {  # changes for a look at whether all of it runs
    "decaf": {"surrogate.epochs": 1, "shortlister.epochs": 1, "ranker.epochs": 1},
    "astec": {"surrogate.epochs": 1, "extreme.epochs": 1},
}
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"


def _modules(first: tuple[float, int], then: tuple[float, int], last: tuple[float, int], **others: Any) -> Figures:
    """Rate and epochs of each module."""
    names = ("surrogate", "shortlister", "ranker")
    groups = zip(names, (first, then, last), strict=True)
    return {name: {"learning_rate": rate, "epochs": epochs} for name, (rate, epochs) in groups} | others


CHOICES: dict[str, dict[str, dict[str, Any]]] = {
    "debian-related": {
        ".01 × 40, .008 × 20, .008 × 20": _modules((0.01, 40), (0.008, 20), (0.008, 20)),
        ".01 × 20, .008 × 10, .008 × 10": _modules((0.01, 20), (0.008, 10), (0.008, 10)),
        ".005 × 40, .004 × 20, .004 × 20": _modules((0.005, 40), (0.004, 20), (0.004, 20)),
        ".005 × 20, .004 × 10, .002 × 10": _modules((0.005, 20), (0.004, 10), (0.002, 10)),
        ".01 × 20, .004 × 10, .002 × 10": _modules((0.01, 20), (0.004, 10), (0.002, 10)),
        ".01 × 20, .008 × 10, .008 × 10, 4,096 clusters": _modules((0.01, 20), (0.008, 10), (0.008, 10), clusters=4096),
        ".01 × 20, .008 × 10, .004 × 10, dropout .5": _modules(
            (0.01, 20), (0.008, 10), (0.004, 10), **{"shortlister.dropout": 0.5, "ranker.dropout": 0.5}
        ),
    },
    "npm-names-deps": {
        ".01 × 20, .008 × 10, .008 × 10": _modules((0.01, 20), (0.008, 10), (0.008, 10)),
        ".01 × 12, .008 × 6, .004 × 6": _modules((0.01, 12), (0.008, 6), (0.004, 6)),
        ".005 × 12, .004 × 6, .002 × 6": _modules((0.005, 12), (0.004, 6), (0.002, 6)),
        ".01 × 12, .008 × 6, .004 × 6, dropout .5": _modules(
            (0.01, 12), (0.008, 6), (0.004, 6), **{"shortlister.dropout": 0.5, "ranker.dropout": 0.5}
        ),
    },
    "yso-titles": {  # in batches of 512
        ".01 × 10, .008 × 4, .008 × 4": _modules((0.01, 10), (0.008, 4), (0.008, 4), batch_size=512),
        ".01 × 8, .004 × 4, .004 × 4": _modules((0.01, 8), (0.004, 4), (0.004, 4), batch_size=512),
        ".005 × 8, .004 × 4, .004 × 4": _modules((0.005, 8), (0.004, 4), (0.004, 4), batch_size=512),
        ".01 × 8, .008 × 4, .008 × 4, dropout .5": _modules(
            (0.01, 8), (0.008, 4), (0.008, 4), **{"shortlister.dropout": 0.5, "ranker.dropout": 0.5}, batch_size=512
        ),
    },
}
PARTS: dict[str, dict[str, Any]] = {  # Tables 5 and 6, then where paper and code differ; one part changed at a time
    "DECAF": {},
    "DECAF-FFT: pre-trained vectors (GloVe)": {"given_vectors": True, "vectors": str(GLOVE), "embedding": 100},
    "nearest labels as shortlist": {"shortlist": "nearest"},
    "DECAF-8K: small fan-out": {"clusters": 512, "beam": 0},
    "DECAF-no-init": {"start": "random"},
    "DECAF-ẑ¹: no refinement": {"refinement": False},
    "DECAF-ẑ²: no label text": {"label_text": False},
    "DECAF-lite": {"lite": True},
    "missing positives left out": {"missing": False},
    "cluster texts apart": {"cluster_text": "apart"},
    "no biases": {"bias": False, "prior": False},
    "biases from 0": {"prior": False},
    "the shortlister reads the ranker's vectors": {"own_vectors": False},
}
FAN_OUTS = (128, 512, 2048, 8192)  # of Figure 6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="+", choices=sorted(JOBS))
    parser.add_argument("--data", nargs="+", default=list(HELD))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--only", default="", help="trainings with this in their names; the others' results are kept")
    parser.add_argument("--preset", default="", help="instead of the best of choices: laptop, on a CPU")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--texts", type=int, default=0, help="so many training texts, by chance; 0: all")
    parser.add_argument("--rows", type=int, default=0, help="so many training and test texts, to see that it runs")
    options = parser.parse_args()
    if options.device == "cuda" and not which("nvidia-smi"):  # asking torch would spoil the processes to come
        print("no GPU here, left out")
        return
    there = [name for name in options.data if data_folder(name) is not None]
    for what in options.what:
        jobs = [job for name in there for job in JOBS[what](name, options.preset) if options.only in job.name]
        jobs = [job for job in jobs if job.seed in options.seeds]
        for job in jobs:
            of(job.data, options.rows)
        name = f"decaf_{what.replace('-', '_')}{f'_{options.preset}' if options.preset else ''}"
        work = Working(what, options.device, options.rows, options.texts)
        side_by_side(jobs, work, name, options.at_once)
        draw(what, json.loads((RESULTS / f"{name}.json").read_text()))


def of(name: str, rows: int = 0) -> Material:
    return few(material(name, with_label_texts=True, with_self_pairs=False), rows)


def choices(name: str, preset: str) -> list[Job]:
    return [
        Job(name, one, 1, settings | {"validation": HELD[name]}, "decaf") for one, settings in CHOICES[name].items()
    ]


def best(name: str) -> dict[str, Any]:
    """The best settings on the validation split."""
    found = _found(name)
    return merged({}, CHOICES[name][max(found, key=lambda one: found[one]["nDCG@5"]["mean"])])


def chosen(name: str, preset: str) -> dict[str, Any]:
    """The same with the beam and the last epoch that were best for them; or a preset's."""
    if preset:
        return merged(read_settings(preset_path("decaf", preset), []), {"validation": 0.0})
    figures = max(_found(name).values(), key=lambda one: one["nDCG@5"]["mean"])
    decided = {"beam": round(figures["beam"]["mean"]), "ranker.epochs": round(figures["epoch"]["mean"])}
    return merged(best(name), {"validation": 0.0, **decided})


def _found(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "decaf_choices.json").read_text())[name]
    return found


def protocol(name: str, preset: str) -> list[Job]:
    own, astec = chosen(name, preset), {} if preset else astec_quality.chosen(name)
    if preset:
        astec = read_settings(preset_path("astec", preset), [])
    ours = {"DECAF": own | {"instances": 3}, "DECAF-lite": own | {"lite": True}}
    jobs = [Job(name, one, seed, settings, "decaf") for seed in SEEDS for one, settings in ours.items()]
    return jobs + [Job(name, "Astec", seed, {"validation": 0.0} | astec) for seed in SEEDS]


def ablations(name: str, preset: str) -> list[Job]:
    if name == "yso-titles":
        return []
    parts = PARTS if GLOVE.exists() else {one: part for one, part in PARTS.items() if "GloVe" not in one}
    return [Job(name, one, seed, chosen(name, preset) | part, "decaf") for seed in SEEDS for one, part in parts.items()]


def figure_5(name: str, preset: str) -> list[Job]:
    wanted = name != "yso-titles"
    return [Job(name, "instances", 1, chosen(name, preset) | {"instances": MOST_INSTANCES}, "decaf")] * wanted


def figure_6(name: str, preset: str) -> list[Job]:
    wanted = [clusters for clusters in FAN_OUTS if name != "yso-titles"]
    held = {"beam": 0, "validation": HELD[name]}
    return [
        Job(name, f"{clusters}", 1, chosen(name, preset) | held | {"clusters": clusters}, "decaf")
        for clusters in wanted
    ]


JOBS = {
    "choices": choices,
    "protocol": protocol,
    "ablations": ablations,
    "figure-5": figure_5,
    "figure-6": figure_6,
}


class Working:
    """What is done with a job, in a process of its own."""

    def __init__(self, what: str, device: str, rows: int, texts: int) -> None:
        self.what, self.device, self.rows, self.texts = what, device, rows, texts

    def __call__(self, job: Job) -> Figures:
        have, settings = of(job.data, self.rows), dict(job.settings)
        method, run = ensemble_of(job.method, settings.pop("instances", 1)), Run.unkept(self.device)
        if self.rows:
            settings = merged(settings, QUICK[job.method])
        config = configure(method.config, merged(PROTOCOL | {"seed": job.seed}, settings))
        data = have.prepared.data
        if self.texts:
            data = data.rows(np.sort(np.random.default_rng(0).permutation(len(data))[: self.texts]))
        if config.vectors:
            data = with_vectors(data, Path(config.vectors), have)
        trained = method.train(data, config, run)
        ranker = trained.ranker.to(run.device)
        found = told(trained)
        if self.what == "choices":
            return found | on_validation(ranker, trained, data)
        if self.what == "figure-6":
            return found
        if isinstance(ranker, ShortlistRanker):
            found |= shortlist_figures(ranker, have.rows, have.truth.labels)
        return found | (by_size(ranker, have) if isinstance(ranker, Ensemble) else scored(ranker, have))


def told(trained: Trained) -> Figures:
    history = trained.facts.get("training", {})
    members = [member["training"] for member in trained.facts.get("members", [])]
    stages = ("surrogate", "shortlister", "epochs")
    every = [epoch for part in (history, *members) for stage in stages for epoch in part.get(stage, [])]
    told: Figures = {"seconds of steps": float(sum(epoch["seconds"] for epoch in every))}
    first = members[0] if members else history
    if "recall_by_beam" in first:
        told |= {"beam": float(trained.config.beam), "recall by beam": first["recall_by_beam"]}
        told |= {"clusters": trained.config.clusters, "Theorem 3.1": first["theorem_3_1"]}
    return told


def on_validation(ranker: Ranker, trained: Trained, data: Dataset) -> Figures:
    _, held = data.split(trained.config.validation, trained.config.seed)
    epochs = trained.facts["training"]["epochs"]
    best = max(epochs, key=lambda epoch: epoch["score"])
    return {
        **{name: float(value) for name, value in validation_figures(ranker, held).items()},
        "epoch": float(best["epoch"]),
        "by epoch": [[round(figure, 2) for figure in epoch["figures"].values()] for epoch in epochs],
    }


def by_size(ranker: Ensemble, have: Material) -> Figures:
    """Of the first instance, the first two, and so on."""
    members = ranker.rankers()
    found = scored(members[0], have)
    for size in range(2, len(members) + 1):
        found |= prefixed(f"{size} instances", scored(Ensemble(members[:size]), have))
    return found


def draw(what: str, results: dict[str, Any]) -> None:
    names = [name for name in HELD if name in results]
    if what == "figure-5":
        for name in names:
            plot_ensembles(results[name]["instances"], MOST_INSTANCES, PICTURES / f"decaf-figure-5-{name}.png")
    if what == "figure-6":
        for name in names:
            recalls = {int(clusters): run["recall by beam"] for clusters, run in results[name].items()}
            plot_recalls(recalls, PICTURES / f"decaf-figure-6-{name}.png")


if __name__ == "__main__":
    main()
