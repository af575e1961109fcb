"""Evaluates a model over a range of the one setting that can be changed after training.

top     clusters to probe (InceptionXML+, DECAF): a longer shortlist finds more and takes longer
beta    the classifier's weight in a score (Astec); the rest is how near a label is, which is kinder to rare ones
alpha   the re-ranker's weight in a score; the rest is that of what it re-ranks
tail    tail bias of a fused model
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import NamedTuple

from laconic.data.corpus import Corpus
from laconic.data.dataset import Rows
from laconic.errors import ConfigError
from laconic.evaluation.evaluate import Truth, places_needed, rank_all, rank_all_by
from laconic.evaluation.metrics import judge, report
from laconic.evaluation.shortlists import shortlist_figures
from laconic.models.fusion.ranker import FusedRanker
from laconic.models.rankers import SHARES, CandidatesRanker, Ensemble, Ranker, Reranker, ShortlistRanker
from laconic.predict.predictor import Predictor
from laconic.types import Ranking
from laconic.units import counted

TAIL_BIASES = (-0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8)
TITLES = {
    "top": "by clusters probed",
    "beta": "by the classifier's weight in a score",
    "alpha": "by the re-ranker's weight in a score",
    "tail": "by tail bias",
}
FIGURES = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "tail R@10")
Value = int | float
Point = dict[str, int | float]  # the setting with its value, then metrics in percent


class Setting(NamedTuple):
    """The setting of a model that can be changed after training, and its range."""

    name: str
    values: Sequence[Value]  # over its range
    ends: tuple[int, int]
    at: Callable[[Value], Ranker]  # the ranker with that value


@singledispatch
def setting_of(ranker: Ranker) -> Setting:
    """Return the setting of a ranker that can be swept."""
    raise ConfigError(
        "this model has no setting to sweep; models of inceptionxml+ and decaf have one (top), of astec (beta), "
        "re-ranked (alpha: --rerank) and fused ones (tail: --fuse)"
    )


@setting_of.register
def _(ranker: FusedRanker) -> Setting:
    return Setting("tail", TAIL_BIASES, (-10, 10), ranker.with_tail)


@setting_of.register
def _(ranker: Reranker) -> Setting:
    return Setting("alpha", SHARES, (0, 1), ranker.blended)


@setting_of.register
def _(ranker: CandidatesRanker) -> Setting:
    return Setting("beta", SHARES, (0, 1), ranker.blended)


@setting_of.register
def _(ranker: ShortlistRanker) -> Setting:
    clusters = ranker.clusters.classifier.num_labels
    return Setting("top", _doubling(ranker.top, clusters), (1, clusters), lambda top: ranker.with_beam(int(top)))


@setting_of.register
def _(ranker: Ensemble) -> Setting:
    settings = [setting_of(member) for member in ranker.rankers()]
    return settings[0]._replace(at=lambda value: Ensemble([setting.at(value) for setting in settings]))


def sweep_model(predictor: Predictor, corpus: Corpus, split_name: str, values: Sequence[Value] = ()) -> list[Point]:
    """Evaluate a model at each of these values of its setting, or over the whole range."""
    return sweep(predictor.ranker, *predictor.view.rows_and_truth(corpus, split_name), values)


def sweep(ranker: Ranker, rows: Rows, truth: Truth, values: Sequence[Value] = ()) -> list[Point]:
    """Return the metrics at the given values of the setting, or over its range."""
    setting = setting_of(ranker)
    _check(setting, values)
    values, k = values or setting.values, places_needed(truth, (10,))
    if isinstance(ranker, ShortlistRanker):
        return [_by_clusters(ranker.with_beam(int(top)), rows, truth, k) for top in values]
    if isinstance(ranker, CandidatesRanker | Reranker):
        rankings = rank_all_by(ranker, rows, k, values)
    else:
        rankings = [rank_all(setting.at(value), rows, k) for value in values]
    return [{setting.name: value, **_figures(ranking, truth)} for value, ranking in zip(values, rankings, strict=True)]


def _check(setting: Setting, values: Sequence[Value]) -> None:
    first, last = setting.ends
    shown = ", ".join(f"{value:g}" for value in values)
    if setting.name == "top" and any(value not in range(first, last + 1) for value in values):
        raise ConfigError(f"top must be {first} to the model's {counted(last, 'cluster')}, but is {shown}")
    if any(not first <= value <= last for value in values):
        raise ConfigError(f"{setting.name} must be {first} to {last}, but is {shown}")


def _by_clusters(ranker: ShortlistRanker, rows: Rows, truth: Truth, k: int) -> Point:
    """Return also the recall of the shortlist and the speed."""
    started = time.perf_counter()
    ranking = rank_all(ranker, rows, k)
    seconds = time.perf_counter() - started
    return {
        "top": ranker.top,
        "labels scored": 100 * ranker.top / ranker.clusters.classifier.num_labels,
        **shortlist_figures(ranker, rows, truth.labels),
        **_figures(ranking, truth),
        "texts a second": rows.shape[0] / seconds,
    }


def _figures(ranking: Ranking, truth: Truth) -> Point:
    figures = report(judge(ranking, truth.labels, leave_out=truth.leave_out), truth.training, ks=(1, 3, 5, 10))
    return {name: figures[name] for name in FIGURES if name in figures}


def _doubling(top: int, clusters: int) -> list[int]:
    """Return doubling numbers of clusters, from an eighth of the model's own to eight times as many."""
    return sorted({min(max(1, round(top * 2.0**power)), clusters) for power in range(-3, 4)})
