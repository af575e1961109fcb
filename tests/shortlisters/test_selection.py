"""The largest few of every row."""

from __future__ import annotations

import pytest
import torch

from laconic.kernels.triton.maxima import best_groups
from laconic.models.shortlisters.selection import largest


@pytest.mark.parametrize(("size", "k"), [(100, 7), (4096, 5), (4100, 5), (4096, 400)])
def test_rows_of_any_length_have_the_largest_first(size: int, k: int) -> None:
    scores = torch.randn(5, size, generator=torch.Generator().manual_seed(size))
    found, expected = largest(scores, k), scores.topk(k)
    assert torch.equal(found.scores, expected.values)
    assert torch.equal(found.labels, expected.indices)


@pytest.mark.parametrize("size", [100, 2080, 65_536])  # one block, one more, blocks of blocks
@pytest.mark.parametrize("k", [1, 64])
def test_blocks_of_neighbours_lose_none_of_the_largest(size: int, k: int) -> None:
    scores = torch.randn(7, size, generator=torch.Generator().manual_seed(k))
    scores[0] = scores[0].sort().values  # all of the largest in the last blocks
    assert torch.equal(best_groups(scores, k).sort().values, scores.topk(k).indices.sort().values)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("size", "k"), [(100, 7), (1 << 17, 64), ((1 << 17) - 5, 64)])
def test_on_a_gpu_too(size: int, k: int) -> None:
    scores = torch.randn(64, size, device="cuda")
    found, expected = largest(scores, k), scores.topk(k)
    assert torch.equal(found.scores, expected.values)
    assert torch.equal(scores.gather(1, found.labels), found.scores)
