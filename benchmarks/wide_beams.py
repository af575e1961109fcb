"""What InceptionXML+ answers where more clusters are opened than in training: by either way of ranking.

By the extreme classifier alone, labels of clusters that training never opened for such texts have scores that mean
nothing. The product with the cluster's probability keeps them down. A held-out part of the training texts is ranked.

    python -m benchmarks.wide_beams --data linux-title-files debian-related --device cuda
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
from laconic.evaluation.dataset_view import DatasetView
from laconic.evaluation.evaluate import Truth, places_needed, rank_all
from laconic.evaluation.metrics import judge, report
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker
from laconic.methods.train import train_model
from laconic.models.rankers import ShortlistRanker
from laconic.training.run import Run, device_named

TEXTS = 5000  # held out


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.wide_beams", description=__doc__)
    parser.add_argument("--data", nargs="+", default=["debian-related"])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--preset", default="", help="laptop, for a CPU")
    parser.add_argument("--texts", type=int, default=0, help="of each dataset, for a trial; 0: all")
    options = parser.parse_args()
    preset = read_settings(preset_path("inceptionxml+", options.preset), []) if options.preset else {}
    found: dict[str, Any] = {}
    for name in options.data:
        found[name] = measured(read(data_folder(name) or name), options.texts, preset, options.device)
        save("wide_beams", {"preset": options.preset, "held-out texts": TEXTS, "data": found})


def measured(corpus: Corpus, most: int, settings: Settings, device: str) -> dict[str, Any]:
    split = corpus.split("train")
    order = np.random.default_rng(0).permutation(len(split))[: most or None]
    held = min(TEXTS, len(order) // 5)
    parts = {"train": split.rows(np.sort(order[held:])), "test": split.rows(np.sort(order[:held]))}
    corpus = replace(corpus, splits=parts)
    model = train_model(corpus, "inceptionxml+", config_of("inceptionxml+", settings), Run.unkept(device))
    ranker = restore_ranker(model, device_named(device))
    assert isinstance(ranker, ShortlistRanker)
    rows, truth = DatasetView.of(model).rows_and_truth(corpus, "test")
    clusters = ranker.clusters.classifier.num_labels
    tops = sorted({ranker.trained, *(min(ranker.trained * times, clusters) for times in (2, 4, 8)), clusters})
    return {
        "labels": ranker.num_labels,
        "clusters": clusters,
        "opened in training": ranker.trained,
        "opened": {
            str(top): {by: figures(ranker, top, by, rows, truth) for by in ("extreme", "product")} for top in tops
        },
    }


def figures(ranker: ShortlistRanker, top: int, by: str, rows: Any, truth: Truth) -> dict[str, float]:
    parts = ranker.encoder, ranker.clusters, ranker.classifier
    opened = ShortlistRanker(*parts, top=top, product=by == "product", trained=top).eval()
    ranking = rank_all(opened, rows, places_needed(truth, (5,)))
    found = report(judge(ranking, truth.labels, leave_out=truth.leave_out), ks=(1, 5))
    return {name: round(found[name], 2) for name in ("P@1", "P@5")}


if __name__ == "__main__":
    main()
