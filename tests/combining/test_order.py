"""Boosted trees that order a text's best labels, against loops that compute the same plainly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from laconic.errors import ModelError
from laconic.models.fusion.network import TreeOrder
from laconic.models.fusion.order import (
    LEAVES,
    SPLITS,
    Forest,
    Ordering,
    check_ordering,
    forest_sums,
    in_final_order,
)
from laconic.training.lambdamart import fit_forest, pair_gradients
from laconic.types import NO_LABEL

RANDOM = np.random.default_rng(5)
FEATURES = 3


def forest(trees: int = 4) -> Forest:
    return Forest(
        RANDOM.integers(0, FEATURES + 1, (trees, SPLITS)).astype(np.int32),
        RANDOM.standard_normal((trees, SPLITS)).astype(np.float32),
        RANDOM.standard_normal((trees, LEAVES)).astype(np.float32),
    )


def plain_sum(trees: Forest, numbers: np.ndarray, network: float) -> float:
    total, values = 0.0, [*numbers, network]
    for numbers_of, thresholds, leaves in zip(*trees, strict=True):
        node = 0
        while node < SPLITS:
            node = 2 * node + 1 + bool(values[numbers_of[node]] > thresholds[node])
        total += leaves[node - SPLITS]
    return total


def test_a_forest_s_sum_is_that_of_the_leaves_that_are_reached() -> None:
    trees, numbers = forest(), RANDOM.standard_normal((20, FEATURES)).astype(np.float32)
    network = RANDOM.standard_normal(20).astype(np.float32)
    expected = [plain_sum(trees, *one) for one in zip(numbers, network, strict=True)]
    np.testing.assert_allclose(forest_sums(trees, numbers, network), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("places", [1, 3, 20])
def test_the_best_are_in_the_trees_order_and_the_others_below_as_they_were(places: int) -> None:
    trees = forest()
    labels = np.tile(np.arange(9), (30, 1))
    labels[3, 5:], labels[4] = NO_LABEL, NO_LABEL
    numbers = RANDOM.standard_normal((30, 9, FEATURES)).astype(np.float32)
    network = RANDOM.standard_normal((30, 9)).astype(np.float32)
    biased = network + RANDOM.standard_normal((30, 9)).astype(np.float32)
    found = in_final_order(Ordering(trees, places, 0.5, -1.0), labels != NO_LABEL, numbers, network, biased)
    for row in range(30):
        there = np.flatnonzero(labels[row] != NO_LABEL)
        before = there[np.argsort(-biased[row, there], kind="stable")]
        best, others = before[:places], before[places:]
        expected = [0.5 * (biased[row, i] + plain_sum(trees, numbers[row, i], network[row, i])) - 1 for i in best]
        np.testing.assert_allclose(found[row, best], expected, rtol=1e-5, atol=1e-5)
        if len(others):
            assert found[row, others[0]] < found[row, best].min()
            assert (np.diff(found[row, others]) <= 0).all()


def test_gradients_are_those_of_the_weighted_pairs() -> None:
    """Against autograd, with the change of nDCG held constant, as LambdaMART has it."""
    place = np.array([[0, 1, 2, 3], [4, -1, 5, 6], [7, 8, -1, -1]])
    true = np.array([[1, 0, 1, 0], [0, 0, 1, 0], [1, 1, 0, 0]], dtype=bool)
    scores = RANDOM.standard_normal(9)
    found = np.empty((9, 2))
    pair_gradients(place, true, scores, found)
    variable, loss = torch.tensor(scores, requires_grad=True), torch.zeros((), dtype=torch.float64)
    for text in range(3):
        own = [i for i in range(4) if place[text, i] >= 0]
        order = sorted(own, key=lambda i: -scores[place[text, i]])
        discount = {i: 1 / np.log2(order.index(i) + 2) for i in own}
        ideal = sum(1 / np.log2(i + 2) for i in range(sum(true[text, i] for i in own)))
        for i in own:
            for j in own:
                if true[text, i] and not true[text, j]:
                    apart = variable[place[text, i]] - variable[place[text, j]]
                    loss = loss + abs(discount[i] - discount[j]) / ideal * torch.nn.functional.softplus(-apart)
    loss.backward()
    assert variable.grad is not None
    np.testing.assert_allclose(found[:, 0], variable.grad.numpy(), atol=1e-12)
    assert (found[:, 1] >= 0).all()
    assert (found[7:] == 0).all()  # a text whose labels are all true says nothing


def planted(texts: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return lists in which the true label is the one whose first two numbers have the same sign."""
    numbers = RANDOM.standard_normal((texts, 5, FEATURES)).astype(np.float32)
    true = (numbers[:, :, 0] > 0) == (numbers[:, :, 1] > 0)
    there = RANDOM.random((texts, 5)) < 0.9
    start = RANDOM.standard_normal((texts, 5)).astype(np.float32)
    return numbers, true & there, there, start


def firsts(scores: np.ndarray, true: np.ndarray, there: np.ndarray) -> float:
    best = np.where(there, scores, -np.inf).argmax(1)
    return float(true[np.arange(len(true)), best].mean())


def test_trees_learn_an_order_that_no_single_feature_tells() -> None:
    learnt = fit_forest(*planted(600))
    numbers, true, there, start = planted(400)
    added = forest_sums(learnt, numbers.reshape(-1, FEATURES), start.reshape(-1)).reshape(start.shape)
    assert firsts(start, true, there) < 0.6
    assert firsts(start + added, true, there) > 0.9


def test_nothing_to_learn_from_leaves_the_order() -> None:
    numbers, _, there, start = planted(60)
    for true in (np.zeros_like(there), there):
        learnt = fit_forest(numbers, true, there, start)
        assert (learnt.values == 0).all()
    none = fit_forest(numbers, there, np.zeros_like(there), start)
    assert np.isfinite(none.thresholds).all()
    assert (none.values == 0).all()


def test_an_ordering_is_kept_in_tensors() -> None:
    given = Ordering(forest(), 7, 0.25, -2.0)
    back = TreeOrder.of(given).ordering()
    assert back[1:] == given[1:]
    for part, expected in zip(back.forest, given.forest, strict=True):
        assert np.array_equal(part, expected)


@pytest.mark.parametrize("wrong", [-1, FEATURES + 1])
def test_damaged_trees_are_refused(wrong: int) -> None:
    trees = forest()
    check_ordering(Ordering(trees, 7, 1.0, 0.0), FEATURES)
    trees.numbers[1, 3] = wrong
    with pytest.raises(ModelError, match="damaged"):
        check_ordering(Ordering(trees, 7, 1.0, 0.0), FEATURES)
    with pytest.raises(ModelError, match="damaged"):
        check_ordering(Ordering(forest(), 0, 1.0, 0.0), FEATURES)
