"""The libraries themselves, where they are installed: each learns planted texts in its process, and answers rightly."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from laconic.analysis.peers import fasttext, omikuji, pecos
from laconic.analysis.peers.exam import Exam
from laconic.analysis.peers.libraries import LIBRARIES, is_installed, peer_at
from laconic.analysis.peers.process import Questions, measured, write_work
from laconic.types import NO_LABEL
from tests.planted import planted_texts
from tests.variants import some_slow


@pytest.mark.parametrize("place", some_slow([*chain.from_iterable(LIBRARIES.values())]))
def test_a_library_learns_planted_texts(place: str, tmp_path: Path) -> None:
    if not is_installed(peer_at(place)):
        pytest.skip(f"{peer_at(place).module} is not installed")
    exam = Exam.of(planted_texts(num_texts=400), "test", 1000)
    questions = Questions(texts=[*exam.texts, "", "unknown"], names=exam.names, places=exam.places, k=5, singly=3)
    write_work(tmp_path, exam.examples, questions)
    answers = measured(place, tmp_path, 0)
    assert exam.figures(answers.labels[: len(exam.texts)])["P@1"] > 80
    assert answers.size > 0


def test_omikuji_reads_lines_of_labels_and_features() -> None:
    features = csr_matrix(np.array([[0, 0.5, 0], [0.25, 0, 1]], dtype=np.float32))
    labels = csr_array(np.array([[1, 0, 1], [0, 1, 0]], dtype=np.float32))
    assert list(omikuji._lines(features, labels)) == ["2 3 3\n", "0,2 1:0.5\n", "1 0:0.25 2:1\n"]


def test_answers_of_pecos_are_put_in_order() -> None:
    scores = csr_matrix(np.array([[0.1, 0, 0.7, 0.2], [0, 0, 0, 0]], dtype=np.float32))
    assert pecos._ranked(scores, 3).labels.tolist() == [[2, 3, 0], [NO_LABEL] * 3]


def test_pecos_is_given_the_copies_of_numpy_1() -> None:
    numbers, numpy_1 = np.arange(3), pecos._Numpy1()
    assert numpy_1.array(numbers, copy=False) is numbers
    assert numpy_1.array(numbers) is not numbers
    assert numpy_1.array([1, 2], dtype=np.float32, copy=False).tolist() == [1.0, 2.0]  # where a copy cannot be avoided
    assert numpy_1.float32 is np.float32


def test_fasttext_reads_one_line_of_words_and_answers_with_numbers() -> None:
    assert fasttext._line("The red\nrose,  __label__7") == "the red rose label 7"
    assert fasttext._numbered(["__label__7"], [0.5]) == [(7, 0.5)]
