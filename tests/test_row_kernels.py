"""The kernels over every label and the update of rows, against their twins and against torch's own gradients."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from laconic.kernels.triton import row_update
from laconic.kernels.triton.all_labels import (
    all_negative_loss,
    input_gradients,
    padded_width,
)
from laconic.kernels.triton.factors import AllLabelFactors, ShortlistFactors, factors_of, leave, take
from laconic.kernels.triton.row_update import Strips, multiply_out, strips_for, update_rows
from tests.kernel_references import (
    all_negative_loss_reference,
    dense,
    input_gradients_reference,
    update_rows_reference,
)
from tests.variants import some_slow

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CLOCK = (0.01, 0.9, 0.999, 1e-8, 0.1, 0.001)
SHAPES = [(7, 130, 20), (70, 128, 33), (3, 1, 1), (129, 260, 64)]


@pytest.fixture
def poisoned(monkeypatch):
    """Memory that is handed out unwritten holds NaN, so that a place that a kernel forgets is seen."""
    empty, new_empty = torch.empty, torch.Tensor.new_empty

    def nan(tensor):
        return tensor.fill_(torch.nan) if tensor.is_floating_point() else tensor

    monkeypatch.setattr(torch, "empty", lambda *size, **kind: nan(empty(*size, **kind)))
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda self, *size, **kind: nan(new_empty(self, *size, **kind)))


def clock(go=1.0):
    return torch.tensor([*CLOCK, go], device=DEVICE)


def every(batch, labels, dim, seed=0):
    torch.manual_seed(seed)
    parts = torch.randn(batch, dim), torch.randn(labels, dim), torch.randn(labels), torch.rand(batch)
    return [part.to(DEVICE) for part in parts]


def of_every_label(batch, labels, dim, seed=0):
    torch.manual_seed(seed)
    slopes = functional.pad(torch.randn(batch, labels), (0, padded_width(labels) - labels))
    return AllLabelFactors(slopes.to(DEVICE), torch.randn(batch, dim).to(DEVICE))


def of_picked(clusters=9, picks=12, dim=20, room=4, seed=0):
    """Clusters of one to `room` labels; some are picked by nobody, and the last picks are of no cluster."""
    torch.manual_seed(seed)
    sizes, of = torch.randint(1, room + 1, (clusters,)), torch.randint(clusters, (picks,)).sort().values
    starts = functional.pad(sizes.cumsum(0), (1, 0))
    bounds = torch.searchsorted(of, torch.arange(clusters + 1))
    places = torch.arange(room) < sizes[of][:, None]
    slopes = torch.cat([torch.randn(picks, room) * places, torch.full((2, room), torch.nan)])
    texts = torch.randint(5, (picks + 2,))
    parts = slopes, texts, bounds, starts, torch.randn(5, dim)
    return ShortlistFactors(*(part.to(DEVICE) for part in parts)), int(starts[-1])


def state(rows, dim, dtype=torch.float32):
    parts = torch.randn(rows, dim), torch.randn(rows, dim) / 10, torch.rand(rows, dim) / 10
    return [part.to(DEVICE, dtype) for part in parts]


def updated(update, parts, factors, **options):
    copies = [part.clone() for part in parts]
    update(*copies, factors, **options)
    return copies


def test_the_twin_has_torchs_loss_and_gradients():
    vectors, weight, bias, share = every(5, 11, 6)
    leaves = [part.requires_grad_() for part in (vectors, weight, bias)]
    scores = functional.linear(vectors, weight, bias)
    losses = functional.binary_cross_entropy_with_logits(scores, torch.zeros_like(scores), reduction="none")
    expected = share @ losses.sum(1)
    expected.backward()
    with torch.no_grad():
        found = all_negative_loss_reference(vectors, weight, bias, share)
        factors = AllLabelFactors(found.logit_gradients, vectors * share[:, None])
    torch.testing.assert_close(found.loss, expected.detach())
    torch.testing.assert_close(found.bias, bias.grad)
    torch.testing.assert_close(dense(factors, 11), weight.grad)
    torch.testing.assert_close(input_gradients_reference(found.logit_gradients, weight) * share[:, None], vectors.grad)
    assert [leaf.grad is not None for leaf in leaves] == [True] * 3


@pytest.mark.usefixtures("interpreted", "poisoned")
@pytest.mark.parametrize("shape", some_slow(SHAPES))
def test_the_kernels_over_every_label_do_what_their_twins_do(shape):
    vectors, weight, bias, share = every(*shape)
    expected, ours = (
        all_negative_loss_reference(vectors, weight, bias, share),
        all_negative_loss(vectors, weight, bias, share, precise=True),
    )
    for mine, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, other)
    torch.testing.assert_close(
        input_gradients(ours.logit_gradients, weight, precise=True),
        input_gradients_reference(ours.logit_gradients, weight),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.usefixtures("interpreted")
def test_not_a_number_never_passes():
    vectors, weight, bias, share = every(4, 9, 5)
    weight[3, 2] = torch.nan
    assert all_negative_loss(vectors, weight, bias, share, precise=True).loss.isnan()


@pytest.mark.usefixtures("interpreted", "poisoned")
@pytest.mark.parametrize("shape", some_slow(SHAPES))
def test_rows_are_updated_as_the_twin_updates_them(shape):
    factors, rows = of_every_label(*shape), shape[1]
    torch.testing.assert_close(multiply_out(factors, rows, precise=True), dense(factors, rows), rtol=1e-4, atol=1e-4)
    parts = state(rows, shape[2])
    expected = updated(update_rows_reference, parts, factors, clock=clock())
    for mine, other in zip(updated(update_rows, parts, factors, clock=clock(), precise=True), expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("interpreted", "poisoned")
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("shape", some_slow([{}, {"room": 1}, {"room": 16, "dim": 70}, {"clusters": 40, "picks": 3}]))
def test_picked_rows_are_updated_as_the_twin_updates_them(shape, lazy):
    factors, rows = of_picked(**shape)
    torch.testing.assert_close(multiply_out(factors, rows), dense(factors, rows))
    parts = state(rows, factors.vectors.shape[1])
    expected = updated(update_rows_reference, parts, factors, clock=clock(), lazy=lazy)
    for mine, other in zip(updated(update_rows, parts, factors, clock=clock(), lazy=lazy), expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("interpreted", "poisoned")
@pytest.mark.parametrize("shape", some_slow([(0, 0, 33), (70, 130, 33), (140, 130, 70), (3, 1, 1)], 3))
def test_adagrad_remembers_one_number_of_a_row(shape):
    factors, rows = (of_every_label(*shape), shape[1]) if shape[0] else of_picked(room=16, dim=33)
    weight, square = state(rows, shape[2])[0], torch.rand(rows, device=DEVICE)
    expected = updated(no_mean(update_rows_reference), (weight, square), factors, clock=clock())
    ours = updated(no_mean(update_rows), (weight, square), factors, clock=clock(), precise=True)
    slope = dense(factors, rows)
    torch.testing.assert_close(expected[1], square + slope.square().mean(1))
    torch.testing.assert_close(expected[0], weight - 0.01 * slope / (expected[1].sqrt() + 1e-8)[:, None])
    for mine, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)
    for mine, other in zip(
        updated(no_mean(update_rows), (weight, square), factors, clock=clock(0.0), precise=True),
        (weight, square),
        strict=True,
    ):
        assert torch.equal(mine, other)


def no_mean(update):
    return lambda weight, square, factors, **options: update(weight, None, square, factors, **options)


ROOM = {"A10, L4, RTX 30 and 40": 99 << 10, "A100": 163 << 10, "H200": 227 << 10}


@pytest.mark.parametrize("room", ROOM.values(), ids=ROOM)
@pytest.mark.parametrize("item", [2, 4])
@pytest.mark.parametrize("batch", [1, 64, 128, 129, 1000])
def test_strips_fit_into_the_shared_memory_of_a_gpu(batch, item, room):
    assert strips_for(batch, 64, item, room).shared_memory(batch, 64, item) <= room


def test_strips_are_as_large_as_the_gpu_has_room_for():
    fastest, more, precise = Strips(128, 128, 8, 3, 128), Strips(64, 128, 4, 2, None), Strips(64, 64, 4, 2, None)
    for room in (ROOM["H200"], ROOM["A100"]):
        chosen = [strips_for(batch, 64, item, room) for batch, item in ((128, 2), (129, 2), (128, 4), (129, 4))]
        assert chosen == [fastest, more, precise, precise]
    assert fastest.shared_memory(128, 64, 2) == 112 << 10  # as Triton says for Hopper
    assert strips_for(128, 64, 2, 99 << 10) == fastest._replace(stages=2)
    assert strips_for(128, 64, 2, 64 << 10) == more
    assert [strips_for(128, 64, 2, room << 10).rows for room in (63, 32, 10, 1)] == [64, 32, 16, 16]


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("room", [1 << 10, 40 << 10, 99 << 10])
def test_smaller_strips_update_rows_as_the_twin_does(monkeypatch, room):
    monkeypatch.setattr(row_update, "_shared_memory", lambda device: room)
    factors, parts = of_every_label(70, 130, 33), (state(130, 33)[0], torch.rand(130, device=DEVICE))
    expected = updated(no_mean(update_rows_reference), parts, factors, clock=clock())
    ours = updated(no_mean(update_rows), parts, factors, clock=clock(), precise=True)
    for mine, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_where_it_may_not_go_rows_and_state_stay_bit_for_bit(dtype):
    parts, factors = state(30, 8, dtype), of_every_label(6, 30, 8)
    for mine, other in zip(
        updated(update_rows, parts, factors, clock=clock(0.0), precise=True, chance=torch.tensor(3, device=DEVICE)),
        parts,
        strict=True,
    ):
        assert torch.equal(mine, other)


@pytest.mark.slow
@pytest.mark.usefixtures("interpreted")
def test_halves_are_rounded_by_chance_to_a_neighbour_and_on_average_to_what_they_should_be():
    factors, parts = of_every_label(6, 200, 16), state(200, 16, torch.bfloat16)
    wanted = updated(update_rows_reference, [part.float() for part in parts], factors, clock=clock())
    found = [
        updated(update_rows, parts, factors, clock=clock(), precise=True, chance=torch.tensor(at, device=DEVICE))
        for at in range(24)
    ]
    for place, exact in enumerate(wanted):
        each = torch.stack([run[place].float() for run in found])
        step = exact.abs().clamp(min=1e-30).log2().floor().exp2() / 128  # from a bfloat16 to the next
        assert ((each - exact).abs() <= step * 1.001).all()
        assert (each != each[0]).any()
        errors = (each - exact) / step
        # By chance it is half a step off at most; of so many the mean is off by far less.
        assert errors.mean().abs() < 0.01
        assert errors.mean(0).abs().mean() < 0.1


def test_a_gradient_that_was_multiplied_out_is_its_own_factors():
    gradient = torch.randn(9, 5, device=DEVICE)
    gradient[[0, 3, 4, 8]] = 0
    factors = factors_of(gradient)
    assert torch.equal(dense(factors, 9), gradient)
    assert factors.bounds.diff().bool().tolist() == gradient.any(1).tolist()


@pytest.mark.usefixtures("interpreted", "poisoned")
@pytest.mark.parametrize("dim", [16, 33])
@pytest.mark.parametrize(("by_row", "lazy"), [(False, False), (False, True), (True, False)])
def test_rows_are_updated_by_a_gradient_that_was_multiplied_out(by_row, lazy, dim):
    gradient, (weight, mean, square) = torch.randn(9, dim, device=DEVICE), state(9, dim)
    gradient[[0, 3, 4, 8]] = 0
    parts, only = (weight, mean, square), {"lazy": lazy}
    ours, expected = update_rows, update_rows_reference
    if by_row:
        parts, only = (weight, torch.rand(9, device=DEVICE)), {}
        ours, expected = no_mean(ours), no_mean(expected)
    found = updated(ours, parts, factors_of(gradient), clock=clock(), precise=True, **only)
    for mine, other in zip(found, updated(expected, parts, factors_of(gradient), clock=clock(), **only), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)
    rests = torch.tensor([row in (0, 3, 4, 8) for row in range(9)], device=DEVICE)
    assert torch.equal((found[0] == weight).all(1), rests & (lazy or by_row))


def test_factors_are_taken_once():
    rows = nn.Parameter(torch.zeros(3, 2))
    assert take(rows) is None
    factors = AllLabelFactors(torch.zeros(1, 128), torch.zeros(1, 2))
    leave(rows, factors)
    assert take(rows) is factors
    assert take(rows) is None


@on_gpu
@pytest.mark.parametrize("batch", [128, 200])
def test_the_kernels_do_what_their_twins_do_at_real_shapes(batch, poisoned):
    vectors, weight, bias, share = every(batch, 50_001, 480)
    weight /= 20
    expected, ours = (
        all_negative_loss_reference(vectors, weight, bias, share),
        all_negative_loss(vectors, weight, bias, share),
    )
    for mine, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine.float(), other, rtol=1e-2, atol=float(other.abs().max()) * 5e-3)
    pulled, other = (
        input_gradients(ours.logit_gradients, weight),
        input_gradients_reference(ours.logit_gradients, weight),
    )
    torch.testing.assert_close(pulled, other, rtol=1e-2, atol=float(other.abs().max()) * 5e-3)
    factors, parts = AllLabelFactors(ours.logit_gradients, vectors * share[:, None]), state(50_001, 480)
    by_row = parts[0], torch.rand(50_001, device=DEVICE) / 10
    ways = update_rows, update_rows_reference
    mine, other = (updated(no_mean(way), by_row, factors, clock=clock()) for way in ways)
    for one, wanted, before in zip(mine, other, by_row, strict=True):  # the step, which is small beside what it moves
        largest = float((wanted - before).abs().max())
        torch.testing.assert_close(one - before, wanted - before, rtol=1e-2, atol=largest * 5e-3)
    parts[2] += 0.01  # near 0 a step is as large as rounding makes it
    expected = updated(update_rows_reference, parts, factors, clock=clock())
    for mine, other in zip(updated(update_rows, parts, factors, clock=clock()), expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-2, atol=float(other.abs().max()) * 5e-3)
