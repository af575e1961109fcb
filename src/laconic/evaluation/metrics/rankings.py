"""Make rankings from score matrices, check them, and remove pairs from them."""

from collections.abc import Sequence
from math import inf

import numpy as np
import torch
from jaxtyping import Bool, Int
from scipy.sparse import csr_array
from torch import Tensor

from laconic.errors import DataError
from laconic.evaluation.metrics.pairs import holds, row_numbers
from laconic.types import NO_LABEL, Ranking

Ranked = Ranking | Int[Tensor, "batch k"] | Int[np.ndarray, "batch k"]  # the labels of a ranking are enough to judge it


def top_k_of(scores: csr_array, k: int) -> Ranking:
    """Return the k best stored entries of each row: score descending, ties by smaller label number.

    A stored zero is an entry and is ranked; what is not stored is not, so short rows end in NO_LABEL with score -inf.
    """
    scores = csr_array(scores, copy=True)
    scores.sum_duplicates()
    rows = row_numbers(scores)
    _refuse_nan(scores, rows)
    # The sort is stable and labels rise within a row, so ties stay in the order of label numbers.
    order = np.lexsort((-scores.data.astype(np.float64), rows))
    places = np.arange(len(rows)) - scores.indptr[rows]  # rows come first in the order, so they stay where they were
    ranked = places < k
    labels = np.full((scores.shape[0], k), NO_LABEL, dtype=np.int64)
    values = np.full((scores.shape[0], k), -inf, dtype=np.float32)
    labels[rows[ranked], places[ranked]] = scores.indices[order][ranked]
    values[rows[ranked], places[ranked]] = scores.data[order][ranked]
    return Ranking(torch.from_numpy(labels), torch.from_numpy(values))


def ranking_of(rows: Sequence[Sequence[tuple[int, float]]], width: int) -> Ranking:
    """Return lists of labels with scores, best first, as a ranking: short rows end in NO_LABEL with score -inf."""
    labels = np.full((len(rows), width), NO_LABEL, dtype=np.int64)
    scores = np.full((len(rows), width), -inf, dtype=np.float32)
    for row, pairs in enumerate(rows):
        if pairs:
            labels[row, : len(pairs)], scores[row, : len(pairs)] = zip(*pairs, strict=True)
    return Ranking(torch.from_numpy(labels), torch.from_numpy(scores))


def without_pairs(ranking: Ranking, pairs: csr_array) -> Ranking:
    """Remove pairs from a ranking: labels behind them move up, and rows end in NO_LABEL.

    Ask the ranker for as many labels more as a text has pairs, or the last places of the top k stay empty.
    """
    left_out = holds(pairs, label_array(ranking))
    order = torch.from_numpy(_kept_first(left_out)).to(ranking.labels.device)
    drop = torch.from_numpy(left_out).to(ranking.labels.device)
    return Ranking(
        ranking.labels.masked_fill(drop, NO_LABEL).gather(1, order),
        ranking.scores.masked_fill(drop, -inf).gather(1, order),
    )


def labels_without_pairs(labels: Int[np.ndarray, "batch k"], pairs: csr_array) -> Int[np.ndarray, "batch k"]:
    """Remove pairs from a ranking of which only the labels are known."""
    left_out = holds(pairs, labels)
    return np.take_along_axis(np.where(left_out, NO_LABEL, labels), _kept_first(left_out), axis=1)


def label_array(ranking: Ranked) -> Int[np.ndarray, "batch k"]:
    """Return the labels of a ranking as an array on the CPU."""
    labels = ranking.labels if isinstance(ranking, Ranking) else ranking
    array = labels.numpy(force=True) if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise DataError(f"a ranking is texts × k label numbers, but this is {array.dtype} of shape {array.shape}")
    return array.astype(np.int64, copy=False)


def check_ranking(labels: Int[np.ndarray, "batch k"], num_labels: int) -> None:
    """Refuse a ranking with a label number that does not exist, or with a label twice for one text.

    Counting a repeated label once would hide the ranker's mistake behind a slightly low figure.
    """
    outside = (labels >= num_labels) | (labels < NO_LABEL)
    if outside.any():
        row, place = np.argwhere(outside)[0]
        raise DataError(
            f"text {row}, place {place}: label {labels[row, place]} is outside 0..{num_labels - 1}"
            f" (a place without a label is {NO_LABEL})"
        )
    ordered = np.sort(labels, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NO_LABEL)
    if repeated.any():
        row, place = np.argwhere(repeated)[0]
        raise DataError(f"text {row}: label {ordered[row, place]} is ranked twice; rank each label once")


def _refuse_nan(scores: csr_array, rows: Int[np.ndarray, "pairs"]) -> None:
    missing = np.isnan(scores.data)
    if missing.any():
        first = int(missing.argmax())
        raise DataError(
            f"text {rows[first]}: the score of label {scores.indices[first]} is NaN, which cannot be ranked"
        )


def _kept_first(left_out: Bool[np.ndarray, "batch k"]) -> Int[np.ndarray, "batch k"]:
    return np.argsort(left_out, axis=1, kind="stable")
