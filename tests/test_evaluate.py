"""What an evaluation says of scores; its other figures are those of metrics/, tested there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from laconic.evaluation.calibration import Calibration
from laconic.evaluation.evaluate import Truth, evaluate, scored_pairs
from laconic.types import NO_LABEL, Ranking

LABELS = torch.tensor([[0, 1, 2, 3, 4, 5], [5, 4, 3, NO_LABEL, NO_LABEL, NO_LABEL]])
SCORES = torch.tensor([[0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.9, 0.3, 0.1, 0.0, 0.0, 0.0]])
RANKING = Ranking(LABELS, SCORES)


def truth(leave_out: csr_array | None = None) -> Truth:
    labels = np.zeros((2, 6), dtype=np.float32)
    labels[0, [0, 5]] = labels[1, [4]] = 1
    return Truth(labels=csr_array(labels), leave_out=leave_out, training=None)


def test_scores_are_judged_on_the_first_five_labels() -> None:
    pairs = scored_pairs(RANKING, truth())
    assert pairs.scores.tolist() == pytest.approx([0.9, 0.8, 0.7, 0.6, 0.5, 0.9, 0.3, 0.1])
    assert pairs.true.tolist() == [True, *[False] * 4, False, True, False]


def test_pairs_that_are_left_out_are_not_judged() -> None:
    left_out = csr_array(([True, True], ([0, 1], [1, 5])), shape=(2, 6))
    pairs = scored_pairs(RANKING, truth(left_out))
    assert pairs.scores.tolist() == pytest.approx([0.9, 0.7, 0.6, 0.5, 0.4, 0.3, 0.1])
    assert pairs.true.tolist() == [True, False, False, False, True, True, False]


def test_the_error_of_scores_is_reported_with_and_without_calibration() -> None:
    plain = evaluate(RANKING, truth(), ks=(1, 5))
    # Bins: 0.9 twice, 0.8, 0.7, 0.6, 0.5, 0.3, 0.1; one of the two is true, and 0.3.
    gaps = [abs(1.8 - 1), 0.8, 0.7, 0.6, 0.5, 0.7, 0.1]
    assert plain.metrics["ECE@5"] == pytest.approx(100 * sum(gaps) / 8)
    assert "raw ECE@5" not in plain.metrics
    halved = Calibration(scores=(1.0,), probabilities=(0.5,))
    calibrated = evaluate(RANKING, truth(), ks=(1, 5), calibration=halved)
    assert calibrated.metrics["raw ECE@5"] == plain.metrics["ECE@5"]
    # Half of each: 0.45 twice, 0.4 (a bin with 0.45's begins there), 0.35 and so on; 0.15 is the true one.
    together = [abs(0.9 + 0.4 - 1), 0.35, 0.3, 0.25, abs(0.15 - 1), 0.05]
    assert calibrated.metrics["ECE@5"] == pytest.approx(100 * sum(together) / 8)
    others = [name for name in plain.metrics if "ECE" not in name]
    assert {name: calibrated.metrics[name] for name in others} == {name: plain.metrics[name] for name in others}


def test_a_ranking_of_fewer_places_says_nothing_of_scores() -> None:
    narrow = Ranking(LABELS[:, :3], SCORES[:, :3])
    assert not any("ECE" in name for name in evaluate(narrow, truth(), ks=(1, 3)).metrics)
