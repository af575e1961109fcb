"""The largest few of a row, against torch's own."""

import pytest
import torch

from laconic.kernels.triton import largest
from laconic.kernels.triton.largest import largest_places
from tests.variants import some_slow

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def same(values, count):
    """Whether the chosen places are different ones, and have the values of torch's."""
    places = largest_places(values, count)
    assert places.shape == (len(values), count)
    assert all(len(row.unique()) == count for row in places)
    found = values.gather(1, places).sort(dim=1, descending=True).values
    torch.testing.assert_close(found, values.topk(count).values, rtol=0, atol=0)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("shape", some_slow([(1000, 30), (1024, 1024), (1, 1), (5, 2), (300, 1), (255, 200)], 3))
@pytest.mark.parametrize("candidates", [64, 8192])
def test_the_largest_of_a_row_are_found_however_many_groups_there_are(monkeypatch, shape, candidates):
    monkeypatch.setattr(largest, "_CANDIDATES", candidates)
    torch.manual_seed(0)
    values = torch.randn(3, shape[0], device=DEVICE)
    same(values, shape[1])
    same(-values.abs(), shape[1])


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("candidates", [64, 8192])
def test_equal_values_and_infinities_are_chosen_once(monkeypatch, candidates):
    monkeypatch.setattr(largest, "_CANDIDATES", candidates)
    values = torch.zeros(4, 500, device=DEVICE)
    values[1] = -torch.inf
    values[2, ::3] = torch.inf
    values[3] = torch.arange(500) % 7
    same(values, 40)


@pytest.mark.usefixtures("interpreted")
def test_where_too_many_are_wanted_torch_chooses(monkeypatch):
    monkeypatch.setattr(largest, "_CANDIDATES", 8)
    monkeypatch.setattr(largest, "_MOST_CANDIDATES", 16)
    torch.manual_seed(0)
    same(torch.randn(2, 64, device=DEVICE), 20)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("width", [65_536, 131_072, 65_000])
def test_the_largest_are_found_at_real_shapes(width):
    torch.manual_seed(0)
    values = torch.randn(256, width, device="cuda")
    same(values, 800)
    same(values.round(decimals=1), 800)
