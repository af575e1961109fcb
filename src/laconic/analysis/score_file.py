"""Reads and evaluates predictions of any system, from the files `predict --out` writes or a scipy `.npz`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, takewhile
from math import isfinite, nan
from pathlib import Path
from typing import Any, TypeAlias

from scipy.sparse import csr_array

from laconic.data.corpus import Corpus
from laconic.data.formats.lines import form_of_content, opened
from laconic.data.formats.matrices import read_matrix
from laconic.data.formats.records import Record, excerpt, list_of, number_of, records, text_of
from laconic.data.formats.tabular import delimited, parquet
from laconic.errors import DataError
from laconic.evaluation.evaluate import Evaluation, evaluate, truth_in_numbers_of
from laconic.evaluation.metrics import KS, TrainingCounts, ranking_of, top_k_of
from laconic.types import Ranking
from laconic.units import counted

Listed: TypeAlias = list[tuple[str, float]]  # a text's labels with their scores
_MOST = 100  # enough for every metric, also when pairs are left out


def read_predictions(path: Path, names: Sequence[str], texts: int) -> tuple[Ranking, Sequence[str]]:
    """Return a ranking for each text of the data, and the label names, the data's names first."""
    with opened(path) as file:
        is_archive = file.read(2) == b"PK"
    if is_archive:
        return top_k_of(_scores(path, len(names), texts), _MOST), names
    return _ranking(path, _rows(path), names, texts)


def score_predictions(path: Path, corpus: Corpus, split_name: str) -> Evaluation:
    """Evaluate all metrics that the predictions are long enough for; propensities need the training split."""
    split, names = corpus.split(split_name), corpus.labels.names
    ranking, known = read_predictions(path, names, len(split))
    training = None
    if "train" in corpus.splits:
        counted = TrainingCounts.of(corpus.splits["train"].labels, propensity=corpus.constants())
        training = counted.with_unseen(len(known) - len(names))
    truth = truth_in_numbers_of(known, names, split.labels, split.leave_out, training, corpus.labels.broader)
    width = ranking.labels.shape[1]
    ks = [k for k in KS if k <= width or len(known) <= width]
    if not ks:
        raise DataError(f"{path}: there is no prediction for any text")
    return evaluate(ranking, truth, ks=ks)


def _scores(path: Path, labels: int, texts: int) -> csr_array:
    matrix = read_matrix(path)
    if not isinstance(matrix, csr_array) or matrix.shape != (texts, labels):
        raise DataError(
            f"{path}: the scores are {matrix.shape}, but the data has {counted(texts, 'text')} and "
            f"{counted(labels, 'label')}"
        )
    return matrix


def _ranking(
    path: Path, predicted: Iterator[tuple[str, Listed]], names: Sequence[str], texts: int
) -> tuple[Ranking, Sequence[str]]:
    """Sort by score, keeping the order of ties; labels that the data does not have get new numbers."""
    number = {name: i for i, name in enumerate(names)}
    rows = [
        [(number.setdefault(label, len(number)), score) for label, score in _sorted(listed, place)]
        for place, listed in predicted
    ]
    if len(rows) != texts:
        raise DataError(
            f"{path}: {counted(len(rows), 'prediction')}, but the data has {counted(texts, 'text')}; there must be one "
            "for each"
        )
    return ranking_of(rows, max((len(row) for row in rows), default=0)), list(number)


def _rows(path: Path) -> Iterator[tuple[str, Listed]]:
    """Read each text's predictions, with their place in the file."""
    form = form_of_content(path)
    if form == "json":
        placed = ((f"{path}:{line}", record) for line, record in records(path))
        return ((place, _of_record(record, place)) for place, record in placed)
    open_table = parquet if form == "parquet" else delimited
    return (
        (place, _of_cells(cells, place))
        for place, cells in open_table(path, lambda header: _columns(header, path)).rows
    )


def _columns(header: Sequence[str], path: Path) -> dict[str, int]:
    """Find label_1, score_1, label_2, ... in a header."""
    number = {name.strip().lower(): at for at, name in enumerate(header)}
    found: dict[str, int] = {}
    for place in takewhile(lambda place: {f"label_{place}", f"score_{place}"} <= number.keys(), count(1)):
        found |= {name: number[name] for name in (f"label_{place}", f"score_{place}")}
    if not found:
        has = ", ".join(excerpt(name, 30) for name in header)
        raise DataError(
            f"{path}: there are no columns label_1 and score_1; the columns are: {has}. `laconic predict --out` writes "
            "such a table"
        )
    return found


def _of_cells(cells: Mapping[str, Any], place: str) -> Listed:
    """Read a row of a table, whose places may be empty from some rank on."""
    labels = {name.removeprefix("label_"): cell for name, cell in cells.items() if name.startswith("label_")}
    return [
        (str(label), _score(cells[f"score_{rank}"], f"{place}: score_{rank}"))
        for rank, label in labels.items()
        if label not in (None, "")
    ]


def _score(cell: Any, place: str) -> float:
    try:
        score = float(cell)
    except (TypeError, ValueError):
        score = nan
    if not isfinite(score):
        raise DataError(f"{place} is {excerpt(repr(cell))}, where a number is needed")
    return score


def _of_record(record: Record, place: str) -> Listed:
    return [_prediction(value, place) for value in list_of(record, "predictions", place)]


def _sorted(listed: Listed, place: str) -> Listed:
    if len({label for label, _ in listed}) != len(listed):
        raise DataError(f"{place}: a label is predicted twice; predict each once")
    return sorted(listed, key=lambda prediction: -prediction[1])


def _prediction(value: Any, place: str) -> tuple[str, float]:
    if not isinstance(value, dict):
        raise DataError(f'{place}: a prediction must look like {{"label": "name", "score": 0.5}}, but is {value!r:.80}')
    return text_of(value, "label", place), number_of(value, "score", place)
