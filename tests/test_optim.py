import numpy as np
import pytest
import torch
from torch import nn

from laconic.errors import ConfigError
from laconic.kernels.adam import adam_plainly
from laconic.optim import Adam, Plan, clock_table

PLAN = Plan(epochs=1, batch_size=1, learning_rate=0.01)


def torchs(parameter, steps):
    """The optimiser and schedule that the published code takes from torch."""
    optimiser = torch.optim.Adam([parameter], lr=PLAN.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, PLAN.learning_rate, total_steps=steps, pct_start=0.3, div_factor=10, final_div_factor=1e4
    )
    return optimiser, schedule


@pytest.mark.parametrize("steps", [10, 37, 1000])
def test_the_schedule_is_torchs_one_cycle(steps):
    optimiser, schedule = torchs(nn.Parameter(torch.zeros(1)), steps)
    table = clock_table(PLAN, steps)
    for at in range(steps):
        group = optimiser.param_groups[0]
        np.testing.assert_allclose(table[at, 0], group["lr"], rtol=1e-9)
        np.testing.assert_allclose(table[at, 1], group["betas"][0], rtol=1e-9)
        optimiser.step()
        if at < steps - 1:
            schedule.step()


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_shortest_runs_have_a_schedule(steps):
    table = clock_table(PLAN, steps)
    assert np.isfinite(table).all()
    assert (table[:, 0] > 0).all()


def test_the_steps_are_torchs():
    torch.manual_seed(0)
    mine, other = nn.Parameter(torch.randn(50)), nn.Parameter(torch.zeros(50))
    other.data.copy_(mine.data)
    plain, mean, square = mine.detach().clone(), torch.zeros(50), torch.zeros(50)
    ours = Adam({"weight": mine}, PLAN, 20)
    optimiser, schedule = torchs(other, 20)
    for at in range(20):
        slope = torch.randn(50)
        mine.grad, other.grad = slope.clone(), slope.clone()
        ours.step(torch.ones(()))
        optimiser.step()
        schedule.step() if at < 19 else None
        adam_plainly(plain, slope, mean, square, torch.from_numpy(clock_table(PLAN, 20)[at]).float())
        torch.testing.assert_close(mine, other)
        torch.testing.assert_close(plain, other.detach(), rtol=1e-4, atol=1e-6)


def test_where_it_may_not_go_only_the_clock_moves():
    weight = nn.Parameter(torch.ones(3))
    ours = Adam({"weight": weight}, PLAN, 5)
    weight.grad = torch.full((3,), torch.nan)
    ours.step(torch.zeros(()))
    assert weight.tolist() == [1, 1, 1]
    assert int(ours.at) == 1


def test_a_restored_optimiser_goes_on_as_if_nothing_had_happened():
    def stepped(ours, weight, seeds):
        for seed in seeds:
            weight.grad = torch.randn(4, generator=torch.Generator().manual_seed(seed))
            ours.step(torch.ones(()))
        return weight

    unbroken = nn.Parameter(torch.ones(4))
    stepped(Adam({"w": unbroken}, PLAN, 9), unbroken, range(9))
    first = nn.Parameter(torch.ones(4))
    before = Adam({"w": first}, PLAN, 9)
    stepped(before, first, range(5))
    second = nn.Parameter(first.detach().clone())
    after = Adam({"w": second}, PLAN, 9)
    after.restore(before.state())
    assert torch.equal(stepped(after, second, range(5, 9)), unbroken)


@pytest.mark.parametrize(("name", "value"), [("epochs", 0), ("batch_size", -1), ("learning_rate", 0.0)])
def test_a_plan_without_work_is_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name} must be above 0, but is {value}"):
        Plan(**({"epochs": 1, "batch_size": 1} | {name: value}))
