"""The largest few of every row, without a sort: a program holds a row's candidates and bisects their threshold.

A wide row is cut into groups first, whose maxima are the candidates. Whatever is among the best k of a row is in one of
the k groups with the largest maxima, and the members of these are the candidates of a second pass.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

_CANDIDATES, _MOST_CANDIDATES = 8192, 16384  # of a row that a program holds
_EACH, _REGISTERS = 32, 128  # that a thread holds; registers for them, so that a multiprocessor has two rows


def largest_places(values: Float[Tensor, "batch n"], count: int) -> Int[Tensor, "batch k"]:
    """Return the places of the `count` largest of each row, in no order; of equal ones, any."""
    width = values.shape[1]
    near = max(1, _power(width) // _CANDIDATES)
    groups = -(-width // near)
    if count * near > _MOST_CANDIDATES or count > groups:
        return values.topk(min(count, width), sorted=False).indices
    assert values.is_contiguous()
    chosen = _chosen(values, values, (groups, groups, count), near, listed=False)
    return chosen if near == 1 else _chosen(values, chosen, (groups, count * near, count), near, listed=True)


def _chosen(
    values: Float[Tensor, "batch n"], groups: Tensor, sizes: tuple[int, int, int], near: int, *, listed: bool
) -> Int[Tensor, "batch k"]:
    """Choose among all groups by their maxima or, `listed`, among the members of those that are listed."""
    (batch, width), count = values.shape, sizes[2]
    places = torch.empty((batch, count), dtype=torch.int64, device=values.device)
    size = _power(sizes[1])
    _kernel()[(batch,)](
        *(values, groups, places, width, *sizes),
        SIZE=size,
        NEAR=near,
        LISTED=listed,
        num_warps=max(1, min(16, size // (32 * _EACH))),
        maxnreg=_REGISTERS,
    )
    return places


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()


@cache
def _kernel() -> Any:
    import triton
    from triton import language as tl

    @triton.jit(do_not_specialize=("width", "groups", "candidates", "wanted"))  # type: ignore[untyped-decorator]
    def choose(  # type: ignore[no-untyped-def]
        values,
        listed,
        places,
        width,
        groups,
        candidates,
        wanted,
        SIZE: tl.constexpr,
        NEAR: tl.constexpr,
        LISTED: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        candidate = tl.arange(0, SIZE)
        there = candidate < candidates
        # The members of a group lie `groups` apart, so that all threads read neighbours.
        if LISTED:
            of_group = tl.load(listed + row * wanted + candidate // NEAR, mask=there, other=0)
            place = of_group.to(tl.int32) + (candidate % NEAR) * groups
            there = there & (place < width)
            value = tl.load(values + row * width + place, mask=there, other=0.0)
        else:
            place = candidate
            value = tl.load(values + row * width + place, mask=there, other=0.0)
            for each in tl.static_range(1, NEAR):
                member = candidate + each * groups
                value = tl.maximum(
                    value,
                    tl.load(values + row * width + member, mask=there & (member < width), other=float("-inf")),
                    propagate_nan=tl.PropagateNan.ALL,
                )
        # As whole numbers that have the order of the values; what is no candidate comes last.
        bits = value.to(tl.int32, bitcast=True)
        key = (bits ^ tl.where(bits < 0, -1, -2147483648)).to(tl.uint32, bitcast=True)
        key = tl.where(there, key, 0)
        threshold = tl.full((), 0, tl.uint32)
        bit = tl.full((), 0x80000000, tl.uint32)
        for _ in range(32):
            enough = tl.sum((key >= (threshold | bit)).to(tl.int32), 0) >= wanted
            threshold = tl.where(enough, threshold | bit, threshold)
            bit = bit >> 1
        # Of those at the threshold itself, only the first.
        above, equal = key > threshold, (key == threshold) & there
        left = wanted - tl.sum(above.to(tl.int32), 0)
        best = above | (equal & (tl.cumsum(equal.to(tl.int32), 0) <= left))
        rank = tl.cumsum(best.to(tl.int32), 0) - 1
        tl.store(places + row * wanted + rank, place.to(tl.int64), mask=best)

    return choose
