"""List the members of groups without sorting them: each is counted, and the counts say where it goes."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

_BLOCK = 1024


class Listed(NamedTuple):
    """Members of group g are `members[bounds[g]:bounds[g + 1]]`, in no order."""

    members: Int[Tensor, "n"]
    bounds: Int[Tensor, "bounds"]


def listed_by_group(groups: Int[Tensor, "n"], count: int) -> Listed:
    """List positions by their group, of `count`; those of group `count`, which is none, come after the last."""
    size = len(groups)
    assert groups.is_contiguous()
    counts = torch.zeros((count + 1,), dtype=torch.int32, device=groups.device)
    ranks = torch.empty((size,), dtype=torch.int32, device=groups.device)
    grid = (-(-size // _BLOCK),)
    _kernels()[0][grid](groups, counts, ranks, size, BLOCK=_BLOCK)
    bounds = torch.zeros((count + 2,), dtype=torch.int64, device=groups.device)
    torch.cumsum(counts, 0, out=bounds[1:])
    members = torch.empty((size,), dtype=torch.int64, device=groups.device)
    _kernels()[1][grid](groups, bounds, ranks, members, size, BLOCK=_BLOCK)
    return Listed(members, bounds[:-1])


@cache
def _kernels() -> Any:
    import triton
    from triton import language as tl

    @triton.jit(do_not_specialize=("size",))  # type: ignore[untyped-decorator]
    def count(groups, counts, ranks, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        group = tl.load(groups + at, mask=at < size, other=0)
        tl.store(ranks + at, tl.atomic_add(counts + group, 1, mask=at < size, sem="relaxed"), mask=at < size)

    @triton.jit(do_not_specialize=("size",))  # type: ignore[untyped-decorator]
    def place(groups, bounds, ranks, members, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        group = tl.load(groups + at, mask=at < size, other=0)
        rank = tl.load(ranks + at, mask=at < size, other=0)
        tl.store(members + tl.load(bounds + group, mask=at < size, other=0) + rank, at.to(tl.int64), mask=at < size)

    return count, place
