"""Beam search against every label scored plainly, and forests that are none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.models.label_trees.forest import (
    Forest,
    empty_tree,
    entries_of,
    is_sound,
    paths_of,
    prune,
    workspace_sizes,
)
from laconic.models.label_trees.rows import Entries, by_feature, quantise, rows_of
from laconic.models.label_trees.search import make_workspace, rank_texts, score_texts
from tests.linear.making import LABELS, forest, frozen, queries, slow_scores


def ranked(trees: Forest, k: int, beam: int, labels: int = LABELS) -> tuple[np.ndarray, np.ndarray]:
    asked, ways = queries(), paths_of(trees)
    into = np.full((len(asked.starts) - 1, k), -1), np.zeros((len(asked.starts) - 1, k), dtype=np.float32)
    room = make_workspace(*workspace_sizes(trees, ways))
    rank_texts((trees, ways), asked, beam, (0, len(into[0])), room, into)
    assert (room.reached == -1).all()  # a room is left as it was found
    assert (room.totals == 0).all()
    assert (room.losses == -1).all()
    return into


def scored(trees: Forest, wanted: np.ndarray) -> np.ndarray:
    ways, scores = paths_of(trees), np.zeros(wanted.shape, dtype=np.float32)
    room = make_workspace(*workspace_sizes(trees, ways))
    score_texts((trees, ways), queries(), (0, len(wanted)), room, (wanted, scores))
    return scores


@pytest.mark.parametrize("trees", [1, 3])
def test_a_beam_as_wide_as_the_tree_finds_the_best_of_all_labels(trees: int) -> None:
    made = forest(trees)
    expected = slow_scores(made, queries())
    labels, scores = ranked(made, 7, beam=100)
    best = np.argsort(-expected, axis=1, kind="stable")[:, :7]
    assert np.array_equal(labels, best)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, best, 1), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_a_label_has_the_same_score_whether_the_beam_came_by_or_not(beam: int) -> None:
    made = forest()
    labels, scores = ranked(made, 10, beam)
    assert np.array_equal(scored(made, labels), scores)
    np.testing.assert_allclose(
        scores, np.take_along_axis(slow_scores(made, queries()), labels, 1), rtol=1e-4, atol=1e-7
    )


def test_every_label_can_be_had_through_the_narrowest_beam() -> None:
    labels, _ = ranked(forest(), LABELS, beam=1)
    assert all(sorted(row) == list(range(LABELS)) for row in labels.tolist())


def test_more_labels_than_there_are_end_in_none() -> None:
    labels, scores = ranked(forest(), LABELS + 2, beam=3)
    assert (labels[:, LABELS:] == -1).all()
    assert (scores[:, LABELS:] == 0).all()


def test_a_label_that_is_none_scores_nothing() -> None:
    wanted = np.tile([-1, 4], (12, 1))
    scores = scored(forest(), wanted)
    assert (scores[:, 0] == 0).all()
    assert (scores[:, 1] > 0).all()


def test_labels_that_go_leave_the_others_scores_as_they_were() -> None:
    made, kept = forest(), np.array([20, 3, 5, 8])
    fewer = frozen(prune(made, kept, LABELS))
    assert is_sound(fewer)
    labels, scores = ranked(fewer, 4, beam=1, labels=4)
    np.testing.assert_array_equal(scored(made, kept[labels]), scores)


@given(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 2000)), max_size=40))
def test_weights_come_back_from_steps_of_one_byte(pairs: set[tuple[int, int, int]]) -> None:
    nodes, features, places = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 3).T
    values = (1 + np.arange(len(nodes)) % 127).astype(np.int8)
    starts, rows, blocks, weights = by_feature([rows_of(Entries(nodes, features, places, values))], 4)
    assert weights.numbers.dtype == np.uint8
    made = forest()._replace(feature_starts=starts, nodes=rows, blocks=blocks, weights=weights)
    found = sorted(zip(*(part.tolist() for part in entries_of(made)), strict=True))
    assert found == sorted(zip(nodes.tolist(), features.tolist(), places.tolist(), values.tolist(), strict=True))


def test_whole_numbers_are_within_half_a_step_of_the_weights() -> None:
    chance = np.random.default_rng(0)
    weights, children = chance.normal(size=500), chance.integers(7, size=500)
    whole, scales = quantise(weights, children, 8)
    assert np.abs(whole).max() == 127
    assert (np.abs(whole * scales[children] - weights) <= 0.5001 * scales[children]).all()


def test_a_tree_without_weights_is_sound_and_has_every_label() -> None:
    tree = empty_tree(5, 7)
    assert is_sound(tree)
    assert sorted(-1 - tree.targets) == [0, 1, 2, 3, 4]
    assert not len(tree.weights.values)


def test_a_sound_forest_is_one() -> None:
    for trees in (1, 3):
        assert is_sound(forest(trees))


def damaged() -> dict[str, Forest]:
    """One number of each array is wrong."""
    made = forest()

    def other(name: str, place: int, value: float) -> Forest:
        array = getattr(made, name)
        array = array.astype(np.int32) if array.dtype == np.uint16 else array.copy()
        array[place] = value
        return frozen(made._replace(**{name: array}))

    def weights(name: str, place: int, value: float) -> Forest:
        array = getattr(made.weights, name).copy()
        array[place] = value
        return frozen(made._replace(weights=made.weights._replace(**{name: array})))

    nodes = len(made.child_starts) - 1
    return {
        "a root that is no node": other("roots", 2, nodes),
        "roots out of order": other("roots", 1, 0),
        "a root inside a tree": other("roots", 1, 5),
        "children of nobody": other("child_starts", 0, 1),
        "children that are not there": other("child_starts", -1, len(made.targets) + 1),
        "a label that is not there": other("targets", -1, -1 - LABELS),
        "a label twice": other("targets", -1, made.targets[-2]),
        "a node that is not there": other("targets", 0, nodes),
        "a circle": other("targets", 3, 0),
        "a bias that is no number": other("biases", 4, np.nan),
        "nodes out of order": other("nodes", 1, made.nodes[0]),
        "a node below 0": other("nodes", 0, -1),
        "a node after the last": other("nodes", -1, len(made.child_starts) - 1),
        "nodes that are not there": other("feature_starts", -1, len(made.nodes) + 1),
        "weights that are not there": weights("starts", -1, len(made.weights.numbers) + 1),
        "a block that begins elsewhere": other("blocks", 0, 1),
        "a block that is not there": made._replace(blocks=made.blocks[:-1]),
        "a child that is not there": weights("numbers", 0, 99),
        "a scale that is no number": other("scales", 4, np.inf),
        "no tree": made._replace(roots=made.roots[:0]),
        "too few biases": made._replace(biases=made.biases[:-1]),
        "too few scales": made._replace(scales=made.scales[:-1]),
        "a table": made._replace(biases=made.biases[None]),
    }


@pytest.mark.parametrize("what", damaged())
def test_anything_else_is_refused(what: str) -> None:
    assert not is_sound(damaged()[what])
