"""Loss and gradients of binary cross-entropy over the labels of each text's picked clusters, in one pass.

Rows are stored cluster by cluster, so a pick is a range of rows. Picks are sorted by cluster; a program reads its
cluster's rows once and visits the texts that picked it. Nothing of size batch × candidates × dim is ever held. On a GPU
a program has a cluster (Triton) and writes logit gradients, which with the vectors are the factors of the rows'
gradient; on a CPU a thread has many (numba) and writes that gradient. The reference gathers the rows text by text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from laconic.kernels.triton.factors import ALIGNED_ROWS, ShortlistFactors
from laconic.kernels.triton.groups import listed_by_group
from laconic.kernels.triton.pads import as_wide, with_padding
from laconic.types import NO_LABEL


class Shortlist(NamedTuple):
    """What is scored: the labels starts[c] up to starts[c + 1] for every cluster c that a text picked."""

    picks: Int[Tensor, "batch k"]  # clusters, none twice in a row; one more than the last is none at all
    starts: Int[Tensor, "bounds"]
    size: int  # of the largest cluster


class ShortlistTargets(NamedTuple):
    """Targets of the scores. Every positive's cluster is among its text's picks."""

    positives: Int[Tensor, "batch p"]
    targets: Float[Tensor, "batch p"]  # 0 where there is no label
    text_weights: Float[Tensor, "batch"]  # of each text's every score in the loss


class Gradients(NamedTuple):
    """A loss with its gradients; that of the rows may be left as factors."""

    loss: Float[Tensor, ""]
    vectors: Float[Tensor, "batch dim"]
    weight: Float[Tensor, "labels dim"] | ShortlistFactors
    bias: Float[Tensor, "labels"] | None


def members(picks: Int[Tensor, "batch k"], starts: Int[Tensor, "bounds"], size: int) -> Int[Tensor, "batch n"]:
    """Return the labels of picked clusters, `size` positions for each; smaller clusters end in NO_LABEL."""
    first = starts[picks][:, :, None]
    labels = first + torch.arange(size, device=picks.device)
    last = starts[(picks + 1).clamp(max=len(starts) - 1)][:, :, None]
    return labels.masked_fill(labels >= last, NO_LABEL).flatten(1)


def shortlist_gradients_reference(
    vectors: Float[Tensor, "batch dim"],
    weight: Float[Tensor, "labels dim"],
    bias: Float[Tensor, "labels"] | None,
    shortlist: Shortlist,
    wanted: ShortlistTargets,
) -> Gradients:
    """Compute in torch's own operations, gathering the rows text by text."""
    labels = members(*shortlist)
    there, chosen = labels != NO_LABEL, labels.clamp(min=0)
    rows = weight[chosen.flatten()].view(*labels.shape, -1)
    scores = (rows @ vectors[:, :, None])[:, :, 0]
    if bias is not None:
        scores = scores + bias[chosen]
    targets = torch.zeros_like(scores).scatter_add_(1, _places(shortlist, wanted.positives), wanted.targets)
    losses = (functional.softplus(scores) - targets * scores) * there
    logit_gradients = (scores.sigmoid() - targets) * there * wanted.text_weights[:, None]
    by_rows = (logit_gradients[:, :, None] * vectors[:, None]).flatten(0, 1)
    return Gradients(
        wanted.text_weights @ losses.sum(1),
        (logit_gradients[:, None] @ rows)[:, 0],
        torch.zeros_like(weight).index_add_(0, chosen.flatten(), by_rows),
        None if bias is None else torch.zeros_like(bias).index_add_(0, chosen.flatten(), logit_gradients.flatten()),
    )


def _places(shortlist: Shortlist, positives: Int[Tensor, "batch p"]) -> Int[Tensor, "batch p"]:
    """Return the position of each positive among its text's scores."""
    picks, starts, size = shortlist
    cluster = torch.searchsorted(starts, positives.clamp(min=0), right=True) - 1
    rank = picks.new_zeros(len(picks), len(starts))
    rank.scatter_(1, picks, torch.arange(picks.shape[1], device=picks.device).expand_as(picks))
    return rank.gather(1, cluster) * size + positives.clamp(min=0) - starts[cluster]


class ByCluster(NamedTuple):
    """Picks and positives sorted by cluster; those of cluster c from bound c up to bound c + 1."""

    texts: Int[Tensor, "picks"]
    bounds: Int[Tensor, "bounds"]
    positives: Int[Tensor, "pairs"]
    positive_texts: Int[Tensor, "pairs"]
    targets: Float[Tensor, "pairs"]
    positive_bounds: Int[Tensor, "bounds"]


def by_cluster(shortlist: Shortlist, wanted: ShortlistTargets) -> ByCluster:
    # As small numbers, which take half the time.
    clusters, order = shortlist.picks.flatten().int().sort(stable=True)
    positives, positive_order = wanted.positives.flatten().sort(stable=True)
    every = torch.arange(len(shortlist.starts), dtype=torch.int32, device=clusters.device)
    return ByCluster(
        order // shortlist.picks.shape[1],
        torch.searchsorted(clusters, every),
        positives,
        positive_order // wanted.positives.shape[1],
        wanted.targets.flatten()[positive_order],
        torch.searchsorted(positives, shortlist.starts),
    )


def listed_by_cluster(shortlist: Shortlist, wanted: ShortlistTargets) -> ByCluster:
    """Return the lists of `by_cluster` on a GPU, without a sort: within a cluster they have no order."""
    picks, starts, clusters = shortlist.picks, shortlist.starts, len(shortlist.starts) - 1
    texts, bounds = listed_by_group(picks.flatten(), clusters)
    positives = wanted.positives.flatten()
    of_cluster = torch.searchsorted(starts, positives, right=True) - 1
    pairs, positive_bounds = listed_by_group(torch.where(positives == NO_LABEL, clusters, of_cluster), clusters)
    return ByCluster(
        texts // picks.shape[1],
        bounds,
        positives[pairs],
        pairs // wanted.positives.shape[1],
        wanted.targets.flatten()[pairs],
        positive_bounds,
    )


def shortlist_gradients(
    vectors: Float[Tensor, "batch dim"],
    weight: Float[Tensor, "labels dim"],
    bias: Float[Tensor, "labels"] | None,
    shortlist: Shortlist,
    wanted: ShortlistTargets,
) -> Gradients:
    """Compute in one pass over the rows."""
    numbers, weight, narrow = vectors.shape[1], with_padding(weight), vectors
    vectors = as_wide(vectors, weight)
    starts, clusters, dim = shortlist.starts, len(shortlist.starts) - 1, vectors.shape[1]
    power, lists = 1 << (shortlist.size - 1).bit_length(), listed_by_cluster(shortlist, wanted)
    rows, width = min(_MOST_ROWS, power), min(power, -(-shortlist.size // ALIGNED_ROWS) * ALIGNED_ROWS)
    tiles = -(-shortlist.size // rows)
    losses, by_vectors = vectors.new_empty(clusters, tiles), torch.zeros_like(vectors)
    logit_gradients = vectors.new_empty(len(lists.texts), width)
    by_bias = None if bias is None else torch.empty_like(bias)
    assert all(part.is_contiguous() for part in (vectors, weight, starts, wanted.text_weights))
    _kernels().score_picks[(clusters, tiles)](
        *(vectors, weight, vectors if bias is None else bias, starts),
        *lists,
        wanted.text_weights,
        *(losses, by_vectors, logit_gradients, vectors if by_bias is None else by_bias, width),
        DIM=dim,
        WIDTH=1 << (dim - 1).bit_length(),
        ROWS=rows,
        BIAS=bias is not None,
        num_warps=_WARPS,
        maxnreg=_REGISTERS if weight.dtype == torch.float32 else _BFLOAT16_REGISTERS,
    )
    factors = ShortlistFactors(logit_gradients, lists.texts, lists.bounds, starts, narrow)
    return Gradients(losses.sum(), by_vectors[:, :numbers], factors, by_bias)


_WARPS, _REGISTERS, _BFLOAT16_REGISTERS = 1, 255, 128
_MOST_ROWS = 4  # that a program has


def _kernels() -> Any:
    from laconic.kernels.triton import shortlist_kernels

    return shortlist_kernels
