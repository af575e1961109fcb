"""Vectors of words distilled from a transformer as the start of a small model, beside a random start.

Ways are chosen on texts that are cut off the training split, by packages where texts have names; the test split is then
scored once. With --latency, also the median time of one text in the packed model on one thread. Pairs of a text with
itself are left out.

    python -m benchmarks.static_vectors --encoder FOLDER
    python -m benchmarks.static_vectors --encoder FOLDER --split test --latency
    python -m benchmarks.static_vectors --encoder FOLDER --method astec --preset laptop --texts 15000
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks._trainings import METRICS, Figures, Job, corpus_of, show_rows, side_by_side
from benchmarks.common import data_folder
from laconic.config import merged, preset_path, read_settings
from laconic.data.corpus import Corpus, Split
from laconic.data.encoder_folder import read_pretrained
from laconic.data.vectors import write_vectors
from laconic.evaluation.evaluate import evaluate, places_needed, rank_all
from laconic.export.pack import pack
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.methods.word_vectors import distilled_vectors, words_of
from laconic.predict.load import Speed, packed_predictor
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel
from laconic.training.run import Run

DATASETS = ("debian-related", "npm-names-deps", "yso-titles")
PLAIN, STARTED = "random start", "vectors of a transformer"
_SEED = 0  # of the cuts
_HELD = 0.1  # fraction of the training texts that choose
_ALIKE = 4  # first letters of names that texts on one side of a cut share
_TIMED, _BEFORE = 300, 50  # texts
_SHOWN = ("P@1", "P@5", "PSP@5", "tail R@10", "training seconds", "ms a text")


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.static_vectors", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--encoder", default="", help="the folder of a pre-trained transformer")
    parser.add_argument("--data", nargs="+", default=list(DATASETS))
    parser.add_argument("--method", default="siamese")
    parser.add_argument("--preset", default="", help="of the method: laptop")
    parser.add_argument("--set", action="append", default=[], help="a setting of all trainings")
    parser.add_argument("--ways", nargs="+", choices=[PLAIN, STARTED], default=[PLAIN, STARTED])
    parser.add_argument("--split", choices=["validation", "test"], default="validation")
    parser.add_argument("--texts", type=int, default=40_000, help="training texts at most, drawn at random")
    parser.add_argument("--tested", type=int, default=20_000, help="test texts at most, drawn at random")
    parser.add_argument("--latency", action="store_true", help="pack each model, and time one text at a time")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--folder", type=Path, default=Path("build/static_vectors"), help="where vectors are kept")
    parser.add_argument("--again", action="store_true", help="also what is among the results already")
    parser.add_argument("--name", default="static_vectors")
    options = parser.parse_args()
    if not Path(options.encoder or "-").is_dir():
        print("--encoder names no folder of a transformer here, left out")
        return
    there = [name for name in options.data if data_folder(name) is not None]
    jobs = [job(name, way, seed, options) for name in there for seed in options.seeds for way in options.ways]
    found = side_by_side(jobs, Work(options), options.name, 1, again=options.again)
    for name in there:
        show_rows(name, found.get(name, {}), _SHOWN)


def job(name: str, way: str, seed: int, options: Any) -> Job:
    preset = preset_path(options.method, options.preset) if options.preset else None
    settings = merged(read_settings(preset, options.set), {"seed": seed})
    called = ", ".join([options.method, way, options.split, *options.set])
    return Job(name, called, seed, settings, options.method, looks=(way,))


class Work:
    """What is done with a job: a training, its evaluation, and the latency of the packed model."""

    def __init__(self, options: Any) -> None:
        self.options = options

    def __call__(self, job: Job) -> Figures:
        options, found = self.options, Figures()
        corpus = cut_corpus(job.data, options.texts, options.tested)
        if STARTED in job.looks:
            width = config_of(job.method, job.settings).embedding
            path = vectors_of(corpus, f"{job.dataset}-{options.texts}", Path(options.encoder), options.folder, width)
            job = replace(job, settings=merged(job.settings, {"vectors": str(path)}))
        corpus = corpus if options.split == "test" else for_validation(corpus)
        started = perf_counter()
        model = train_model(corpus, job.method, config_of(job.method, job.settings), Run.unkept("cpu"))
        found["training seconds"] = round(perf_counter() - started, 1)
        found |= {"training texts": len(corpus.split("train")), "texts": len(corpus.split("test"))}
        timed = {"ms a text": latency(model, corpus)} if options.latency else {}
        return found | figures(model, corpus) | timed


@cache
def cut_corpus(name: str, texts: int, tested: int) -> Corpus:
    """Return a dataset with so many training and test texts at most."""
    corpus = corpus_of(name)
    splits = {one: some(corpus.split(one), most) for one, most in (("train", texts), ("test", tested))}
    return replace(corpus, splits=splits)


def some(split: Split, most: int) -> Split:
    if len(split) <= most:
        return split
    return split.rows(np.sort(np.random.default_rng(_SEED).permutation(len(split))[:most]))


def for_validation(corpus: Corpus) -> Corpus:
    """Return a corpus with some training texts in place of its test texts; those whose names begin alike together."""
    train = corpus.split("train")
    names = [str(row) if name is None else name[:_ALIKE] for row, name in enumerate(train.ids or [None] * len(train))]
    _, groups = np.unique(names, return_inverse=True)
    held = np.random.default_rng(_SEED).random(groups.max() + 1)[groups] < _HELD
    splits = {"train": train.rows(np.flatnonzero(~held)), "test": train.rows(np.flatnonzero(held))}
    return replace(corpus, splits=splits)


def vectors_of(corpus: Corpus, name: str, encoder: Path, folder: Path, width: int) -> Path:
    """Return the file of the vectors of a corpus's words, as wide as the model, which is made once."""
    path = folder / f"{name}-{width}.vec"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        started, words = perf_counter(), words_of(corpus).words
        write_vectors(path, words, distilled_vectors(read_pretrained(encoder), words, width, torch.device("cpu")))
        print(f"{path}: {len(words):,} words, {perf_counter() - started:.0f} s", flush=True)
    return path


def figures(model: SavedModel, corpus: Corpus) -> Figures:
    """Evaluate a model on the corpus's test texts."""
    predictor = Predictor(model, "cpu")
    rows, truth = predictor.view.rows_and_truth(corpus, "test")
    metrics = evaluate(rank_all(predictor.ranker, rows, places_needed(truth)), truth).metrics
    return {name: float(metrics[name]) for name in METRICS if name in metrics}


def latency(model: SavedModel, corpus: Corpus) -> float:
    """Return the median milliseconds of one text in the packed model; some come before to warm up."""
    predictor = packed_predictor(pack(model, corpus, "cpu"), Speed(threads=1))
    texts = list(corpus.split("test").texts or ())[: _TIMED + _BEFORE]
    times = []
    for text in texts:
        started = perf_counter()
        predictor.predict([text], k=5)
        times.append(1000 * (perf_counter() - started))
    return float(np.median(times[_BEFORE:]))


if __name__ == "__main__":
    main()
