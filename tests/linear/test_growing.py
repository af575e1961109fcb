"""Trees of labels: every label once, no node too wide."""

from __future__ import annotations

import os
import signal
from itertools import count
from threading import Event
from types import FrameType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from laconic.data.dataset import Dataset
from laconic.kernels.csr import Lists
from laconic.models.clustering import Clustering, LabelRows
from laconic.models.label_trees.grow import GrowSettings, grow_levels, grow_trees, problems_of
from laconic.models.label_trees.learn import LearnSettings
from laconic.models.label_trees.solver import SolverSettings
from tests.variants import examples


def data_of(num_labels: int, texts: int = 50, seed: int = 0) -> Dataset:
    generator = np.random.default_rng(seed)
    labels = generator.random((texts, num_labels)) < 2 / num_labels
    inputs = csr_array(generator.random((texts, 15)) * (generator.random((texts, 15)) < 0.3), dtype=np.float32)
    return Dataset(inputs=inputs, labels=csr_array(labels, dtype=np.float32))


def rows_of(data: Dataset) -> LabelRows:
    return LabelRows.of_texts(data, Clustering(), 0)


@examples(30)
@given(num_labels=st.integers(1, 90), fan_out=st.sampled_from([2, 3, 4, 16]), leaf=st.integers(2, 20))
def test_every_label_is_under_one_child_of_each_level_and_no_node_is_too_wide(
    num_labels: int, fan_out: int, leaf: int
) -> None:
    levels = grow_levels(rows_of(data_of(num_labels)), fan_out=fan_out, leaf=leaf, seed=3)
    above = np.zeros(num_labels, dtype=np.int64)
    for level in levels:
        assert (level.node_of[level.child_of] == above).all()  # under the node that the last level put it in
        assert np.array_equal(np.unique(level.child_of), np.arange(len(level.node_of)))
        above = level.child_of
    assert len(levels[-1].node_of) == num_labels
    assert all(np.bincount(level.node_of).max() <= fan_out for level in levels[:-1])
    assert np.bincount(levels[-1].node_of).max() <= leaf


def test_a_problem_has_the_texts_of_its_node_and_says_which_are_true() -> None:
    data = data_of(30)
    for level in grow_levels(rows_of(data), fan_out=4, leaf=3, seed=0):
        problems = problems_of(data, level)
        truth = data.labels.toarray() > 0
        for child, node in enumerate(level.node_of):
            members = problems.texts[problems.starts[node] : problems.starts[node + 1]]
            in_node = level.node_of[level.child_of] == node
            assert members.tolist() == np.flatnonzero(truth[:, in_node].any(1)).tolist()
            truths = problems.truths.numbers[problems.truths.starts[child] : problems.truths.starts[child + 1]]
            true = np.flatnonzero(truth[:, level.child_of == child].any(1))
            assert sorted(members[truths].tolist()) == true.tolist()


def test_left_out_pairs_are_neither_true_nor_false() -> None:
    labels = csr_array(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0.5]], dtype=np.float32))
    left_out = csr_array(np.array([[1, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=np.bool_))
    data = Dataset(inputs=csr_array(np.eye(3, dtype=np.float32)), labels=labels, leave_out=left_out)
    (level,) = grow_levels(rows_of(data), fan_out=2, leaf=9, seed=0)
    truths = problems_of(data, level).truths
    by_label = {
        label: dict(
            zip(
                truths.numbers[truths.starts[at] : truths.starts[at + 1]].tolist(),
                truths.values[truths.starts[at] : truths.starts[at + 1]].tolist(),
                strict=True,
            )
        )
        for label, at in enumerate(level.child_of)
    }
    assert by_label == {0: {0: 1.0}, 1: {0: 0.0, 1: 1.0}, 2: {2: 0.5}}


@pytest.mark.parametrize("seed", [0, 1])
def test_another_seed_grows_another_tree(seed: int) -> None:
    one, same, other = (
        grow_levels(rows_of(data_of(60)), fan_out=4, leaf=4, seed=number) for number in (seed, seed, seed + 1)
    )
    assert all(np.array_equal(a.child_of, b.child_of) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a.child_of, b.child_of) for a, b in zip(one, other, strict=True))


def test_an_interrupt_ends_the_growing_of_a_tree_before_it_is_grown() -> None:
    data, growing = data_of(90, texts=300), GrowSettings(4, 3, LearnSettings(1.0, 0.1, SolverSettings(0.1, 3)))
    rows, reports, interrupted, calls = Lists.of(data.inputs), list[float](), Event(), count()
    grow_trees(data, rows, growing, [0], reports.append)
    unbroken = len(reports)

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    def report(fraction: float) -> None:
        reports.append(fraction)
        is_first = next(calls) == 0
        while is_first and not interrupted.wait(0.2):  # again: it is lost just before the main thread waits
            os.kill(os.getpid(), signal.SIGINT)  # reaches the main thread, as Ctrl-C does
        interrupted.wait(60)

    reports.clear()
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            grow_trees(data, rows, growing, [0], report)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(reports) < unbroken / 2
