"""Balanced 2-means of dense rows, all nodes of a level together, on the device that holds the rows.

The algorithm, its random draws and its precision are those of bisection.py, so the clusters are the same but for the
rare row whose closeness is rounded to the other side. Nodes of a level differ in size by a row or two: each is a line
of a matrix that is as wide as the largest. Axis words: nodes; starts; width (rows of the largest node).
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from laconic.models.clustering.bisection import GAIN, GRAIN, ROUNDS, pairs_of_each

_NUMBERS = 1 << 25  # that are held at a time in float64


def halved_together(
    rows: Float[Tensor, "labels dim"], labels: Int[np.ndarray, "n"], bounds: Int[np.ndarray, "bounds"], seed: int
) -> Int[np.ndarray, "n"]:
    """Order labels, whose rows have length 1, by cluster; within a cluster they keep their order.

    `bounds` say where each cluster shall begin and the last shall end.
    """
    order, clusters = torch.from_numpy(labels).to(rows.device), len(bounds) - 1
    for level in range(clusters.bit_length() - 1):
        limits = bounds[:: clusters >> (level + 1)]
        pairs = pairs_of_each(np.diff(limits[::2]), np.random.default_rng([seed, level]))
        order = _halve_level(rows, order, limits, pairs)
    return order.cpu().numpy()


def make_unit_rows(rows: Float[Tensor, "rows dim"]) -> Bool[Tensor, "rows"]:
    """Divide every row by its length, in place; return which rows have any."""
    has_length = [torch.zeros(0, dtype=torch.bool, device=rows.device)]
    for part in torch.split(rows, max(1, _NUMBERS // max(1, rows.shape[1]))):
        lengths = part.double().square().sum(1, keepdim=True).sqrt()
        has_length.append(lengths[:, 0] > 0)
        part.copy_(part / torch.where(lengths > 0, lengths, 1))
    return torch.cat(has_length)


def _halve_level(
    rows: Float[Tensor, "labels dim"],
    order: Int[Tensor, "n"],
    limits: Int[np.ndarray, "limits"],
    pairs: Int[np.ndarray, "nodes starts 2"],
) -> Int[Tensor, "n"]:
    """Cut each node, from every second limit to the next such one, at the limit between; return the new order."""
    begins, middles, ends = limits[:-1:2], limits[1::2], limits[2::2]
    is_right = torch.zeros(len(order), dtype=torch.bool, device=order.device)
    cut = np.flatnonzero((begins < middles) & (middles < ends))
    width = int((ends - begins)[cut].max(initial=1))
    at_once = max(1, _NUMBERS // (width * rows.shape[1]))
    for first in range(0, len(cut), at_once):
        nodes = cut[first : first + at_once]
        begin, half, size, starts = (
            torch.from_numpy(part).to(order.device)
            for part in (begins[nodes], (middles - begins)[nodes], (ends - begins)[nodes], pairs[nodes])
        )
        places = begin[:, None] + torch.arange(width, device=order.device)
        is_row = places < (begin + size)[:, None]
        # Beyond a node's end its first row stands in, which is then not counted.
        members = order[torch.where(is_row, places, begin[:, None])]
        in_left = _two_means(rows, members, is_row, half, starts)
        is_right[places[is_row]] = ~in_left[is_row]
    node_of = torch.from_numpy(np.repeat(np.arange(len(begins)), ends - begins)).to(order.device)
    return order[(2 * node_of + is_right).argsort(stable=True)]


def _two_means(
    rows: Float[Tensor, "labels dim"],
    members: Int[Tensor, "nodes width"],
    is_row: Bool[Tensor, "nodes width"],
    half: Int[Tensor, "nodes"],
    pairs: Int[Tensor, "nodes starts 2"],
) -> Bool[Tensor, "nodes width"]:
    """Return which rows of each node belong to its left half, by the best of its starts."""
    firsts = rows[members[:, :, None].expand(-1, -1, 2).gather(1, pairs)].double()
    difference = firsts[:, :, 0] - firsts[:, :, 1]
    in_left = torch.zeros((*pairs.shape[:2], members.shape[1]), dtype=torch.bool, device=rows.device)
    cosines = torch.full(pairs.shape[:2], -1.0, dtype=torch.float64, device=rows.device)
    is_moving = torch.ones_like(cosines, dtype=torch.bool)
    for _ in range(ROUNDS):
        live = is_moving.any(1).nonzero()[:, 0]
        if not len(live):
            break
        found = _nearer(rows, members[live], is_row[live], half[live], difference[live])
        left, right = _sums(rows, members[live], is_row[live], found)
        # Rows of a half add up to a vector whose length is the sum of their cosines to its direction.
        left_length, right_length = (part.norm(dim=2, keepdim=True) for part in (left, right))
        cosine = (left_length + right_length)[:, :, 0] / is_row[live].sum(1, keepdim=True)
        moving, before = is_moving[live], cosines[live]
        in_left[live] = torch.where(moving[:, :, None], found, in_left[live])
        cosines[live] = torch.where(moving, cosine, before)
        difference[live] = _ratio(left, left_length) - _ratio(right, right_length)
        is_moving[live] = moving & (cosine >= before + GAIN)
    chosen = _best_start(cosines)
    return in_left[torch.arange(len(chosen), device=rows.device), chosen]


def _nearer(
    rows: Float[Tensor, "labels dim"],
    members: Int[Tensor, "nodes width"],
    is_row: Bool[Tensor, "nodes width"],
    half: Int[Tensor, "nodes"],
    difference: Float64[Tensor, "nodes starts dim"],
) -> Bool[Tensor, "nodes starts width"]:
    """Mark the half of each node's rows that is closest to the left centre; ties go to the first."""
    directions = difference.transpose(1, 2)
    parts = [rows[part].double() @ directions for part in torch.split(members, _columns(rows, members), 1)]
    closeness = (torch.cat(parts, 1).transpose(1, 2) * GRAIN).round_().masked_fill_(~is_row[:, None], -torch.inf)
    best = closeness.argsort(dim=2, descending=True, stable=True)
    is_left = torch.arange(members.shape[1], device=rows.device) < half[:, None, None]
    return torch.zeros_like(best, dtype=torch.bool).scatter_(2, best, is_left.expand_as(best))


def _sums(
    rows: Float[Tensor, "labels dim"],
    members: Int[Tensor, "nodes width"],
    is_row: Bool[Tensor, "nodes width"],
    in_left: Bool[Tensor, "nodes starts width"],
) -> tuple[Float64[Tensor, "nodes starts dim"], Float64[Tensor, "nodes starts dim"]]:
    """Return the sum of the rows of each half."""
    starts, columns = in_left.shape[1], _columns(rows, members)
    halves = torch.cat([in_left, ~in_left & is_row[:, None]], 1)
    sums = torch.zeros(len(members), 2 * starts, rows.shape[1], dtype=torch.float64, device=rows.device)
    for part, own in zip(torch.split(members, columns, 1), torch.split(halves, columns, 2), strict=True):
        sums.baddbmm_(own.double(), rows[part].double())
    return sums[:, :starts], sums[:, starts:]


def _columns(rows: Float[Tensor, "labels dim"], members: Int[Tensor, "nodes width"]) -> int:
    """Return how many rows of each node are held at a time."""
    return max(1, _NUMBERS // (len(members) * rows.shape[1]))


def _ratio(
    sums: Float64[Tensor, "nodes starts dim"], lengths: Float64[Tensor, "nodes starts 1"]
) -> Float64[Tensor, "nodes starts dim"]:
    return sums / torch.where(lengths > 0, lengths, 1)


def _best_start(cosines: Float64[Tensor, "nodes starts"]) -> Int[Tensor, "nodes"]:
    """Return each node's best start, the first of those that are as good."""
    chosen = torch.zeros(len(cosines), 1, dtype=torch.int64, device=cosines.device)
    for start in range(1, cosines.shape[1]):
        is_better = cosines[:, start : start + 1] > cosines.gather(1, chosen) + GAIN
        chosen = torch.where(is_better, start, chosen)
    return chosen[:, 0]
