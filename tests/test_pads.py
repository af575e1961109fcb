"""Padded rows, which kernels treat as rows without padding."""

import pytest
import torch

from laconic.kernels.triton.all_labels import all_negative_loss, input_gradients
from laconic.kernels.triton.pads import as_wide, padded, with_padding, zeros_like
from laconic.kernels.triton.row_update import update_rows
from laconic.kernels.triton.shortlist import shortlist_gradients
from laconic.kernels.triton.shortlist_scores import shortlist_scores
from laconic.training.optimizer import Adam, Plan
from tests.test_row_kernels import DEVICE, clock, every, of_every_label, of_picked, state
from tests.test_shortlist_kernel import case


def test_padded_rows_begin_where_a_sector_does_and_look_as_before():
    rows = torch.randn(5, 300)
    half = rows.bfloat16()
    found = padded(half)
    assert torch.equal(found, half)
    assert found.stride() == (304, 1)
    assert with_padding(found).shape == (5, 304)
    assert (with_padding(found)[:, 300:] == 0).all()
    assert padded(torch.zeros(5, 480, dtype=torch.bfloat16)).is_contiguous()
    assert with_padding(rows) is rows
    assert with_padding(torch.zeros(4, 900)[:, :300]).shape == (4, 300)  # padding is never as wide
    assert zeros_like(found).stride() == (304, 1)
    assert zeros_like(rows.T).shape == (300, 5)
    assert as_wide(rows, with_padding(found)).shape == (5, 304)


def test_the_state_of_padded_rows_is_padded():
    rows = torch.nn.Parameter(padded(torch.ones(4, 20)))
    ours = Adam({"rows": rows}, Plan(epochs=1, batch_size=1), 3)
    assert {ours.means["rows"].stride(), ours.squares["rows"].stride(), rows.stride()} == {(24, 1)}


@pytest.mark.usefixtures("interpreted")
def test_padded_rows_are_scored_as_others():
    vectors, weight, bias, share = every(7, 130, 20)
    ours, expected = (all_negative_loss(vectors, rows, bias, share, precise=True) for rows in (padded(weight), weight))
    for mine, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, other)
    torch.testing.assert_close(
        *(input_gradients(ours.logit_gradients, rows, precise=True) for rows in (padded(weight), weight))
    )


@pytest.mark.usefixtures("interpreted")
def test_padded_rows_of_picked_clusters_are_scored_as_others():
    vectors, weight, bias, shortlist, wanted = case(device=DEVICE)
    ours, expected = (shortlist_gradients(vectors, rows, bias, shortlist, wanted) for rows in (padded(weight), weight))
    torch.testing.assert_close(ours.loss, expected.loss)
    torch.testing.assert_close(ours.vectors, expected.vectors)
    torch.testing.assert_close(ours.bias, expected.bias)
    assert ours.weight.vectors.shape == vectors.shape
    torch.testing.assert_close(*(shortlist_scores(vectors, rows, bias, shortlist) for rows in (padded(weight), weight)))


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("picked", [False, True])
@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_padded_rows_are_updated_as_others_and_their_padding_stays_zero(picked, by_row, dtype):
    factors, rows = of_picked(room=16, dim=20) if picked else (of_every_label(7, 30, 20), 30)
    weight, mean, square = state(rows, 20, dtype)
    if by_row:
        mean, square = None, torch.rand(rows, device=DEVICE)
    found = []
    for change in (padded, torch.clone):
        parts = [change(part) if part.ndim == 2 else part.clone() for part in (weight, square)]
        own_mean = None if mean is None else change(mean)
        update_rows(parts[0], own_mean, parts[1], factors, clock(), precise=True, chance=torch.tensor(3, device=DEVICE))
        found.append([parts[0], parts[1]] + ([] if mean is None else [own_mean]))
    # By chance bfloat16 may be rounded to the other neighbour.
    near = {} if dtype == torch.float32 else {"rtol": 1.6e-2, "atol": 1e-3}
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, **near)
        if mine.ndim == 2:
            wide = with_padding(mine)
            assert wide.shape[1] > 20
            assert (wide[:, 20:] == 0).all()
