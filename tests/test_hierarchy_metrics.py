"""Near misses are counted by the label hierarchy; figures are worked by hand."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from laconic.evaluation.evaluate import Truth, evaluate, truth_in_numbers_of
from laconic.evaluation.metrics import judge, report
from laconic.evaluation.metrics.hierarchy import near_misses
from laconic.types import NO_LABEL, Ranking

# animals > birds > owls, animals > wolves; stones is alone
ANIMALS, BIRDS, OWLS, WOLVES, STONES = range(5)
BROADER = csr_array(([True] * 3, ([BIRDS, OWLS, WOLVES], [ANIMALS, BIRDS, ANIMALS])), shape=(5, 5))


def figures(predicted, true, k):
    truth = csr_array(np.array([[label in own for label in range(5)] for own in true]).astype(np.float32))
    judged = judge(np.array(predicted), truth)
    return {name: ratio.percent() for name, ratio in near_misses(judged, BROADER, ks=(k,)).items()}


@pytest.mark.parametrize(
    ("predicted", "near"), [(OWLS, 100), (BIRDS, 100), (ANIMALS, 0), (WOLVES, 0), (STONES, 0), (NO_LABEL, 0)]
)
def test_one_step_up_or_down_is_near(predicted, near):
    assert figures([[predicted]], [[OWLS]], 1)["near P@1"] == near


def test_a_narrower_label_is_near_too():
    assert figures([[OWLS]], [[BIRDS]], 1)["near P@1"] == 100


def test_hierarchical_figures_compare_labels_with_all_that_is_broader():
    found = figures([[WOLVES, STONES]], [[OWLS]], 2)
    # {wolves, animals, stones} and {owls, birds, animals} share one of three
    assert found["hP@2"] == pytest.approx(100 / 3)
    assert found["hR@2"] == pytest.approx(100 / 3)
    assert found["hF1@2"] == pytest.approx(100 / 3)


def test_figures_are_means_over_texts():
    found = figures([[OWLS], [STONES]], [[OWLS], [BIRDS]], 1)
    assert found == {"near P@1": 50, "hP@1": 50, "hR@1": 50, "hF1@1": 50}


def test_a_text_without_labels_and_a_place_without_one_count_nothing():
    found = figures([[NO_LABEL, NO_LABEL], [NO_LABEL, NO_LABEL]], [[], [OWLS]], 2)
    assert set(found.values()) == {0}


def test_an_evaluation_has_them_where_there_is_a_hierarchy():
    ranking = Ranking(torch.tensor([[BIRDS, STONES]]), torch.tensor([[0.9, 0.1]]))
    truth = csr_array(np.eye(5, dtype=np.float32)[[OWLS]])
    plain = Truth(labels=truth, leave_out=None, training=None)
    with_it = Truth(labels=truth, leave_out=None, training=None, broader=BROADER)
    assert evaluate(ranking, with_it, ks=(1, 2)).metrics["near P@2"] == 50
    assert "hF1@2" in evaluate(ranking, with_it, ks=(1, 2)).intervals
    assert not any("near" in name for name in evaluate(ranking, plain, ks=(1, 2)).metrics)
    assert evaluate(ranking, with_it, ks=(1,)).metrics["P@1"] == report(judge(ranking, truth), ks=(1,))["P@1"]


def test_the_hierarchy_is_renumbered_with_the_labels():
    names = ["animals", "birds", "owls", "wolves", "stones"]
    truth = truth_in_numbers_of(["owls", "wolves"], names, csr_array((1, 5), dtype=np.float32), broader=BROADER)
    # owls 0, wolves 1, animals 2, birds 3, stones 4
    assert sorted(zip(*truth.broader.nonzero(), strict=True)) == [(0, 3), (1, 2), (3, 2)]
