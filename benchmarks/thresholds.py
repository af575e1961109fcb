"""Whether scores are probabilities, and whether a threshold keeps its promise on other texts.

A tenth of the training texts is cut off as a validation split, which nothing that trains sees: at random, as the test
split is, or of debian-related by whole sources, as its test split is. The model is trained on the rest and calibrates
itself. Thresholds for a precision are chosen on the validation split and reported on the test
split, beside the calibration error of the scores there. The method `auto` is what `laconic train` chooses by itself.

    python -m benchmarks.thresholds --methods nearest trees
    python -m benchmarks.thresholds --device cuda --at-once 8
    python -m benchmarks.thresholds --device cuda --at-once 8 --preset full --data debian-related --methods astec decaf
    python -m benchmarks.thresholds --methods auto astec --rows 2000 --folder build/thresholds       to see that it runs

Each row is kept as soon as it is measured; rows that are there already are not measured again, unless with `--again`.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int

from benchmarks._trainings import Figures, Job, corpus_of, side_by_side
from benchmarks.common import RESULTS, data_folder
from laconic.config import AUTO, preset_path, read_settings
from laconic.data.corpus import Corpus, Split
from laconic.errors import DataError
from laconic.evaluation.evaluate import Evaluation, evaluate, places_needed
from laconic.evaluation.label_sets import Scored
from laconic.evaluation.thresholds import Aim, find_thresholds
from laconic.methods.auto import choose, describe_situation
from laconic.methods.registry import METHODS, config_of
from laconic.methods.train import train_model
from laconic.predict.predictor import Predictor
from laconic.system.machine import at_most_cores, usable_cores
from laconic.training.run import Run
from laconic.types import Ranking

DATASETS = ("debian-related", "npm-names-deps", "yso-titles", "eurlex57k-titles")
FULL, LAPTOP = "full", "laptop"  # a method's own settings, or its preset
WITHOUT_PRESET = ("nearest", "trees", "siamese")  # they have the same settings everywhere
K = 20  # labels of a text among which a threshold is chosen
_LARGEST = 50  # packages of a source, nearly always
SEED = 29  # the seed of methods, by default


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.thresholds", description=__doc__)
    parser.add_argument("--data", nargs="+", default=list(DATASETS))
    parser.add_argument("--methods", nargs="+", choices=[AUTO, *METHODS], default=[AUTO, *METHODS])
    parser.add_argument("--preset", choices=[LAPTOP, FULL], default=LAPTOP, help="for methods that have a preset")
    parser.add_argument("--precision", type=float, default=0.9)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="also what was measured already")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="for the figures")
    parser.add_argument("--rows", type=int, default=0, help="so many training and test texts, to see that it runs")
    options = parser.parse_args()
    if options.rows and options.folder == RESULTS:
        parser.error("--rows needs a --folder: its figures are no results")
    there = [name for name in options.data if data_folder(name) is not None]
    jobs = [job(name, method, options) for name in there for method in options.methods]
    again = options.again or options.rows > 0
    side_by_side(jobs, Measuring(options), "thresholds", options.at_once, again=again, folder=options.folder)


def job(name: str, method: str, options: Any) -> Job:
    """Return the training of a method on a dataset, with the settings that its row is called by."""
    corpus = _corpus(name, options.rows)  # read before processes part, which share it then
    if method == AUTO:
        situation = describe_situation(corpus, gpu=options.device != "cpu", budget=None)
        chosen = choose(situation._replace(share=1.0))
        return Job(name, f"auto ({chosen.method})", SEED, chosen.settings, chosen.method)
    if options.preset == FULL or method in WITHOUT_PRESET:
        return Job(name, method, SEED, {}, method)
    return Job(name, f"{method}, {LAPTOP}", SEED, read_settings(preset_path(method, LAPTOP), []), method)


class Measuring:
    """What is done with a job: train, choose thresholds on the validation split, and report on the test split."""

    def __init__(self, options: Any) -> None:
        self.rows, self.device, self.precision = options.rows, options.device, options.precision
        self.cores = max(1, usable_cores() // options.at_once)

    def __call__(self, job: Job) -> Figures:
        corpus = _corpus(job.data, self.rows)
        with at_most_cores(self.cores):
            began = perf_counter()
            model = train_model(corpus, job.method, config_of(job.method, job.settings), Run.unkept(self.device))
            seconds = perf_counter() - began
            predictor = Predictor(model, self.device)
            chosen, test = (Judgement.of(predictor, corpus, split) for split in ("chosen", "test"))
        return {
            **{name: round(test.evaluation.metrics[name], 2) for name in _figures_of(test.evaluation)},
            "validation ECE@5": round(chosen.evaluation.metrics["ECE@5"], 2),
            **dict(_thresholds(chosen, test, self.precision)),
            "texts": len(corpus.split("chosen")),
            "training seconds": round(seconds),
        }


class Judgement(NamedTuple):
    """A split that was ranked once."""

    scored: Scored
    evaluation: Evaluation

    @staticmethod
    def of(predictor: Predictor, corpus: Corpus, split: str) -> Judgement:
        rows, truth = predictor.view.rows_and_truth(corpus, split)
        ranking = Ranking(*map(torch.from_numpy, predictor.rank_rows(rows, places_needed(truth))))
        calibration = predictor.calibration
        return Judgement(Scored.of(ranking, truth, calibration), evaluate(ranking, truth, calibration=calibration))


def _figures_of(evaluation: Evaluation) -> list[str]:
    return [name for name in ("ECE@5", "raw ECE@5", "micro F1@5") if name in evaluation.metrics]


def _thresholds(chosen: Judgement, test: Judgement, precision: float) -> Iterator[tuple[str, Figures]]:
    """Yield what thresholds for each aim, chosen on one split, give on the other, in percent."""
    for kind, aim in {
        "one threshold": Aim(precision),
        "a threshold per frequent label": Aim(precision, per_label=True),
        "best F1": Aim(),
    }.items():
        first = chosen.scored.first(K)
        try:
            found = find_thresholds(first, aim)
        except DataError as error:  # no score of the method says so much
            yield kind, {"not reached": str(error)}
            continue
        names = [str(number) for number in range(len(first.positives))]
        at = test.scored.at(found)
        yield (
            kind,
            {
                "chosen": round(chosen.scored.threshold(found, aim, K, names).precision, 2),
                "precision": round(at.micro.precision, 2),
                "recall": round(at.micro.recall, 2),
                "F1": round(at.micro.f1, 2),
                "threshold": round(at.threshold, 4),
                "own": at.own,
            },
        )


def _corpus(name: str, rows: int) -> Corpus:
    """Cut a tenth of the training texts off. It is not called valid, or the training would use it."""
    corpus = corpus_of(name)
    split, test = _first(corpus.split("train"), rows), _first(corpus.split("test"), rows)
    groups = _sources(split.ids or ()) if name == "debian-related" else np.arange(len(split))
    cut = np.random.default_rng(0).permutation(groups.max() + 1)[groups] % 10 == 0
    if name == "debian-related":  # its test split has whole sources, so what training holds out shall have them too
        split = replace(split, groups=[str(group) for group in groups])
    parts = {"train": split.rows(np.flatnonzero(~cut)), "chosen": split.rows(np.flatnonzero(cut))}
    return replace(corpus, splits={**parts, "test": test})


def _sources(ids: Sequence[str | None]) -> Int[np.ndarray, "texts"]:
    """Group packages whose names begin alike, as those of one source do; numbers in names are versions mostly."""
    names = [re.sub(r"[0-9.+]+(?=-|$)", "", id or "").split("-") for id in ids]
    known = [1] * len(names)  # parts of a name that tell its source: more where they begin many names
    for _ in range(4):
        count = Counter(tuple(name[:parts]) for name, parts in zip(names, known, strict=True))
        known = [parts + (count[tuple(name[:parts])] > _LARGEST) for name, parts in zip(names, known, strict=True)]
    keys = ["-".join(name[:parts]) for name, parts in zip(names, known, strict=True)]
    return np.unique(keys, return_inverse=True)[1]


def _first(split: Split, rows: int) -> Split:
    return split.rows(np.arange(min(rows, len(split)))) if rows else split


if __name__ == "__main__":
    main()
