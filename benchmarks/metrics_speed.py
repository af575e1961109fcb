"""How fast a ranking of AmazonTitles-670K's size is judged in every metric, beside napkinXC on the same core.

150,000 texts with their 20 best of 670,091 labels, about 5 true labels a text, label frequencies by Zipf's law, and a
pair to leave out of every second text. Ours is everything: checks, pairs left out, P, nDCG, PSP, PSnDCG, recall, tail
recall and coverage at 1, 3, 5, 10, 20, and both quantile tables. napkinXC has five of these; it gets them as lists, its
quickest form, with the conversion and the left-out pairs not counted.

    python -m benchmarks.metrics_speed
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from napkinxc import metrics as napkin
from scipy.sparse import csr_array

from benchmarks.common import save
from laconic.evaluation.metrics import (
    KS,
    Judged,
    Propensity,
    TrainingCounts,
    bootstrap,
    equal_frequency_quantiles,
    equal_label_quantiles,
    judge,
    per_text,
    report,
    top_k_of,
)
from laconic.types import NO_LABEL, Ranking

T = TypeVar("T")

TEXTS, LABELS, TRAINING_TEXTS, K = 150_000, 670_091, 485_176, 20
LIMIT_SECONDS = 3
ROUNDS = 5


def main() -> None:
    use_one_core()
    truth, scores, own, training = made_up_data()
    ranking_seconds, ranking = timed(lambda: top_k_of(scores, K))
    rounds = [timed(lambda: everything(ranking, truth, own, training)) for _ in range(ROUNDS)]
    seconds, (judged, ours) = statistics.median(taken for taken, _ in rounds), rounds[-1][1]
    bootstrap_seconds, _ = timed(lambda: bootstrap(per_text(judged, training)))
    true, ranked, weights = lists_of_truth(judged), lists_of_labels(judged), training.inverse_propensities()
    their_seconds, theirs = timed(lambda: napkins(true, ranked, weights))
    check_agreement(ours, theirs)
    save(
        "metrics_speed",
        {
            "texts": TEXTS,
            "labels": LABELS,
            "rounds": ROUNDS,
            "laconic_seconds": round(seconds, 3),
            "laconic_seconds_slowest_round": round(max(taken for taken, _ in rounds), 3),
            "limit_seconds": LIMIT_SECONDS,
            "napkinxc_seconds_for_five_of_them": round(their_seconds, 2),
            "times_faster": round(their_seconds / seconds, 1),
            "bootstrap_1000_resamples_seconds": round(bootstrap_seconds, 2),
            "top_20_of_a_score_matrix_seconds": round(ranking_seconds, 2),
        },
    )


def use_one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def made_up_data() -> tuple[csr_array, csr_array, csr_array, TrainingCounts]:
    """The truth, scores of some true and many other labels, pairs to leave out, and the training counts."""
    random = np.random.default_rng(0)
    share = np.cumsum(1 / np.arange(1, LABELS + 1) ** 0.8)

    def draw(size: int) -> np.ndarray:
        return np.searchsorted(share, random.random(size) * share[-1])

    rows = np.arange(TEXTS).repeat(1 + random.poisson(4, TEXTS))
    truth = pairs(rows, draw(len(rows)), np.ones(len(rows)))
    kept = random.random(truth.nnz) < 0.5
    candidates = np.arange(TEXTS).repeat(40)
    scores = pairs(
        np.concatenate([truth.nonzero()[0][kept], candidates]),
        np.concatenate([truth.nonzero()[1][kept], draw(len(candidates))]),
        random.random(kept.sum() + len(candidates)),
    )
    own = pairs(np.arange(0, TEXTS, 2), draw(TEXTS // 2), np.ones(TEXTS // 2))
    counts = np.bincount(draw(5 * TRAINING_TEXTS), minlength=LABELS)
    return (
        truth,
        scores,
        own,
        TrainingCounts(per_label=counts, texts=TRAINING_TEXTS, propensity=Propensity(a=0.6, b=2.6)),
    )


def pairs(rows: np.ndarray, labels: np.ndarray, values: np.ndarray) -> csr_array:
    return csr_array((values, (rows, labels)), shape=(TEXTS, LABELS))


def everything(
    ranking: Ranking, truth: csr_array, own: csr_array, training: TrainingCounts
) -> tuple[Judged, dict[str, float]]:
    judged = judge(ranking, truth, leave_out=own)
    equal_label_quantiles(judged, training.per_label)
    equal_frequency_quantiles(judged, training.per_label)
    return judged, report(judged, training)


def napkins(true: list[list[int]], ranked: list[list[int]], weights: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "P": napkin.precision_at_k(true, ranked, k=K),
        "R": napkin.recall_at_k(true, ranked, k=K),
        "nDCG": napkin.ndcg_at_k(true, ranked, k=K),
        "PSP": napkin.psprecision_at_k(true, ranked, weights, k=K),
        "PSnDCG": napkin.psndcg_at_k(true, ranked, weights, k=K),
    }


def check_agreement(ours: dict[str, float], theirs: dict[str, np.ndarray]) -> None:
    for name, values in theirs.items():
        np.testing.assert_allclose([ours[f"{name}@{k}"] for k in KS], [100 * values[k - 1] for k in KS], err_msg=name)


def lists_of_truth(judged: Judged) -> list[list[int]]:
    return [row.tolist() for row in np.split(judged.truth.indices, judged.truth.indptr[1:-1])]


def lists_of_labels(judged: Judged) -> list[list[int]]:
    return [[label for label in row if label != NO_LABEL] for row in judged.labels.tolist()]


def timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main()
