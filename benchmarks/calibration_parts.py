"""Whether it harms that one held-out part chooses the epoch, fits the combiner and calibrates.

A fifth of the training texts is cut off first, and nothing that trains sees it. One half of that fits a curve,
the other half judges both curves: the one that training fitted on its held-out texts, which had chosen and fitted
before, and the one from fresh texts. Where the former is no worse, using texts twice does no harm.

    python -m benchmarks.calibration_parts --data debian-related npm-names-deps

Rows of methods and datasets that are not measured anew stay in the file, each with the command that made it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, command, data_folder, save
from laconic.config import Settings, preset_path, read_settings
from laconic.data.corpus import Corpus
from laconic.data.sources import read
from laconic.evaluation.calibration import Calibration, isotonic
from laconic.evaluation.dataset_view import DatasetView
from laconic.evaluation.evaluate import Pairs, places_needed, rank_all, scored_pairs
from laconic.evaluation.metrics import expected_calibration_error
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker
from laconic.methods.train import train_model
from laconic.training.run import Run, device_named

NAME, TITLE = "calibration_parts", "ECE@5 in percent, seed by seed"
HELD = {"validation": 0.1}
METHODS: dict[str, tuple[str, Settings]] = {
    "label trees": ("trees", HELD),
    "InceptionXML+, preset laptop": ("inceptionxml+", read_settings(preset_path("inceptionxml+", "laptop"), []) | HELD),
    "label trees, combined": ("trees", {**HELD, "fusion": {"trees": 0}}),
}


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.calibration_parts", description=__doc__)
    parser.add_argument("--data", nargs="+", default=["debian-related", "npm-names-deps"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--seeds", type=int, default=3, help="number of cuts, each with a training of its own")
    parser.add_argument("--texts", type=int, default=0, help="training texts to read of each dataset (0 = all)")
    options = parser.parse_args()
    found = kept_rows()
    for name in options.data:
        found.setdefault(name, {}).update({title: {"command": command()} for title in options.methods})
    corpora = {name: _training(read(data_folder(name) or name), options.texts) for name in options.data}
    for seed in range(options.seeds):
        for name, corpus in corpora.items():
            for title in options.methods:
                method, settings = METHODS[title]
                figures = measured(_cut(corpus, seed), method, {**settings, "seed": seed})
                for what, figure in figures.items():
                    found[name][title].setdefault(what, []).append(figure)
                save(NAME, {TITLE: found})


def kept_rows() -> dict[str, Any]:
    """Return the rows of the results file, by dataset and method."""
    path = RESULTS / f"{NAME}.json"
    rows: dict[str, Any] = json.loads(path.read_text())[TITLE] if path.exists() else {}
    return rows


def measured(corpus: Corpus, method: str, settings: Settings) -> dict[str, float]:
    """Return the expected calibration error at 5, in percent, of raw scores and by either curve."""
    model = train_model(corpus, method, config_of(method, settings), Run.unkept("cpu"))
    view, ranker = DatasetView.of(model), restore_ranker(model, device_named("cpu"))

    def pairs_of(split: str) -> Pairs:
        rows, truth = view.rows_and_truth(corpus, split)
        return scored_pairs(rank_all(ranker, rows, places_needed(truth)), truth)

    own, separate, pairs = Calibration.of_facts(model.facts), isotonic(*pairs_of("fresh")), pairs_of("test")
    assert own is not None
    return {
        "raw": expected_calibration_error(*pairs),
        "the part that chose and fitted": expected_calibration_error(own.apply(pairs.scores), pairs.true),
        "a part of its own": expected_calibration_error(separate.apply(pairs.scores), pairs.true),
        "pairs": len(pairs.scores),
        "training texts": len(corpus.split("train")),
    }


def _cut(corpus: Corpus, seed: int) -> Corpus:
    """Cut a tenth of the texts off to fit a curve of their own, and another tenth to judge by."""
    split = corpus.split("train")
    tenth = np.random.default_rng(seed).permutation(len(split)) % 10
    parts = {"train": tenth > 1, "fresh": tenth == 0, "test": tenth == 1}
    return replace(corpus, splits={name: split.rows(np.flatnonzero(part)) for name, part in parts.items()})


def _training(corpus: Corpus, most: int) -> Corpus:
    split = corpus.split("train")
    rows = np.arange(min(most or len(split), len(split)))
    return replace(corpus, splits={"train": split.rows(rows)})


if __name__ == "__main__":
    main()
