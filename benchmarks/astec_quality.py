"""Astec and its parts on a GPU.

By the protocol of the figures of the authors' code: all training texts, fixed epochs, test split scored once, self
pairs kept, words `[a-z0-9+#]+`, random 300-d vectors; mean and deviation of seeds.

    python -m benchmarks.astec_quality choices          how settings were chosen, on a validation split
"""

from __future__ import annotations

import argparse
from shutil import which
from typing import Any

from benchmarks._trainings import WORDS, Figures, Job, material, side_by_side
from benchmarks.common import data_folder
from laconic.config import configure
from laconic.evaluate import shortlist_recall
from laconic.methods import METHODS
from laconic.rankers import CandidatesRanker
from laconic.run import Run

PROTOCOL: dict[str, Any] = {"text": WORDS, "validation": 0.0, "batch_size": 256}
HELD = {"debian-related": 0.1, "npm-names-deps": 0.05, "yso-titles": 0.02}
CHOICES: dict[str, dict[str, dict[str, Any]]] = {
    "debian-related": {
        f"surrogate {rate} for {epochs}, extreme {last} for {more}, dropout {dropout}": {
            "surrogate": {"learning_rate": rate, "epochs": epochs},
            "extreme": {"learning_rate": last, "epochs": more},
            "dropout": dropout,
        }
        for rate, epochs, last, more, dropout in (
            (0.01, 30, 0.002, 20, 0.5),
            (0.01, 30, 0.005, 20, 0.5),
            (0.02, 30, 0.005, 20, 0.5),
            (0.005, 30, 0.005, 20, 0.5),
            (0.01, 30, 0.005, 20, 0.25),
        )
    }
    | {
        f"prior, surrogate 0.01 for 30, extreme {last} for 20": {
            "prior": True,
            "surrogate": {"learning_rate": 0.01, "epochs": 30},
            "extreme": {"learning_rate": last, "epochs": 20},
        }
        for last in (0.002, 0.005)
    },
    "npm-names-deps": {
        f"surrogate {rate} for {epochs}, extreme {last} for {more}": {
            "surrogate": {"learning_rate": rate, "epochs": epochs},
            "extreme": {"learning_rate": last, "epochs": more},
        }
        for rate, epochs, last, more in ((0.01, 12, 0.002, 10), (0.02, 12, 0.005, 10))
    }
    | {
        "prior, surrogate 0.01 for 12, extreme 0.002 for 10": {
            "prior": True,
            "surrogate": {"learning_rate": 0.01, "epochs": 12},
            "extreme": {"learning_rate": 0.002, "epochs": 10},
        }
    },
    "yso-titles": {
        f"surrogate {rate} for {epochs}, extreme {last} for {more}": {
            "surrogate": {"learning_rate": rate, "epochs": epochs},
            "extreme": {"learning_rate": last, "epochs": more},
        }
        for rate, epochs, last, more in ((0.01, 6, 0.001, 5), (0.005, 6, 0.001, 5))
    }
    | {
        "prior, surrogate 0.01 for 6, extreme 0.001 for 5": {
            "prior": True,
            "surrogate": {"learning_rate": 0.01, "epochs": 6},
            "extreme": {"learning_rate": 0.001, "epochs": 5},
        }
    },
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=sorted(JOBS))
    parser.add_argument("--data", nargs="+", default=list(HELD))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--only", default="", help="trainings with this in their names")
    parser.add_argument("--name", default="")
    options = parser.parse_args()
    if options.device == "cuda" and not which("nvidia-smi"):  # asking torch would spoil the processes to come
        print("no GPU here, left out")
        return
    there = [name for name in options.data if data_folder(name) is not None]
    jobs = [job for name in there for job in JOBS[options.what](name) if options.only in job.name]
    for job in jobs:
        material(job.data)
    name = options.name or f"astec_{options.what.replace('-', '_')}"
    side_by_side(jobs, Working(options.device), name, options.at_once)


class Working:
    """What is done with a job; processes get it whole."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __call__(self, job: Job) -> Figures:
        of = material(job.data)
        method = METHODS[job.method]
        config = configure(method.config, PROTOCOL | {"seed": job.seed} | job.settings)
        trained = method.train(of.prepared.data, config, Run.unkept(self.device))
        ranker, history = trained.ranker, trained.facts["training"]
        assert isinstance(ranker, CandidatesRanker)
        _, held = of.prepared.data.split(config.validation, config.seed)
        best = max(history["epochs"], key=lambda epoch: epoch["score"])
        return {
            "nDCG@5": best["figures"]["nDCG@5"],
            "P@1": best["figures"]["P@1"],
            "epoch": best["epoch"],
            "beta": trained.config.beta,
            "betas": history["betas"],
            "epochs": [
                (round(e["loss"], 4), *(round(figure, 2) for figure in e["figures"].values()))
                for e in history["epochs"]
            ],
            "surrogate losses": [round(e["loss"], 6) for e in history["surrogate"]],
            "seconds of steps": float(sum(e["seconds"] for e in history["epochs"] + history["surrogate"])),
            "seconds of the surrogate": float(sum(e["seconds"] for e in history["surrogate"])),
            "shortlist recall": shortlist_recall(ranker, held.inputs, held.labels),
        }


def choices(name: str) -> list[Job]:
    return [
        Job(name, choice, 1, settings | {"validation": HELD[name]})
        for choice, settings in CHOICES.get(name, {}).items()
    ]


JOBS = {"choices": choices}

if __name__ == "__main__":
    main()
