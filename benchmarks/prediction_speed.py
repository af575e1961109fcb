"""How quickly packed models answer, from raw text to label names, and what they take.

`shapes` packs untrained InceptionXML+ models of the papers' sizes and measures each: a text at a time on one core, with
at least 4,000 and 8,000 label rows scored; private memory; files; the first answer; what a second process shares.
`models` measures a real one on its test texts, and how far it agrees with what it was packed from. With --pecos, a
Python that has libpecos, PECOS's XR-Linear is trained on the same texts and timed in the same run. `whole` asks for all
test texts, from Python and from the command line.

    python -m benchmarks.prediction_speed shapes
    python -m benchmarks.prediction_speed models --model MODEL --data yso-titles --pecos PYTHON
    python -m benchmarks.prediction_speed whole --model MODEL --data yso-titles
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scipy.sparse import csr_array, load_npz, save_npz

from benchmarks._packed_shapes import SHAPES, titles, words_of
from benchmarks._serving import BATCH, COUNTED, rows_scored, served
from benchmarks._whole_split import agreement
from benchmarks.common import RESULTS, data_folder, save
from laconic.analysis.bench import packed_folder
from laconic.data.corpus import Corpus
from laconic.data.sources import read
from laconic.evaluation.dataset_view import DatasetView
from laconic.evaluation.evaluate import Truth, places_needed
from laconic.evaluation.metrics import judge, report, top_k_of
from laconic.evaluation.metrics.rankings import Ranked
from laconic.packed.engine.search import Searched
from laconic.packed.folder import open_packed
from laconic.predict.load import packed_predictor
from laconic.predict.packing_cost import measured
from laconic.storage.model_folder import read_model

NAME = "prediction_speed"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", default="shapes", choices=("shapes", "models", "whole"))
    parser.add_argument("--shape", action="append", choices=SHAPES, help="by default those of the papers")
    parser.add_argument("--model", type=Path, help="a model folder")
    parser.add_argument("--data", default="debian-related", help="what it was trained on")
    parser.add_argument("--pecos", default="", metavar="PYTHON", help="one that has libpecos")
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
    corpus = read(str(folder))
    whole = options.what == "whole"
    figures = agreement(options.model, corpus) if whole else model_figures(options.model, corpus, options)
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
    if options.pecos:
        figures["pecos"] = pecos_figures(options.pecos, corpus, some, options.singly)
        ways = {name: found for name, found in figures["pecos"].items() if isinstance(found, dict)}
        times = {name: round(found["p50_ms"] / figures["p50_ms"], 2) for name, found in ways.items()}
        figures["times_as_fast_as_pecos"] = times
    return figures


def pecos_figures(python: str, corpus: Corpus, some: Corpus, singly: int) -> dict[str, Any]:
    train, test = corpus.split("train"), some.split("test")
    with TemporaryDirectory(prefix="laconic-") as scratch:
        folder = Path(scratch)
        names = list(corpus.labels.names)
        job = {"train": list(train.texts or ()), "texts": list(test.texts or ()), "singly": singly, "names": names}
        (folder / "job.json").write_text(json.dumps(job))
        save_npz(folder / "labels.npz", train.labels)
        command = [python, str(Path(__file__).with_name("_pecos.py")), scratch]
        timed = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])
        scores = csr_array(load_npz(folder / "scores.npz"))
    truth = Truth(labels=test.labels, leave_out=test.leave_out, training=None)
    return {**timed, **_precision(top_k_of(scores, places_needed(truth, (5,))), truth)}


def _precision(ranking: Ranked, truth: Truth) -> dict[str, float]:
    figures = report(judge(ranking, truth.labels, leave_out=truth.leave_out), ks=(1, 5))
    return {name: round(figures[name], 2) for name in ("P@1", "P@5")}


def _save_beside(what: str, name: str, figures: dict[str, Any]) -> None:
    """Keeps what other runs have found."""
    path = RESULTS / f"{NAME}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known = {key: value for key, value in known.items() if key not in ("command", "machine")}
    known.setdefault(what, {})[name] = figures
    save(NAME, known)


if __name__ == "__main__":
    main()
