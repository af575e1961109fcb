"""Choose settings of the combined model on texts that are cut off the training split; the test split is not looked at.

The base and the trees are trained once. Spaces of texts and label texts, and weights of the combining network's loss,
are then tried over them.

    python -m benchmarks.combined_choices --data npm-names-deps
    python -m benchmarks.combined_choices --data debian-related --similar 0.8
    python -m benchmarks.combined_choices --data debian-related --set warm_up.epochs=15 row_start=8 --siamese 256
    python -m benchmarks.combined_choices --data debian-related --device cpu --budget 2m --rows 2000
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from benchmarks._trainings import METRICS, Figures, Job, Material, few, material, prefixed, side_by_side
from benchmarks.combined_quality import Remembering, combined
from benchmarks.common import data_folder
from laconic.config import configure, merged, read_settings
from laconic.data.catalogue import propensity_of
from laconic.data.text import Splitter
from laconic.evaluation.evaluate import Truth, evaluate, places_needed, rank_all
from laconic.evaluation.metrics import TrainingCounts
from laconic.methods.auto import choose
from laconic.methods.registry import METHODS, add_extra_texts
from laconic.methods.stage_times import Situation
from laconic.methods.validation import as_new_texts
from laconic.models.rankers import Ranker
from laconic.system.machine import usable_cores
from laconic.training.run import Run
from laconic.units import seconds_of

_CUT, _MOST = 0.1, 15_000  # fraction of the training texts that choose, and how many they are at most
_SEED = 77  # of the cut
_LARGEST = 0.05  # of the cut: larger groups of similar texts stay, since one alone would decide the figures
_AT_ONCE = 1000  # texts compared with all
_SHOWN = ("P@1", "P@5", "PSP@5", "tail R@10")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=["debian-related", "npm-names-deps", "eurlex57k-titles"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", default="", help="as for train")
    parser.add_argument("--set", dest="settings", nargs="*", default=[], help="further settings, as for train")
    parser.add_argument("--siamese", type=int, nargs="+", default=[0, 256])
    parser.add_argument("--rare", type=float, nargs="+", default=[0.0, 0.2, 0.3])
    parser.add_argument("--first", type=float, nargs="+", default=[0.5, 1.5, 2.5])
    parser.add_argument("--ordered", type=int, nargs="+", default=[0, 7], help="labels that boosted trees order")
    parser.add_argument("--tail", type=float, nargs="+", default=[0.0, 0.05])
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--similar", type=float, default=0.0, help="cut texts with all that are so similar (cosine)")
    parser.add_argument("--rows", type=int, default=0, help="so many training texts, to see that it runs")
    options = parser.parse_args()
    jobs = [job(name, options) for name in options.data if data_folder(name) is not None]
    side_by_side(jobs, Trying(options), "combined_choices", options.at_once)


def job(name: str, options: Any) -> Job:
    data = cut(name, options.rows, options.similar).prepared.data
    budget = seconds_of(options.budget) if options.budget else None
    sizes = len(data), data.num_labels, data.labels.nnz
    choice = choose(
        Situation(*sizes, "text", data.label_inputs is not None, options.device == "cuda", usable_cores(), budget)
    )
    called = ", ".join(["choices", *options.settings])
    return Job(name, called, 1, merged(choice.settings, read_settings(None, options.settings)), choice.method)


def cut(name: str, rows: int, similar: float = 0.0) -> Material:
    """Return the dataset with some of its training texts, read as new ones, in place of the test split.

    With `similar`, whole groups of texts are cut that are linked by such cosines, as where a test split has other
    sources than the training split.
    """
    have = few(material(name, with_label_texts=True, with_self_pairs=False, splitter=Splitter()), rows)
    data = replace(have.prepared.data, validation=None)
    groups = _groups(data.inputs, similar) if similar else np.arange(len(data))
    sizes, held = np.bincount(groups), min(round(_CUT * len(data)), _MOST)
    order = np.random.default_rng(_SEED).permutation(len(sizes))
    order = order[sizes[order] <= max(1, held * _LARGEST)]
    gone = np.isin(groups, order[: np.searchsorted(np.cumsum(sizes[order]), held, side="right")])
    learn, choosing = data.rows(np.flatnonzero(~gone)), data.rows(np.flatnonzero(gone))
    training = TrainingCounts(per_label=learn.label_counts, texts=len(learn), propensity=propensity_of(name))
    truth = Truth(labels=choosing.labels, leave_out=choosing.leave_out, training=training)
    prepared = have.prepared._replace(data=learn)
    return replace(have, prepared=prepared, rows=as_new_texts(choosing, learn), truth=truth)


def _groups(inputs: csr_array, cosine: float) -> np.ndarray:
    """Return the group of each text: texts that such cosines of words link, also by way of others."""
    rows = csr_array(inputs.multiply(1 / np.sqrt(inputs.multiply(inputs).sum(axis=1))[:, None]))
    pairs = [np.empty((2, 0), np.int64)]
    for start in range(0, rows.shape[0], _AT_ONCE):
        found = (rows[start : start + _AT_ONCE] @ rows.T).tocoo()
        near = found.data >= cosine
        pairs.append(np.stack([found.row[near] + start, found.col[near]]))
    links = np.concatenate(pairs, axis=1)
    graph = coo_array((np.ones(links.shape[1], bool), tuple(links)), shape=(rows.shape[0],) * 2)
    return np.asarray(connected_components(graph, directed=False)[1])


class Trying:
    """What is done with a dataset: one base, one forest, every combination of the options."""

    def __init__(self, options: Any) -> None:
        self.options = options

    def __call__(self, job: Job) -> Figures:
        have, run = cut(job.data, self.options.rows, self.options.similar), Remembering(Run.unkept(self.options.device))
        method = add_extra_texts(METHODS[job.method]) if "extra_texts" in job.settings else METHODS[job.method]
        own = {name: value for name, value in job.settings.items() if name != "fusion"}
        base = method.train(have.prepared.data, configure(method.config, {"seed": job.seed} | own), run)
        found = _figures(job.method, base.ranker.to(run.device), have)
        for called, settings in self._settings():
            ranker = combined(base, have, job.settings["fusion"] | settings, run).ranker
            for tail in self.options.tail:
                found |= _figures(f"{called}, tail={tail}", ranker.with_tail(tail).eval(), have)
        return found

    def _settings(self) -> Iterator[tuple[str, dict[str, Any]]]:
        tried = {name: getattr(self.options, name) for name in ("siamese", "rare", "first", "ordered")}
        for values in product(*tried.values()):
            settings = dict(zip(tried, values, strict=True))
            yield ", ".join(f"{name}={value}" for name, value in settings.items()), settings


def _figures(called: str, ranker: Ranker, have: Material) -> Figures:
    metrics = evaluate(rank_all(ranker, have.rows, places_needed(have.truth)), have.truth).metrics
    print(called, {name: round(metrics[name], 2) for name in _SHOWN}, flush=True)
    return prefixed(called, {name: metrics[name] for name in METRICS if name in metrics})


if __name__ == "__main__":
    main()
