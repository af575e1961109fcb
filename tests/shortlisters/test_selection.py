"""The largest few of every row."""

from __future__ import annotations

import pytest
import torch

from laconic.models.shortlisters.selection import _from_groups, largest


@pytest.mark.parametrize("size", [4096, 4128, 8192])
@pytest.mark.parametrize("k", [1, 5, 64])
def test_the_best_of_the_best_groups_are_the_best_of_all(size: int, k: int) -> None:
    scores = torch.randn(7, size, generator=torch.Generator().manual_seed(k))
    scores[0] = scores[0].sort().values  # all of the best in the last groups
    found, expected = _from_groups(scores, k), scores.topk(k)
    assert torch.equal(found.scores, expected.values)
    assert torch.equal(found.labels, expected.indices)


@pytest.mark.parametrize(("size", "k"), [(100, 7), (4096, 5), (4100, 5), (4096, 400)])
def test_rows_of_any_length_have_the_largest_first(size: int, k: int) -> None:
    scores = torch.randn(5, size, generator=torch.Generator().manual_seed(size))
    found, expected = largest(scores, k), scores.topk(k)
    assert torch.equal(found.scores, expected.values)
    assert torch.equal(found.labels, expected.indices)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("size", "k"), [(100, 7), (1 << 17, 64), ((1 << 17) - 5, 64)])
def test_on_a_gpu_too(size: int, k: int) -> None:
    scores = torch.randn(64, size, device="cuda")
    found, expected = largest(scores, k), scores.topk(k)
    assert torch.equal(found.scores, expected.values)
    assert torch.equal(scores.gather(1, found.labels), found.scores)
