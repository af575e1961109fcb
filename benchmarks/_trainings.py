"""Many trainings side by side on one GPU: data read once and shared by processes, figures kept as they come."""

from __future__ import annotations

import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from benchmarks.common import RESULTS, data_folder, save
from laconic.data.prepare import Prepared, input_rows, prepare
from laconic.data.sources import read
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.evaluate import Evaluation, Truth, evaluate, places_needed, rank_all
from laconic.metrics import TrainingCounts
from laconic.rankers import Ranker

METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "tail R@10")
# The protocol of the authors' figures: words `[a-z0-9+#]+`, nothing left out, pairs of a text with itself kept.
WORDS = {"pattern": "[a-z0-9+#]+", "stop_words": False}
Figures = dict[str, Any]


@dataclass(frozen=True)
class Job:
    data: str
    name: str
    seed: int
    settings: dict[str, Any] = field(hash=False, compare=False)
    method: str = "astec"


@dataclass(frozen=True)
class Material:
    """A dataset as numbers."""

    prepared: Prepared
    rows: Any  # of the test split
    truth: Truth


_materials: dict[tuple[Any, ...], Material] = {}


def material(
    name: str, *, with_label_texts: bool = False, with_self_pairs: bool = True, splitter: Splitter = Splitter(**WORDS)
) -> Material:
    """Made once, before processes part, so that they share it."""
    key = (name, with_label_texts, with_self_pairs, splitter)
    if key not in _materials:
        corpus = read(str(data_folder(name)))
        corpus = corpus.keeping_self_pairs() if with_self_pairs else corpus
        prepared = prepare(corpus, splitter, VocabularyConfig(), with_label_texts=with_label_texts)
        test = corpus.split("test")
        training = TrainingCounts.of(prepared.data.labels)
        truth = Truth(labels=test.labels, leave_out=test.leave_out, training=training)
        _materials[key] = Material(prepared, input_rows(test, prepared.tokenizer), truth)
    return _materials[key]


def few(have: Material, rows: int) -> Material:
    """So many training and test texts of it; 0: all."""
    if not rows:
        return have
    prepared, truth, first = have.prepared, have.truth, slice(0, rows)
    left_out = None if truth.leave_out is None else truth.leave_out[first]
    return Material(
        prepared._replace(data=prepared.data.rows(np.arange(rows))),
        have.rows[first],
        replace(truth, labels=truth.labels[first], leave_out=left_out),
    )


def side_by_side(
    jobs: Sequence[Job], work: Callable[[Job], Figures], name: str, at_once: int, *, others: bool = False
) -> None:
    """Works the jobs off in processes; results/NAME.partial.json has what is done, in case time runs out.

    `others` keeps the results of trainings that are not among the jobs.
    """
    results: dict[Job, Figures] = {}
    started = time.perf_counter()
    with ProcessPoolExecutor(at_once, mp_context=multiprocessing.get_context("fork")) as pool:
        waiting = {pool.submit(_alone, work, job): job for job in jobs}
        for done in as_completed(waiting):
            job = waiting[done]
            if (error := done.exception()) is not None:  # the others are worth keeping
                print(f"{job.data}, {job.name}, {job.seed} failed: {error!r}\n{error.__cause__}", flush=True)
                continue
            results[job] = done.result()
            shown = {key: value for key, value in results[job].items() if not isinstance(value, list | dict)}
            print(round(time.perf_counter() - started), job.data, job.name, job.seed, shown, flush=True)
            (RESULTS / f"{name}.partial.json").write_text(json.dumps(by_data(results), indent=2))
    kept = _kept(name) if others else {}
    table = by_data(results)
    save(name, {**kept, **{data: {**kept.get(data, {}), **rows} for data, rows in table.items()}})
    (RESULTS / f"{name}.partial.json").unlink(missing_ok=True)


def _kept(name: str) -> Figures:
    path = RESULTS / f"{name}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    return {data: rows for data, rows in found.items() if isinstance(rows, dict)}


def _alone(work: Callable[[Job], Figures], job: Job) -> Figures:
    torch.set_num_threads(1)
    torch._dynamo.reset()  # or the compiler gives up after a few models
    started = time.perf_counter()
    return work(job) | {"seconds": round(time.perf_counter() - started, 1)}


def by_data(results: Mapping[Job, Figures]) -> Figures:
    """Mean and deviation over the seeds of every name; what is no number, as the first seed found it."""
    table: Figures = {}
    for data, name in dict.fromkeys((job.data, job.name) for job in results):
        mine = sorted((job for job in results if (job.data, job.name) == (data, name)), key=lambda job: job.seed)
        runs = [results[job] for job in mine]
        figures = [key for key, value in runs[0].items() if isinstance(value, float)]
        row = {key: spread([run[key] for run in runs if key in run]) for key in figures}  # some of one seed alone
        others = {key: value for key, value in runs[0].items() if not isinstance(value, float)}
        table.setdefault(data, {})[name] = {"seeds": len(runs), **row, **others}
    return table


def spread(values: Sequence[float]) -> dict[str, float]:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": round(statistics.mean(values), 3), "sd": round(deviation, 3)}


def scored(ranker: Ranker, of: Material) -> dict[str, float]:
    """On the test split."""
    found = evaluated(ranker, of).metrics
    return {name: found[name] for name in METRICS}


def evaluated(ranker: Ranker, of: Material) -> Evaluation:
    return evaluate(rank_all(ranker, of.rows, places_needed(of.truth)), of.truth)


def prefixed(name: str, figures: Figures) -> Figures:
    return {f"{name}: {key}": value for key, value in figures.items()}
