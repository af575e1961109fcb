"""Anybody's predictions: JSON Lines as `laconic predict --json` prints them, or a scipy `.npz` of scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus
from laconic.data.formats.lines import opened
from laconic.data.formats.matrices import read_matrix
from laconic.data.formats.records import Record, list_of, number_of, records, text_of
from laconic.errors import DataError
from laconic.evaluate import Evaluation, evaluate, truth_in_numbers_of
from laconic.metrics import KS, TrainingCounts, top_k_of
from laconic.types import NO_LABEL, Ranking

_MOST = 100  # enough for every metric, also when pairs are left out


def read_predictions(path: Path, names: Sequence[str], texts: int) -> tuple[Ranking, Sequence[str]]:
    """A ranking for each of the data's texts, and the names of the labels that it speaks of, the data's names first."""
    with opened(path) as file:
        is_archive = file.read(2) == b"PK"
    if is_archive:
        return top_k_of(_scores(path, len(names), texts), _MOST), names
    return _ranking(path, names, texts)


def score_predictions(path: Path, corpus: Corpus, split_name: str) -> Evaluation:
    """Every metric that the predictions are long enough for; those with propensities need the training split."""
    split, names = corpus.split(split_name), corpus.labels.names
    ranking, known = read_predictions(path, names, len(split))
    training = None
    if "train" in corpus.splits:
        counted = TrainingCounts.of(corpus.splits["train"].labels, propensity=corpus.constants())
        training = counted.with_unseen(len(known) - len(names))
    truth = truth_in_numbers_of(known, names, split.labels, split.leave_out, training)
    width = ranking.labels.shape[1]
    ks = [k for k in KS if k <= width or len(known) <= width]
    if not ks:
        raise DataError(f"{path}: there is no prediction for any text")
    return evaluate(ranking, truth, ks=ks)


def _scores(path: Path, labels: int, texts: int) -> csr_array:
    matrix = read_matrix(path)
    if not isinstance(matrix, csr_array) or matrix.shape != (texts, labels):
        raise DataError(
            f"{path}: the scores are {matrix.shape}, but the data has {texts:,} texts and {labels:,} labels"
        )
    return matrix


def _ranking(path: Path, names: Sequence[str], texts: int) -> tuple[Ranking, Sequence[str]]:
    """Sorted by score; equal scores stay as they are listed. A label that the data does not know gets a new number."""
    number = {name: i for i, name in enumerate(names)}
    rows = [
        [(number.setdefault(label, len(number)), score) for label, score in _sorted(record, f"{path}:{line}")]
        for line, record in records(path)
    ]
    if len(rows) != texts:
        raise DataError(
            f"{path}: {len(rows):,} predictions, but the data has {texts:,} texts; there must be one for each"
        )
    width = max((len(row) for row in rows), default=0)
    labels = np.full((texts, width), NO_LABEL, dtype=np.int64)
    scores = np.full((texts, width), -np.inf, dtype=np.float32)
    for place, row in enumerate(rows):
        for rank, (label, score) in enumerate(row):
            labels[place, rank], scores[place, rank] = label, score
    return Ranking(torch.from_numpy(labels), torch.from_numpy(scores)), list(number)


def _sorted(record: Record, place: str) -> list[tuple[str, float]]:
    listed = [_prediction(value, place) for value in list_of(record, "predictions", place)]
    if len({label for label, _ in listed}) != len(listed):
        raise DataError(f"{place}: a label is predicted twice; predict each once")
    return sorted(listed, key=lambda prediction: -prediction[1])


def _prediction(value: Any, place: str) -> tuple[str, float]:
    if not isinstance(value, dict):
        raise DataError(f'{place}: a prediction must look like {{"label": "name", "score": 0.5}}, but is {value!r:.80}')
    return text_of(value, "label", place), number_of(value, "score", place)
