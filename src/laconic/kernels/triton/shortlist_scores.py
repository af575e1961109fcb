"""Score the labels of each text's picked clusters for prediction, reading rows in place.

A pick is a range of rows, so a program has one and reads it from beginning to end.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from laconic.kernels.triton.pads import as_wide, with_padding
from laconic.kernels.triton.shortlist import Shortlist

_ROWS, _WIDTH = 16, 512  # the most rows, and numbers of each, that a program holds


def shortlist_scores(
    vectors: Float[Tensor, "batch dim"],
    weight: Float[Tensor, "labels dim"],
    bias: Float[Tensor, "labels"] | None,
    shortlist: Shortlist,
) -> Float[Tensor, "batch n"]:
    """Score `size` labels for each pick, -inf where a cluster is smaller. Every pick is a cluster."""
    picks, starts, size = shortlist
    weight = with_padding(weight)
    vectors = as_wide(vectors, weight)
    (batch, count), dim = picks.shape, vectors.shape[1]
    rows = min(_ROWS, _power_of_two(size))
    tiles = -(-size // rows)
    scores = torch.empty((batch, count * size), dtype=torch.float32, device=vectors.device)
    vectors, picks = vectors.contiguous(), picks.contiguous()
    assert all(part.is_contiguous() for part in (weight, starts))
    _kernel()[(batch * count * tiles,)](
        *(vectors, weight, weight if bias is None else bias, picks, starts, scores),
        *(count, tiles, size),
        DIM=dim,
        WIDTH=min(_WIDTH, _power_of_two(dim)),
        ROWS=rows,
        BIAS=bias is not None,
        num_warps=4,
    )
    return scores


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


@cache
def _kernel() -> Any:
    import triton
    from triton import language as tl

    @triton.jit(do_not_specialize=("count", "tiles", "size"))  # type: ignore[untyped-decorator]
    def score(  # type: ignore[no-untyped-def]
        vectors,
        weight,
        bias,
        picks,
        starts,
        scores,
        count,
        tiles,
        size,
        DIM: tl.constexpr,
        WIDTH: tl.constexpr,
        ROWS: tl.constexpr,
        BIAS: tl.constexpr,
    ):
        pick = (tl.program_id(0) // tiles).to(tl.int64)
        place = (tl.program_id(0) % tiles) * ROWS + tl.arange(0, ROWS)
        cluster = tl.load(picks + pick)
        row = tl.load(starts + cluster) + place
        there = row < tl.load(starts + cluster + 1)
        total = tl.zeros((ROWS, WIDTH), tl.float32)
        for first in range(0, DIM, WIDTH):
            column = first + tl.arange(0, WIDTH)
            x = tl.load(vectors + (pick // count) * DIM + column, mask=column < DIM, other=0.0)
            at = row[:, None] * DIM + column[None, :]
            total += tl.load(weight + at, mask=there[:, None] & (column < DIM)[None, :], other=0.0) * x[None, :]
        z = tl.sum(total, 1)
        if BIAS:
            z += tl.load(bias + row, mask=there, other=0.0)
        tl.store(scores + pick * size + place, tl.where(there, z, float("-inf")), mask=place < size)

    return score
