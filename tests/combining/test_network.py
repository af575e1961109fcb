"""The combiner: order by what it has learnt, probabilities by what was true."""

from __future__ import annotations

import torch
from torch.nn import functional

from laconic.methods.wrappers.fusion import calibrate
from laconic.models.fusion.network import Combiner

NUMBERS = torch.randn(4000, 3, generator=torch.Generator().manual_seed(0))


def combiner() -> Combiner:
    torch.manual_seed(1)
    made = Combiner(3, 8)
    made.standardise(NUMBERS)
    return made


def loss(scores: torch.Tensor, true: torch.Tensor) -> float:
    return float(functional.binary_cross_entropy_with_logits(scores, true.float()))


@torch.no_grad()
def test_calibrated_scores_are_as_likely_as_they_say_and_in_the_same_order() -> None:
    one = combiner()
    before = one(NUMBERS)
    true = torch.rand(4000, generator=torch.Generator().manual_seed(2)) < (7 * before - 2).sigmoid()
    calibrate(one, NUMBERS, true)
    after = one(NUMBERS)
    assert (before[after.argsort()].diff() > -1e-6).all()
    assert abs(float(after.sigmoid().mean()) - float(true.float().mean())) < 1e-4
    # No other line through the scores is better.
    for slope, shift in ((1.02, 0.0), (0.98, 0.0), (1.0, 0.02), (1.0, -0.02)):
        assert loss(slope * after + shift, true) > loss(after, true)


@torch.no_grad()
def test_where_nothing_can_be_learnt_scores_stay() -> None:
    one = combiner()
    before = one(NUMBERS)
    calibrate(one, NUMBERS, before < before.median())  # truth goes against the scores
    assert torch.equal(one(NUMBERS), before)
    calibrate(one, NUMBERS[:0], torch.empty(0, dtype=torch.bool))
    assert one(NUMBERS).isfinite().all()


@torch.no_grad()
def test_numbers_far_out_count_as_the_farthest_usual_ones() -> None:
    one = combiner()
    far = NUMBERS.mean(0) + 5 * NUMBERS.std(0, correction=0)
    torch.testing.assert_close(one(1e6 * torch.ones(3)), one(far), rtol=1e-3, atol=1e-3)
