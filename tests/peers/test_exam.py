"""Who is asked what, and by which numbers it is judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from laconic.analysis.peers.exam import FIGURES, Exam
from laconic.data.corpus import Corpus
from laconic.data.formats.assemble import LabelRow, Row, corpus_of
from laconic.errors import DataError
from tests.planted import planted_texts

CORPUS = planted_texts(num_labels=60, num_texts=160)


def test_nothing_is_learnt_from_blank_texts_and_texts_without_labels_but_they_count() -> None:
    rows = [("red", ["a"]), (" ", ["a"]), ("blue", []), ("green", ["b", "a"])]
    train = [Row(f"planted:{row}", text, labels) for row, (text, labels) in enumerate(rows)]
    corpus = corpus_of(
        {"train": train, "test": [Row("planted:9", "red", ["a"])]},
        [LabelRow("planted", name, None) for name in "ab"],
        source="planted",
    )
    exam = Exam.of(corpus, "test", 10)
    assert exam.examples.texts == ["red", "green"]
    assert exam.examples.labels.toarray().astype(bool).tolist() == [[True, False], [True, True]]
    assert exam.truth.training is not None
    assert exam.truth.training.texts == 4
    assert exam.truth.training.per_label.tolist() == [3, 1]


def test_names_are_judged_as_numbers_are_and_unknown_ones_are_wrong() -> None:
    exam = Exam.of(CORPUS, "test", 1000)
    truth = exam.truth.labels.toarray()
    labels = np.argsort(-truth, axis=1, kind="stable")[:, : exam.places]  # the true ones come first
    names = [[CORPUS.labels.names[label] for label in row] for row in labels]
    perfect = exam.figures(labels)
    assert perfect["P@1"] == perfect["nDCG@5"] == perfect["PSP@5"] == perfect["tail R@10"] == 100
    assert exam.figures_of_names(names) == perfect
    astray = exam.figures_of_names([["nobody knows it", *row[:-1]] for row in names])
    assert astray["P@1"] == 0
    assert 0 < astray["P@3"] <= perfect["P@3"]


def test_a_model_may_have_more_labels_than_data_with_hardly_any() -> None:
    few = Corpus(
        splits={name: replace(split, labels=csr_array(split.labels[:, :2])) for name, split in CORPUS.splits.items()},
        labels=replace(CORPUS.labels, names=CORPUS.labels.names[:2]),
        source="few",
    )
    exam = Exam.of(few, "test", 1000)
    answers = [[f"L{label}" for label in range(exam.places)]] * len(exam.texts)
    assert exam.figures_of_names(answers).keys() == set(FIGURES)


def test_no_more_texts_are_asked_than_was_said() -> None:
    assert len(Exam.of(CORPUS, "test", 7).texts) == 7


def test_who_is_trained_here_is_not_asked_about_the_same_texts() -> None:
    for corpus, split in (
        (CORPUS, "train"),
        (replace(CORPUS, splits={"all": CORPUS.split("test")}), "test"),
    ):
        with pytest.raises(DataError, match="planted: peers are trained here and asked about other texts"):
            Exam.of(corpus, split, 10)


def test_splits_without_texts_or_labels_are_refused() -> None:
    train, test = CORPUS.splits.values()
    nobody = np.zeros(0, dtype=np.int64)
    with pytest.raises(DataError, match="planted: the split 'test' has no texts to measure with"):
        Exam.of(replace(CORPUS, splits={"train": train, "test": test.rows(nobody)}), "test", 10)
    unlabelled = replace(train, labels=csr_array(train.labels.shape, dtype=np.float32))
    with pytest.raises(DataError, match="planted: no training text has a label"):
        Exam.of(replace(CORPUS, splits={"train": unlabelled, "test": test}), "test", 10)
