from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from laconic.errors import ConfigError
from laconic.kernels.triton.adam import Several, adam, adam_reference, adam_rows, adam_rows_reference
from laconic.kernels.triton.pads import padded
from laconic.training.optimizer import Adam, Halving, Plan, clock_table

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def step(optimiser, go=1.0):
    with optimiser.stepping(torch.tensor(go)):
        pass  # the gradients are there


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
        step(ours)
        optimiser.step()
        schedule.step() if at < 19 else None
        adam_reference(plain, slope, mean, square, torch.from_numpy(clock_table(PLAN, 20)[at]).float())
        torch.testing.assert_close(mine, other)
        torch.testing.assert_close(plain, other.detach(), rtol=1e-4, atol=1e-6)


def test_pretrained_parameters_have_a_rate_of_their_own():
    plan = replace(PLAN, pretrained_rate=0.001)
    both = {name: nn.Parameter(torch.ones(4)) for name in ("encoder.layers.0", "classifier")}
    alone = {name: nn.Parameter(torch.ones(4)) for name in both}
    ours = Adam(both, plan, 6, pretrained={"encoder.layers.0"})
    each = [
        Adam({"encoder.layers.0": alone["encoder.layers.0"]}, replace(PLAN, learning_rate=0.001), 6),
        Adam({"classifier": alone["classifier"]}, PLAN, 6),
    ]
    for seed in range(6):
        for name, parameter in both.items():
            parameter.grad = torch.randn(4, generator=torch.Generator().manual_seed(seed))
            alone[name].grad = parameter.grad.clone()
        for one in (ours, *each):
            step(one)
    for name, parameter in both.items():
        torch.testing.assert_close(parameter, alone[name])
    assert not torch.allclose(both["classifier"], both["encoder.layers.0"])


def test_where_it_may_not_go_only_the_clock_moves():
    weight = nn.Parameter(torch.ones(3))
    ours = Adam({"weight": weight}, PLAN, 5)
    weight.grad = torch.full((3,), torch.nan)
    step(ours, 0.0)
    assert weight.tolist() == [1, 1, 1]
    assert int(ours.at) == 1


def test_a_restored_optimiser_goes_on_as_if_nothing_had_happened():
    def stepped(ours, weight, seeds):
        for seed in seeds:
            weight.grad = torch.randn(4, generator=torch.Generator().manual_seed(seed))
            step(ours)
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


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("go", [1.0, 0.0])
@pytest.mark.parametrize(("kernel", "twin"), [(adam, adam_reference), (adam_rows, adam_rows_reference)])
def test_the_kernels_do_what_their_twins_do(kernel, twin, go):
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    weight, slope, mean = (torch.randn(37, 20, device=device) for _ in range(3))
    square = torch.rand(37, 20, device=device)
    slope[::3] = 0
    clock = torch.tensor([0.01, 0.9, 0.999, 1e-8, 0.4, 0.02, go], device=device)
    ours, theirs = ([part.clone() for part in (weight, mean, square)] for _ in range(2))
    kernel(ours[0], slope, *ours[1:], clock)
    twin(theirs[0], slope, *theirs[1:], clock)
    for mine, other, before in zip(ours, theirs, (weight, mean, square), strict=True):
        torch.testing.assert_close(mine, other)
        assert (mine != before).any() == (go > 0)
        if kernel is adam_rows:
            assert torch.equal(mine[::3], before[::3])


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("go", [1.0, 0.0])
def test_several_small_tensors_in_one_launch_move_as_each_alone(go):
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shapes = [(3,), (40, 50), (1,), (1024,), (1025,)]
    parts = [[torch.rand(shape, device=device) for shape in shapes] for _ in range(4)]
    before = [[one.clone() for one in part] for part in parts]
    clock = torch.tensor([0.01, 0.9, 0.999, 1e-8, 0.4, 0.02, go], device=device)
    Several(parts[0]).step(*parts, clock)
    for weight, slope, mean, square in zip(*before, strict=True):
        adam_reference(weight, slope, mean, square, clock)
    for mine, other in zip(parts, before, strict=True):
        for one, expected in zip(mine, other, strict=True):
            torch.testing.assert_close(one, expected)


@pytest.mark.parametrize("lazy", [True, False])
def test_lazily_means_that_rows_without_a_gradient_rest(lazy):
    torch.manual_seed(0)
    table, other = (nn.Parameter(torch.randn(5, 3)) for _ in range(2))
    plan = Plan(epochs=1, batch_size=1, learning_rate=0.1, lazy=lazy)
    optimiser = Adam({"table": table, "other": other}, plan, 10, tables={"table"})
    table.grad, other.grad = torch.ones(5, 3), torch.ones(5, 3)
    step(optimiser)
    before = table.detach().clone(), other.detach().clone()
    table.grad[[0, 2]] = 0
    other.grad[[0, 2]] = 0
    step(optimiser)
    rests = torch.tensor([True, False, True, False, False])
    assert torch.equal((table == before[0]).all(1), rests & lazy)
    assert not (other == before[1]).any()


def test_lazy_adam_is_torchs_own_for_sparse_gradients():
    torch.manual_seed(0)
    ours, theirs = (nn.Parameter(torch.ones(6, 4)) for _ in range(2))
    plan = Plan(epochs=5, batch_size=1, learning_rate=0.1, schedule=Halving(after=1.0), lazy=True)
    optimiser, expected = Adam({"t": ours}, plan, 5, tables={"t"}), torch.optim.SparseAdam([theirs], lr=0.1)
    with torch.sparse.check_sparse_tensor_invariants():  # torch warns where nobody has chosen
        for _ in range(5):
            rows, values = torch.randperm(6)[:3], torch.randn(3, 4)
            ours.grad = torch.zeros(6, 4).index_copy(0, rows, values)
            theirs.grad = torch.sparse_coo_tensor(rows[None], values, (6, 4)).coalesce()
            step(optimiser)
            expected.step()
            torch.testing.assert_close(ours.detach(), theirs.detach())


def test_a_gradient_that_comes_as_rows_moves_what_a_whole_one_would():
    torch.manual_seed(0)
    start = torch.randn(6, 4)
    whole, by_row = (nn.Embedding.from_pretrained(start.clone(), freeze=False, padding_idx=0) for _ in range(2))
    by_row.sparse = True
    plan = Plan(epochs=1, batch_size=1, learning_rate=0.1, lazy=True)
    optimisers = [Adam({"t": table.weight}, plan, 9, tables={"t"}) for table in (whole, by_row)]
    for _ in range(4):
        ids, slopes = torch.randint(6, (3, 2)), torch.randn(3, 2, 4)
        slopes[0] = 0  # of a word that was dropped: it rests too
        for table, optimiser in zip((whole, by_row), optimisers, strict=True):
            table.weight.grad = None
            (table(ids) * slopes).sum().backward()
            assert table.weight.grad.is_sparse == (table is by_row)
            step(optimiser)
        assert torch.equal(whole.weight, by_row.weight)
    for mine, other in zip(*(optimiser.state().values() for optimiser in optimisers), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize(
    ("epochs", "after", "halved"),
    [(20, 0.7, {14: 1 / 2}), (20, 0.5, {10: 1 / 2, 15: 1 / 4}), (15, 0.93, {14: 1 / 2}), (1, 0.7, {}), (3, 1.0, {})],
)
def test_the_rate_is_halved_when_deepxml_halves_it(epochs, after, halved):
    factors, beta1 = Halving(after=after).factors(epochs * 7, epochs)
    expected, factor = [], 1.0
    for epoch in range(epochs):
        factor = halved.get(epoch, factor)
        expected += [factor] * 7
    np.testing.assert_array_equal(factors, expected)
    assert (beta1 == 0.9).all()


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("optimiser", ["adam-bf16", "adagrad-bf16"])
def test_rows_that_others_are_computed_from_are_resumed_to_the_bit(optimiser):
    """The steps of a GPU, on any device: such rows have a gradient as other parameters have."""

    def steps(optimiser, numbers):
        for number in numbers:
            parameter = optimiser.parameters["rows"]
            torch.manual_seed(number)
            parameter.grad = torch.randn(parameter.shape, device=DEVICE).bfloat16()
            parameter.grad[number] = 0
            optimiser._update(["rows"], torch.cat([optimiser.clocks[optimiser.at][:6], torch.ones(1, device=DEVICE)]))
            optimiser.at += 1
        return optimiser

    def begun(start):
        plan = Plan(epochs=1, batch_size=1, learning_rate=0.1, lazy=True, optimiser=optimiser)
        return Adam({"rows": nn.Parameter(padded(start.clone()))}, plan, 4, tables={"rows"}, rows={"rows"})

    start = torch.ones(5, 20, device=DEVICE, dtype=torch.bfloat16)
    whole = steps(begun(start), range(4))
    half = steps(begun(start), range(2))
    again = begun(half.parameters["rows"].detach())
    again.restore(half.state())
    steps(again, [2, 3])
    assert torch.equal(again.parameters["rows"], whole.parameters["rows"])
    assert not torch.equal(half.parameters["rows"], whole.parameters["rows"])
    assert all(torch.equal(again.state()[name], tensor) for name, tensor in whole.state().items())
    one = steps(begun(start), [0]).parameters["rows"]
    assert (one == start).all(1).tolist() == [True, False, False, False, False]  # without a gradient it rests
    assert (one[1:] - start[1:]).abs().max() < 0.5


def test_adagrad_remembers_one_number_of_a_row_and_is_restored():
    rows, other = nn.Parameter(torch.ones(5, 3)), nn.Parameter(torch.ones(2))
    plan = replace(PLAN, optimiser="adagrad-bf16")
    ours = Adam({"rows": rows, "other": other}, plan, 4, rows=["rows"])
    assert {name: tuple(tensor.shape) for name, tensor in ours.state().items()} == {
        "at": (),
        "mean.other": (2,),
        "square.other": (2,),
        "square.rows": (5,),
    }
    ours.squares["rows"].fill_(3)
    again = Adam({"rows": rows, "other": other}, plan, 4, rows=["rows"])
    again.restore(ours.state())
    assert again.squares["rows"].tolist() == [3] * 5
