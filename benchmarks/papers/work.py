"""Trains one row of a table in a process of its own and measures what the table shows of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._trainings import Figures, Job, Material, few, scored
from benchmarks.papers.by_trees import ByTrees
from benchmarks.papers.datasets import Dataset, with_epochs
from benchmarks.papers.looks import LOOKS, TRAINERS, Trainee
from benchmarks.papers.rows import VECTORS, Row
from laconic.config import Settings, configure, merged
from laconic.data.dataset import Dataset as Training
from laconic.data.prepare import with_vectors
from laconic.data.vectors import read_vectors
from laconic.data.vocabulary import Vocabulary
from laconic.evaluation.shortlists import shortlist_figures, shortlist_recall
from laconic.methods.registry import ensemble_of
from laconic.methods.result import Trained
from laconic.models.rankers import CandidatesRanker, Ensemble, Ranker, Reranker, ShortlistRanker
from laconic.training.run import Run


@dataclass(frozen=True)
class Options:
    """What holds for all rows of a command."""

    device: str = "cuda"
    vectors: Path | None = None  # for rows that want some, and with `start_all` for all that a paper starts so
    start_all: bool = False
    epochs: int = 0  # of every stage; 0: as they are
    overrides: Settings | None = None
    rows: int = 0  # training and test texts, to see that it runs; 0: all
    texts: int = 0  # training texts, by chance; 0: all


def jobs_of(rows: list[Row], data: Dataset, seeds: list[int], options: Options) -> Iterator[Job]:
    """Return a job for each row and seed; rows that want word vectors are left out where there are none."""
    for row in rows:
        settings = completed(row, data, options)
        if settings is None:
            print(f"{row.name}: left out, for it wants word vectors (--vectors FILE)")
            continue
        data.prepared(row.method, settings)  # before processes part, so that they share it
        for seed in seeds:
            yield Job(data.place, row.name, seed, settings, row.method, row.members, row.looks)


def completed(row: Row, data: Dataset, options: Options) -> Settings | None:
    """Return a row's settings as they are trained with; None where it wants vectors that are not there."""
    settings = with_epochs(row.method, data.fitted(row.settings(data)), options.epochs)
    known = {"astec", "inceptionxml", "inceptionxml+", "xml-cnn", "mach"}
    wanted = settings.get("vectors") == VECTORS or (options.start_all and row.method in known)
    if wanted:
        if options.vectors is None:
            return None
        settings = settings | {"vectors": str(options.vectors)}
        if settings.get("given_vectors") or settings.get("surrogate", {}).get("groups") == "none":
            settings["embedding"] = dim_of(options.vectors)  # as they are, with nothing random beside them
    known_keys = vars(ensemble_of(row.method, 1, over=settings).config()).keys()
    return merged(settings, {key: one for key, one in (options.overrides or {}).items() if key in known_keys})


def dim_of(vectors: Path) -> int:
    nothing = Vocabulary(words=(), text_counts=np.zeros(0, dtype=np.int64), num_texts=0)
    return int(read_vectors(vectors, nothing).vectors.shape[1])


@dataclass(frozen=True)
class Working:
    """What is done with a job."""

    paper: str
    preset: str
    options: Options

    def __call__(self, job: Job) -> Figures:
        data, options = Dataset(job.data, self.paper, self.preset), self.options
        method = ensemble_of(job.method, job.members, over=job.settings)
        have = few(data.prepared(job.method, job.settings), options.rows)
        config = configure(method.config, merged(job.settings, {"seed": job.seed}))
        training = of_training(have, config, options)
        run, started = Run.unkept(options.device), time.perf_counter()
        train = next((TRAINERS[look] for look in job.looks if look in TRAINERS), method.train)
        trained = train(training, config, run)
        seconds = time.perf_counter() - started
        ranker = trained.ranker.to(run.device) if method.on_gpu else trained.ranker
        trainee = Trainee(trained._replace(ranker=ranker), have, training, run)
        found: Figures = {"seconds": round(seconds, 2), **told(trained), **scored(ranker, have)}
        found |= of_shortlist(ranker, have)
        for look in job.looks:
            found |= LOOKS[look](trainee) if look in LOOKS else {}
        return found


def of_training(have: Material, config: Any, options: Options) -> Training:
    """Return the training data, all of it or some by chance, with word vectors where the settings name a file."""
    data = have.prepared.data
    if options.texts and options.texts < len(data):
        data = data.rows(np.sort(np.random.default_rng(0).permutation(len(data))[: options.texts]))
    if not getattr(config, "vectors", ""):
        return data
    named = with_vectors(have.prepared, have.corpus, Path(config.vectors))
    return replace(data, word_vectors=named.word_vectors)


def told(trained: Trained) -> Figures:
    """Return the seconds that the steps of all stages took, and the losses of each."""
    parts = [trained.facts, *trained.facts.get("members", [])]
    histories = [(stage, history) for part in parts for stage, history in _histories(part)]
    seconds = sum(epoch["seconds"] for _, history in histories for epoch in history)
    losses = {stage: [round(epoch["loss"], 6) for epoch in history] for stage, history in histories}
    return {"seconds of steps": float(seconds), "losses": losses}


def _histories(part: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for group in ("training", "reranking"):
        for stage, history in part.get(group, {}).items():
            if isinstance(history, list) and history and isinstance(history[0], dict) and "loss" in history[0]:
                yield f"{group}: {stage}", history


def of_shortlist(ranker: Ranker, have: Material) -> Figures:
    match ranker:
        case ShortlistRanker():
            return shortlist_figures(ranker, have.rows, have.truth.labels)
        case CandidatesRanker():
            return {"shortlist recall": shortlist_recall(ranker, have.rows, have.truth.labels)}
        case ByTrees():
            return of_shortlist(CandidatesRanker(ranker.encoder, ranker.shortlister, ranker.classifier, beta=1.0), have)
        case Reranker():
            return of_shortlist(ranker.base, have)
        case Ensemble():
            return of_shortlist(ranker.rankers()[0], have)
    return {}
