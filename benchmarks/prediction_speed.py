"""How quickly packed models answer, from raw text to label names, and what they take.

`shapes` packs untrained InceptionXML+ models of the papers' sizes and measures each: a text at a time on one core, with
at least 4,000 and 8,000 label rows scored; private memory; files; the first answer; what a second process shares.
`models` measures a real one on its test texts, and how far it agrees with what it was packed from (`laconic bench
--against pecos` times PECOS beside it).

    python -m benchmarks.prediction_speed shapes
    python -m benchmarks.prediction_speed models --model MODEL --data yso-titles
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks._packed_shapes import SHAPES, titles, words_of
from benchmarks._serving import BATCH, COUNTED, rows_scored, served
from benchmarks.common import RESULTS, data_folder, save
from laconic.analysis.bench import packed_folder
from laconic.data.corpus import Corpus
from laconic.data.sources import read
from laconic.evaluation.dataset_view import DatasetView
from laconic.evaluation.evaluate import Truth, places_needed
from laconic.evaluation.metrics import judge, report
from laconic.evaluation.metrics.rankings import Ranked
from laconic.packed.engine.search import Searched
from laconic.packed.folder import open_packed
from laconic.predict.load import packed_predictor
from laconic.predict.packing_cost import measured
from laconic.storage.model_folder import read_model

NAME = "prediction_speed"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", default="shapes", choices=("shapes", "models"))
    parser.add_argument("--shape", action="append", choices=SHAPES, help="by default those of the papers")
    parser.add_argument("--model", type=Path, help="a model folder")
    parser.add_argument("--data", default="debian-related", help="what it was trained on")
    parser.add_argument("--singly", type=int, default=2000, help="texts that are timed one by one")
    options = parser.parse_args()
    if options.what == "shapes":
        for name in options.shape or [name for name in SHAPES if name != "small"]:
            _save_beside("shapes", name, shape_figures(name, options.singly))
        return
    folder = data_folder(options.data)
    if folder is None or options.model is None:
        print(f"{options.data} or a model of it: not here, left out")
        return
    figures = model_figures(options.model, read(str(folder)), options)
    _save_beside(options.what, f"{options.data}, {figures['method']}", figures)


def shape_figures(name: str, singly: int) -> dict[str, Any]:
    shape = SHAPES[name]
    texts = titles(words_of(shape), max(singly, COUNTED), seed=2)
    with TemporaryDirectory(prefix="laconic-") as scratch:
        folder = Path(scratch) / "packed"
        # In a process of its own, whose memory goes with it.
        subprocess.run([sys.executable, "-m", "benchmarks._packed_shapes", name, str(folder)], check=True)
        sizes = {"labels": shape.labels, "clusters": shape.clusters, "clusters_opened": shape.beam}
        return {**sizes, "rows_scored": rows_scored(folder, texts[:COUNTED]), **served(folder, texts, singly)}


def model_figures(model: Path, corpus: Corpus, options: argparse.Namespace) -> dict[str, Any]:
    some, saved = corpus.sampled("test", BATCH), read_model(model)
    texts = list(some.split("test").texts or ())
    with packed_folder(model, corpus) as folder:
        packed = open_packed(folder)
        rows, truth = DatasetView.of(packed).rows_and_truth(some, "test")
        ranked = packed_predictor(packed).rank_rows(rows, places_needed(truth, (5,)))
        figures = {
            "method": saved.facts["method"],
            "labels": len(packed.labels),
            "packing": measured(packed, saved, corpus, "test")[1].facts(),
            **_precision(ranked.labels, truth),
            **served(folder, texts, options.singly),
        }
        if isinstance(packed.ranker, Searched):
            figures["rows_scored"] = rows_scored(folder, texts[:COUNTED])
    return figures


def _precision(ranking: Ranked, truth: Truth) -> dict[str, float]:
    figures = report(judge(ranking, truth.labels, leave_out=truth.leave_out), ks=(1, 5))
    return {name: round(figures[name], 2) for name in ("P@1", "P@5")}


def _save_beside(what: str, name: str, figures: dict[str, Any]) -> None:
    """Write figures beside what other runs have found."""
    path = RESULTS / f"{NAME}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known = {key: value for key, value in known.items() if key not in ("command", "machine")}
    known.setdefault(what, {})[name] = figures
    save(NAME, known)


if __name__ == "__main__":
    main()
