"""Compute, for every text, the largest score within each group of neighbouring labels without storing scores.

Whatever is among the best k of a row is in one of the k groups with the largest maxima, so these find the best labels
with a small part of the memory traffic of all scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from laconic.kernels.triton import HAS_KERNELS
from laconic.kernels.triton.largest import largest_places

_NEIGHBOURS = 32  # maxima that are compared with each other first
_WIDEST = 65_536  # maxima of a row for the kernel, whose loops are written out: of more, it would compile for minutes
_WIDE = 2048  # maxima of a row that are compared all at once
_SMALL, _MIDDLING = 16, 64  # texts


@dataclass(frozen=True, kw_only=True)
class Tile:
    """The tile of a program."""

    texts: int = 128  # of a program
    labels: int = 256
    depth: int = 64  # numbers of a row that are multiplied at a time
    warps: int = 8
    stages: int = 3  # steps that are loaded ahead


def group_maxima(
    vectors: Float[Tensor, "batch dim"], rows: Float[Tensor, "labels dim"], group: int, *, tile: Tile | None = None
) -> Float[Tensor, "batch groups"]:
    """Compute in one pass over the rows. Labels are whole tiles, tiles whole groups, and dim whole depths."""
    (batch, dim), labels = vectors.shape, len(rows)
    tile = tile or _usual_tile(batch)
    assert labels % tile.labels == tile.labels % group == dim % tile.depth == 0
    assert all(part.is_contiguous() for part in (vectors, rows))
    maxima = torch.empty((batch, labels // group), dtype=torch.float32, device=vectors.device)
    text_tiles = -(-batch // tile.texts)
    _kernel()[(text_tiles * (labels // tile.labels),)](
        *(vectors, rows, maxima, batch, text_tiles, labels // group),
        DIM=dim,
        GROUP=group,
        TEXTS=tile.texts,
        LABELS=tile.labels,
        DEPTH=tile.depth,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    return maxima


def best_groups(maxima: Float[Tensor, "batch groups"], count: int) -> Int[Tensor, "batch k"]:
    """Return the groups with the largest maxima, in no order.

    On a GPU by a kernel. Elsewhere, or of very many groups, blocks of neighbours are compared first: a wide row is
    then read once, where torch would read it again for every few bits of the threshold.
    """
    groups = maxima.shape[1]
    if maxima.is_cuda and HAS_KERNELS and groups <= _WIDEST:
        return largest_places(maxima.float().contiguous(), min(count, groups))
    if groups <= _WIDE or groups % _NEIGHBOURS:
        return maxima.topk(min(count, groups), sorted=False).indices
    near = torch.unflatten(maxima, 1, (-1, _NEIGHBOURS))
    outer = best_groups(near.amax(2), count)
    inner = near.gather(1, outer[:, :, None].expand(-1, -1, _NEIGHBOURS)).flatten(1)
    return places_in(outer, inner.topk(min(count, inner.shape[1]), sorted=False).indices, _NEIGHBOURS)


def places_in(groups: Int[Tensor, "batch n"], best: Int[Tensor, "batch k"], size: int) -> Int[Tensor, "batch k"]:
    """Map positions in the concatenation of listed groups to the numbering of all groups' members."""
    return groups.gather(1, best // size) * size + best % size


def _usual_tile(batch: int) -> Tile:
    """Choose a tile: few texts are bound by memory, many by registers."""
    if batch <= _SMALL:
        return Tile(texts=_SMALL, labels=128, warps=4, stages=4)
    return Tile(texts=_MIDDLING, labels=128, warps=4, stages=4) if batch <= _MIDDLING else Tile()


@cache
def _kernel() -> Any:
    import triton
    from triton import language as tl

    @triton.jit(do_not_specialize=("batch", "text_tiles"))  # type: ignore[untyped-decorator] # or few texts compile anew
    def largest(  # type: ignore[no-untyped-def]
        vectors,
        rows,
        maxima,
        batch,
        text_tiles,
        groups,
        DIM: tl.constexpr,
        GROUP: tl.constexpr,
        TEXTS: tl.constexpr,
        LABELS: tl.constexpr,
        DEPTH: tl.constexpr,
    ):
        # Programs that run together have the same labels, so that rows come from memory once.
        label_tile = tl.program_id(0) // text_tiles
        text = (tl.program_id(0) % text_tiles) * TEXTS + tl.arange(0, TEXTS)
        label = label_tile.to(tl.int64) * LABELS + tl.arange(0, LABELS)
        there = text < batch
        column = tl.arange(0, DEPTH)
        x_at = vectors + text[:, None] * DIM + column[None, :]
        w_at = rows + label[None, :] * DIM + column[:, None]
        scores = tl.zeros((TEXTS, LABELS), tl.float32)
        for first in range(0, DIM, DEPTH):
            x = tl.load(x_at + first, mask=there[:, None], other=0.0)
            w = tl.load(w_at + first)
            scores = tl.dot(x, w, scores, input_precision="ieee")
        of_groups = tl.max(tl.reshape(scores, (TEXTS, LABELS // GROUP, GROUP)), 2)
        group = label_tile * (LABELS // GROUP) + tl.arange(0, LABELS // GROUP)
        at = text.to(tl.int64)[:, None] * groups + group[None, :]
        tl.store(maxima + at, of_groups, mask=there[:, None])

    return largest
