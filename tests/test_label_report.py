"""Figures of each label: counted by hand, in every form, from the command line and from Python."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from laconic import Laconic
from laconic.data.corpus import Corpus
from laconic.data.output import write_folder
from laconic.errors import ConfigError
from laconic.evaluation.evaluate import evaluate, truth_in_numbers_of
from laconic.evaluation.label_report import LabelFigures
from laconic.evaluation.metrics import TrainingCounts
from laconic.evaluation.thresholds import Found
from laconic.types import Ranking
from tests.planted import planted_texts
from tests.test_cli import laconic

CORPUS = planted_texts()


def ranking(labels: list[list[int]], scores: list[list[float]]) -> Ranking:
    import torch

    return Ranking(torch.tensor(labels), torch.tensor(scores))


def figures(limits: Found | None) -> list[LabelFigures]:
    """Two texts: the first is truly a and d, which the model does not know; the second is a."""
    truth = truth_in_numbers_of(
        ["a", "b", "c"], ["d", "a"], csr_array(np.array([[1, 1], [0, 1]], dtype=np.float32)), None, None
    )
    training = TrainingCounts.of(csr_array(np.array([[1, 0, 1, 0], [1, 0, 0, 0]], dtype=np.float32)))
    from dataclasses import replace

    found = evaluate(
        ranking([[0, 1], [1, 0]], [[0.9, 0.2], [0.8, 0.3]]), replace(truth, training=training), limits=limits, ks=(1, 2)
    )
    assert found.by_label is not None
    return found.by_label.figures()


def test_figures_of_labels_that_reach_a_threshold_are_those_counted_by_hand() -> None:
    assert figures(Found(0.5, {})) == [
        LabelFigures("a", 2, 2, 1, 1, 100.0, 50.0, 200 / 3),
        LabelFigures("d", 0, 1, 0, 0, None, 0.0, 0.0),
        LabelFigures("b", 0, 0, 1, 0, 0.0, None, 0.0),
    ]


def test_without_a_threshold_the_first_labels_count() -> None:
    assert [(one.label, one.predicted, one.right) for one in figures(None)] == [("a", 2, 2), ("d", 0, 0), ("b", 2, 0)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("report")
    write_folder(CORPUS, folder / "data")
    laconic("train", folder / "data", "--method", "nearest", "--out", folder / "model", "--quiet")
    return folder / "model", folder / "data"


def of_python(corpus: Corpus, model: Path, **options: Any) -> list[LabelFigures]:
    split = corpus.split("test")
    labels = [[corpus.labels.names[at] for at in split.labels[[row]].indices] for row in range(len(split))]
    found: list[LabelFigures] = Laconic.load(model).report(split.texts or (), labels, **options)
    return found


def test_every_form_says_the_same(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = folders
    for form in ("csv", "tsv", "jsonl"):
        shown = laconic("evaluate", model / "packed", data, "--per-label", tmp_path / f"report.{form}")
        assert "if labels with a score of 0.5 or more are taken" in shown
    read = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()]
    assert read == [one._asdict() for one in of_python(CORPUS, model)]
    for form, delimiter in (("csv", ","), ("tsv", "\t")):
        with (tmp_path / f"report.{form}").open() as file:
            rows = list(csv.DictReader(file, delimiter=delimiter))
        assert [row["label"] for row in rows] == [one["label"] for one in read]
        assert [row["recall"] for row in rows] == [f"{one['recall']:.2f}" for one in read]
    assert [one["test_texts"] for one in read] == sorted((one["test_texts"] for one in read), reverse=True)
    assert sum(one["test_texts"] for one in read) == CORPUS.split("test").labels.nnz


def test_json_and_the_report_do_not_mix(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = folders
    from tests.test_cli import shown_and_told

    shown, told = shown_and_told("evaluate", model, data, "--json", "--per-label", tmp_path / "report.csv")
    json.loads(shown)
    assert "figures of 12 labels" in told


def test_predictions_of_any_system_have_a_report_too(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = folders
    laconic("predict", model, data / "test.jsonl.gz", "-k", 20, "--out", tmp_path / "answers.jsonl")
    shown = laconic("score", tmp_path / "answers.jsonl", data, "--per-label", tmp_path / "report.csv")
    assert "if the first 5 labels of each text are taken" in shown
    assert len((tmp_path / "report.csv").read_text().splitlines()) == 13


def test_a_file_of_another_kind_is_refused_before_any_work(folders: tuple[Path, Path]) -> None:
    assert "--per-label must end in .csv, .tsv or .jsonl" in laconic(
        "evaluate", "nowhere", folders[1], "--per-label", "report.xlsx", code=2
    )


def test_python_takes_a_threshold_or_a_number_of_labels(folders: tuple[Path, Path]) -> None:
    every = of_python(CORPUS, folders[0], k=12)
    assert all(one.recall == 100 for one in every)
    assert sum(one.predicted for one in every) == 12 * len(CORPUS.split("test"))
    assert sum(one.predicted for one in of_python(CORPUS, folders[0], threshold=2.0)) == 0
    frame = of_python(CORPUS, folders[0], as_frame=True)
    assert list(frame.columns) == list(LabelFigures._fields)  # type: ignore[attr-defined]  # typed as a list or a frame
    with pytest.raises(ConfigError, match="exclude each other"):
        of_python(CORPUS, folders[0], threshold=0.5, k=1)
    with pytest.raises(ConfigError, match="k must be 1 or more"):
        of_python(CORPUS, folders[0], k=0)
