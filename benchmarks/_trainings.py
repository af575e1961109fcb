"""Many trainings side by side on one GPU: data read once and shared by processes, figures kept as they come."""

from __future__ import annotations

import gc
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import RESULTS, command, data_folder, save
from laconic.data import sources
from laconic.data.catalogue import propensity_of
from laconic.data.corpus import Corpus
from laconic.data.prepare import Prepared, input_rows, prepare
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.evaluation.evaluate import Evaluation, Truth, evaluate, places_needed, rank_all
from laconic.evaluation.metrics import TrainingCounts
from laconic.models.rankers import Ranker

METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "tail R@10", "R@20", "C@20")
# The protocol of the authors' figures: words `[a-z0-9+#]+`, nothing left out, pairs of a text with itself kept.
WORDS = {"pattern": "[a-z0-9+#]+", "stop_words": False}
Figures = dict[str, Any]


@dataclass(frozen=True)
class Job:
    data: str  # a dataset's name, or the path of its folder
    name: str
    seed: int
    settings: dict[str, Any] = field(hash=False, compare=False)
    method: str = "astec"
    members: int = 1
    looks: tuple[str, ...] = ()  # what else is measured of the trained model

    @property
    def dataset(self) -> str:
        return Path(self.data).name


@dataclass(frozen=True)
class Material:
    """A dataset as numbers."""

    prepared: Prepared
    rows: Any  # of the test split
    truth: Truth
    corpus: Corpus


_corpora: dict[str, Corpus] = {}
_materials: dict[tuple[Any, ...], Material] = {}


def corpus_of(name: str) -> Corpus:
    """Read a dataset once, before processes part, so that they share it."""
    if name not in _corpora:
        _corpora[name] = sources.read(str(data_folder(name)))
    return _corpora[name]


def material(
    name: str,
    *,
    with_label_texts: bool = False,
    with_self_pairs: bool = True,
    splitter: Splitter = Splitter(**WORDS),
    vocabulary: VocabularyConfig = VocabularyConfig(),
    features: bool = False,
    called: str = "",
) -> Material:
    """Prepare a dataset once for each way of reading it; `features` are read instead of texts where both are there.

    `called` is the name whose propensity constants count, where it is not the folder's.
    """
    key = (name, with_label_texts, with_self_pairs, splitter, vocabulary, features, called)
    if key not in _materials:
        corpus = corpus_of(name)
        corpus = corpus.keeping_self_pairs() if with_self_pairs else corpus
        read = corpus
        if features:
            read = replace(corpus, splits={one: replace(split, texts=None) for one, split in corpus.splits.items()})
        prepared = prepare(read, splitter, vocabulary, with_label_texts=with_label_texts)
        test = read.split("test")
        training = TrainingCounts.of(prepared.data.labels, propensity=propensity_of(called or Path(name).name))
        truth = Truth(labels=test.labels, leave_out=test.leave_out, training=training)
        _materials[key] = Material(prepared, input_rows(test, prepared.tokenizer), truth, corpus)
    return _materials[key]


def few(have: Material, rows: int) -> Material:
    """So many training and test texts of it; 0: all."""
    if not rows:
        return have
    prepared, truth, first = have.prepared, have.truth, slice(0, rows)
    left_out = None if truth.leave_out is None else truth.leave_out[first]
    return replace(
        have,
        prepared=prepared._replace(data=prepared.data.rows(np.arange(min(rows, len(prepared.data))))),
        rows=have.rows[first],
        truth=replace(truth, labels=truth.labels[first], leave_out=left_out),
    )


def side_by_side(
    jobs: Sequence[Job],
    work: Callable[[Job], Figures],
    name: str,
    at_once: int,
    *,
    again: bool = False,
    folder: Path = RESULTS,
) -> Figures:
    """Work the jobs off in processes and keep each one's figures in FOLDER/NAME.json as soon as it is done.

    What is there already, or in results/NAME.json, is kept, and not done once more unless `again`.
    """
    table, earlier = stored(name, folder), earlier_commands(name, folder)
    waiting_for = [job for job in jobs if again or not _is_done(table, job)]
    started = time.perf_counter()
    for job, done in (_one_by_one if at_once == 1 else _at_once(at_once))(waiting_for, work):
        if (error := done.exception()) is not None:  # the others are worth keeping
            print(f"{job.dataset}, {job.name}, {job.seed} failed: {error!r}\n{error.__cause__ or ''}", flush=True)
            continue
        found = done.result()
        shown = {key: value for key, value in found.items() if not isinstance(value, list | dict)}
        print(round(time.perf_counter() - started), job.dataset, job.name, job.seed, shown, flush=True)
        rows = table.setdefault(job.dataset, {})
        rows[job.name] = with_run(rows.get(job.name, {}), job.seed, found)
        save(name, table | {"earlier commands": earlier}, folder=folder, quietly=True)
    return table


Done = Iterator[tuple[Job, "Future[Figures]"]]


def _one_by_one(jobs: Sequence[Job], work: Callable[[Job], Figures]) -> Done:
    """Work jobs off in this process."""
    for job in jobs:
        done: Future[Figures] = Future()
        try:
            done.set_result(_timed(work, job))
        except Exception as error:  # noqa: BLE001 - it is kept, as a pool does
            done.set_exception(error)
        yield job, done


def _at_once(count: int) -> Callable[[Sequence[Job], Callable[[Job], Figures]], Done]:
    """Work so many jobs off side by side, each in a process of one thread."""

    def work_off(jobs: Sequence[Job], work: Callable[[Job], Figures]) -> Done:
        with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("fork")) as pool:
            waiting = {pool.submit(_alone, work, job): job for job in jobs}
            yield from ((waiting[done], done) for done in as_completed(waiting))

    return work_off


def stored(name: str, folder: Path = RESULTS) -> Figures:
    """Return what FOLDER/NAME.json, or else results/NAME.json, has by dataset and name; all else it says is no dict."""
    return {data: rows for data, rows in _file(name, folder).items() if isinstance(rows, dict)}


def earlier_commands(name: str, folder: Path = RESULTS) -> list[str]:
    """Return the commands that made the rows which are there already, but for the one that is running."""
    found = _file(name, folder)
    commands = [*found.get("earlier commands", []), *filter(None, [found.get("command")])]
    return [one for one in dict.fromkeys(commands) if one != command()]


def _file(name: str, folder: Path) -> Figures:
    path = next((path for path in (folder / f"{name}.json", RESULTS / f"{name}.json") if path.exists()), None)
    return {} if path is None else json.loads(path.read_text(encoding="utf-8"))


def _is_done(table: Figures, job: Job) -> bool:
    return str(job.seed) in table.get(job.dataset, {}).get(job.name, {}).get("runs", {})


def _alone(work: Callable[[Job], Figures], job: Job) -> Figures:
    torch.set_num_threads(1)
    return _timed(work, job)


def _timed(work: Callable[[Job], Figures], job: Job) -> Figures:
    torch._dynamo.reset()  # or the compiler gives up after a few models
    if torch.cuda.is_initialized():
        gc.collect()
        torch.cuda.empty_cache()  # or the last model's memory counts as taken
    started = time.perf_counter()
    found = work(job)
    return {"seconds": round(time.perf_counter() - started, 1)} | found


def with_run(row: Figures, seed: int, found: Figures) -> Figures:
    """Return a row with one more run: means and deviations over its seeds; what is no number, as the first has it.

    A row of which only means were kept begins anew.
    """
    row = row if "runs" in row else {}
    runs = {int(one): figures for one, figures in row.get("runs", {}).items()}
    runs[seed] = {key: value for key, value in found.items() if isinstance(value, float | int)}
    others = {key: value for key, value in found.items() if not isinstance(value, float | int)}
    kept = {key: value for key, value in row.items() if key not in ("seeds", "runs") and not _is_spread(value)}
    others = {**kept, **others} if seed == min(runs) else {**others, **kept}
    names = dict.fromkeys(key for seed in sorted(runs) for key in runs[seed])
    means = {key: spread([run[key] for run in runs.values() if key in run]) for key in names}
    return {"seeds": len(runs), **means, **others, "runs": {str(one): runs[one] for one in sorted(runs)}}


def _is_spread(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"mean", "sd"}


def by_data(results: Mapping[Job, Figures]) -> Figures:
    """Return rows by dataset and name."""
    table: Figures = {}
    for job, found in results.items():
        rows = table.setdefault(job.dataset, {})
        rows[job.name] = with_run(rows.get(job.name, {}), job.seed, found)
    return table


def spread(values: Sequence[float]) -> dict[str, float]:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": round(statistics.mean(values), 4), "sd": round(deviation, 4)}


def scored(ranker: Ranker, of: Material) -> dict[str, float]:
    """On the test split."""
    found = evaluated(ranker, of).metrics
    return {name: found[name] for name in METRICS}


def evaluated(ranker: Ranker, of: Material) -> Evaluation:
    return evaluate(rank_all(ranker, of.rows, places_needed(of.truth)), of.truth)


def prefixed(name: str, figures: Figures) -> Figures:
    return {f"{name}: {key}": value for key, value in figures.items()}


def show_rows(name: str, rows: Figures, shown: Sequence[str]) -> None:
    """Print a line for each training of a dataset: means over seeds."""
    print(f"\n{name:60}", *(f"{one:>16}" for one in shown))
    for called, row in rows.items():
        print(f"{called:60}", *(f"{row[one]['mean']:16.2f}" for one in shown if one in row))
