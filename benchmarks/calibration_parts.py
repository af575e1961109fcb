"""Whether it harms that one held-out part chooses the epoch, fits the combiner and calibrates.

A fifth of the training texts is cut off first, and nothing that trains sees it. One half of that fits a curve,
the other half judges both curves: the one that training fitted on its held-out texts, which had chosen and fitted
before, and the one from fresh texts. Where the former is no worse, using texts twice does no harm.

    python -m benchmarks.calibration_parts --data debian-related npm-names-deps
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.common import data_folder, save
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

HELD = {"validation": 0.1}
METHODS: dict[str, tuple[str, Settings]] = {
    "label trees": ("trees", HELD),
    "InceptionXML+, preset laptop": ("inceptionxml+", read_settings(preset_path("inceptionxml+", "laptop"), []) | HELD),
    "label trees, combined": ("trees", {**HELD, "fusion": {"trees": 0}}),
}


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.calibration_parts", description=__doc__)
    parser.add_argument("--data", nargs="+", default=["debian-related", "npm-names-deps"])
    parser.add_argument("--texts", type=int, default=0, help="of each dataset, for a trial; 0: all")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name in options.data:
        corpus = _training(read(data_folder(name) or name), options.texts)
        fresh = np.random.default_rng(0).permutation(len(corpus.split("train"))) % 5 == 0
        found[name] = {title: measured(corpus, fresh, *how) for title, how in METHODS.items()}
        save("calibration_parts", {"ECE@5, percent": found})


def measured(corpus: Corpus, fresh: np.ndarray, method: str, settings: Settings) -> dict[str, float]:
    """Return the expected calibration error at 5, in percent, of raw scores and by either curve."""
    split = corpus.split("train")
    parts = {"train": split.rows(np.flatnonzero(~fresh)), "test": split.rows(np.flatnonzero(fresh))}
    cut = replace(corpus, splits=parts)
    model = train_model(cut, method, config_of(method, settings), Run.unkept("cpu"))
    rows, truth = DatasetView.of(model).rows_and_truth(cut, "test")
    ranking = rank_all(restore_ranker(model, device_named("cpu")), rows, places_needed(truth))
    scores, true = scored_pairs(ranking, truth)
    judges = np.random.default_rng(1).random(len(scores)) < 0.5
    own, separate = Calibration.of_facts(model.facts), isotonic(scores[~judges], true[~judges])
    assert own is not None
    pairs = Pairs(scores[judges], true[judges])
    return {
        "raw": expected_calibration_error(*pairs),
        "the part that chose and fitted": expected_calibration_error(own.apply(pairs.scores), pairs.true),
        "a part of its own": expected_calibration_error(separate.apply(pairs.scores), pairs.true),
        "pairs": len(pairs.scores),
    }


def _training(corpus: Corpus, most: int) -> Corpus:
    split = corpus.split("train")
    rows = np.arange(min(most or len(split), len(split)))
    return replace(corpus, splits={"train": split.rows(rows)})


if __name__ == "__main__":
    main()
