"""Whether scores are probabilities, and whether a threshold keeps its promise on other texts.

A tenth of the training texts is cut off as a validation split, which nothing that trains sees. The model is trained on
the rest and calibrates itself. Thresholds for a precision are chosen on the validation split and reported on the test
split, beside the calibration error of the scores there.

    python -m benchmarks.thresholds --data debian-related npm-names-deps yso-titles --methods nearest trees

Rows of methods and datasets that are not measured anew stay in the file, each with the command that made it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, command, data_folder, save
from laconic.config import Settings, preset_path, read_settings
from laconic.data.corpus import Corpus
from laconic.data.sources import read
from laconic.errors import DataError
from laconic.evaluation.thresholds import Aim
from laconic.methods.registry import METHODS, config_of
from laconic.methods.train import train_model
from laconic.predict.predictor import Predictor
from laconic.training.run import Run

NAME, TITLE = "thresholds", "calibration and thresholds"
WITHOUT_PRESET = ("nearest", "trees", "siamese")  # they have the same settings everywhere


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.thresholds", description=__doc__)
    parser.add_argument("--data", nargs="+", default=["debian-related", "npm-names-deps", "yso-titles"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["nearest", "trees"])
    parser.add_argument("--precision", type=float, default=0.9)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    path = RESULTS / f"{NAME}.json"
    found: dict[str, Any] = json.loads(path.read_text())[TITLE] if path.exists() else {}
    for name in options.data:
        corpus = _with_validation(read(str(data_folder(name) or name)))
        for method in options.methods:
            figures = measured(corpus, method, options.precision, options.device)
            found.setdefault(name, {})[method] = {"command": command(), **figures}
            save(NAME, {TITLE: found})


def measured(corpus: Corpus, method: str, precision: float, device: str) -> dict[str, Any]:
    """Return calibration errors and what thresholds give, in percent, on the test split."""
    began = perf_counter()
    model = train_model(corpus, method, config_of(method, _settings(method)), Run.unkept(device))
    seconds = perf_counter() - began
    predictor = Predictor(model, device)
    whole = predictor.evaluate(corpus, "test")
    figures: dict[str, Any] = {name: round(whole.metrics[name], 2) for name in ("ECE@5", "raw ECE@5", "micro F1@5")}
    for kind, aim in {
        "one threshold": Aim(precision),
        "a threshold per frequent label": Aim(precision, per_label=True),
        "best F1": Aim(),
    }.items():
        try:
            predictor.threshold = predictor.choose_threshold(corpus, "chosen", aim, 20)
        except DataError as error:  # no score of the method says so much
            figures[kind] = {"not reached": str(error)}
            continue
        at = predictor.evaluate(corpus, "test").at_threshold
        assert at is not None
        figures[kind] = {
            "chosen": round(predictor.threshold.precision, 2),
            "precision": round(at.micro.precision, 2),
            "recall": round(at.micro.recall, 2),
            "F1": round(at.micro.f1, 2),
            "threshold": round(at.threshold, 4),
            "own": at.own,
        }
    return figures | {"texts": len(corpus.split("chosen")), "training seconds": round(seconds)}


def _settings(method: str) -> Settings:
    return {} if method in WITHOUT_PRESET else read_settings(preset_path(method, "laptop"), [])


def _with_validation(corpus: Corpus) -> Corpus:
    """Cut a tenth of the training texts off. It is not called valid, or the training would use it."""
    split = corpus.split("train")
    cut = np.random.default_rng(0).permutation(len(split)) % 10 == 0
    parts = {"train": ~cut, "chosen": cut}
    splits = {name: split.rows(np.flatnonzero(rows)) for name, rows in parts.items()}
    return replace(corpus, splits={**splits, "test": corpus.split("test")})


if __name__ == "__main__":
    main()
