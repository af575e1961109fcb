"""The kernel from a text's vectors to its best labels: groups of clusters, clusters, labels.

Every level is a run of rows that is scored at once, by four bits a number (nibble_kernels.py). The labels that are best
by these are scored again by all bits, and so are their clusters where these count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.kernels.jit import compiled
from laconic.kernels.prefetch import prefetch
from laconic.kernels.selection import ascending, choose
from laconic.packed.engine.nibble_kernels import (
    NibbleGrid,
    both_dot,
    fetch_row,
    fetch_upper,
    fetch_upper_row,
    in_bytes,
    padded,
    score_nibbles,
    score_rows,
)
from laconic.packed.engine.row_kernels import log_sigmoid
from laconic.types import NO_LABEL

_GROUPS_AHEAD = 4  # of clusters
_AHEAD = 2  # clusters
_ROWS_AHEAD = 8  # that are scored again


class Tree(NamedTuple):
    """Labels in cluster order; the first `starts[0]` are always scored."""

    groups: NibbleGrid  # of clusters; no row: all clusters are scored
    group_starts: Int[np.ndarray, "groups+1"]
    clusters: NibbleGrid
    starts: Int[np.ndarray, "clusters+1"]
    rows: NibbleGrid
    order: Int[np.ndarray, "labels"]  # the label of each place


class SearchLimits(NamedTuple):
    """The search width."""

    groups: int  # to probe
    clusters: int
    rescored: int  # labels that are scored again by all bits
    capacity: int  # labels that the probed clusters have at most
    product: bool  # a label's probability is multiplied with its cluster's
    scored: int = 0  # clusters that the probed groups may have together; 0: there may be all
    spare: int = 0  # clusters before and behind the last that are scored again, for four bits may err about them


class Picked(NamedTuple):
    """Clusters that are probed, and their scores."""

    clusters: Int[np.ndarray, "n"]
    scores: Float[np.ndarray, "n"]


class Vectors(NamedTuple):
    """Text vectors for the rows of clusters and for those of labels."""

    for_clusters: Float[np.ndarray, "texts width"]
    for_labels: Float[np.ndarray, "texts dim"]


class _Scratch(NamedTuple):
    """Scratch of a search, and what it has found."""

    cluster_scores: Float[np.ndarray, "clusters"]
    found: Float[np.ndarray, "n"]  # scores of labels
    begins: Int[np.ndarray, "probed"]  # where those of probed clusters begin
    places: Int[np.ndarray, "wanted"]  # of the labels that are best by their upper bits
    owners: Int[np.ndarray, "wanted"]  # their clusters; -1: the label is always scored
    scores: Float[np.ndarray, "most"]
    chosen: Int[np.ndarray, "most"]
    numbers: Int[np.ndarray, "width"]  # the text's vectors in bytes, for clusters
    own_numbers: Int[np.ndarray, "dim"]  # and for labels


@compiled
def search(held, for_clusters, for_labels, labels, scores):  # type: ignore[no-untyped-def]
    """Write the best labels of each text, best first, with their probabilities; held are a Tree and SearchLimits."""
    (tree, limits), vectors = held.value, Vectors(for_clusters, for_labels)
    picked, scratch = _empty_picked(limits), _empty_scratch(tree, limits, limits.rescored)
    for text in range(len(labels)):
        near = padded(vectors.for_clusters[text], tree.clusters.upper.shape[1])
        vector = padded(vectors.for_labels[text], tree.rows.upper.shape[1])
        kept = _find(tree, limits, near, vector, picked, scratch)
        for i in range(kept):
            fetch_row(tree.rows, scratch.places[i])
        for i in range(kept):
            scratch.scores[i] = whole_score(tree, limits, scratch.places[i], scratch.owners[i], near, vector)
        best = choose(scratch.scores, kept, labels.shape[1], scratch.found, scratch.chosen)
        order = ascending(-scratch.scores[scratch.chosen[:best]])
        for i in range(best):
            place = scratch.chosen[order[i]]
            score = scratch.scores[place]
            labels[text, i] = tree.order[scratch.places[place]]
            scores[text, i] = np.exp(score if limits.product else log_sigmoid(score))
        for i in range(best, labels.shape[1]):
            labels[text, i] = NO_LABEL
            scores[text, i] = 0


@compiled
def propose(held, for_clusters, for_labels, labels):  # type: ignore[no-untyped-def]
    """Write labels of each text that are best by their upper bits, in no order; held are a Tree and SearchLimits."""
    (tree, limits), vectors = held.value, Vectors(for_clusters, for_labels)
    picked, scratch = _empty_picked(limits), _empty_scratch(tree, limits, labels.shape[1])
    for text in range(len(labels)):
        near = padded(vectors.for_clusters[text], tree.clusters.upper.shape[1])
        vector = padded(vectors.for_labels[text], tree.rows.upper.shape[1])
        kept = _find(tree, limits, near, vector, picked, scratch)
        for i in range(kept):
            labels[text, i] = tree.order[scratch.places[i]]
        for i in range(kept, labels.shape[1]):
            labels[text, i] = NO_LABEL


@compiled
def _empty_scratch(tree, limits, wanted):  # type: ignore[no-untyped-def]
    clusters = limits.scored if limits.scored else len(tree.starts) - 1
    wanted, most = min(wanted, limits.capacity), max(clusters, limits.capacity, len(tree.groups.scales))
    return _Scratch(
        np.empty(clusters, np.float32),
        np.empty(limits.capacity, np.float32),
        np.empty(limits.clusters + limits.spare, np.int32),
        np.empty(wanted, np.int32),
        np.empty(wanted, np.int32),
        np.empty(most, np.float32),
        np.empty(most, np.int32),
        np.empty(2 * tree.clusters.upper.shape[1], np.int8),
        np.empty(2 * tree.rows.upper.shape[1], np.int8),
    )


@compiled
def _find(tree, limits, near, vector, picked, scratch):  # type: ignore[no-untyped-def]
    """Find the places of the labels that are best by their upper bits, and their clusters; return their number."""
    chosen, found = scratch.chosen, scratch.found
    scale, lacking = in_bytes(near, scratch.numbers)
    probed = _near_clusters(tree, limits, lacking, scale, picked, scratch)
    if limits.spare:
        probed = _choose_surely(tree, limits, near, picked, probed, scratch.scores, chosen)
    scale, lacking = in_bytes(vector, scratch.own_numbers)
    count = score_nibbles(tree.rows, 0, tree.starts[0], scratch.own_numbers, lacking, scale, found, 0)
    if limits.product:
        for i in range(count):
            found[i] = log_sigmoid(found[i])
    for i in range(probed):
        cluster = picked.clusters[i]
        first, last = tree.starts[cluster], tree.starts[cluster + 1]
        if i + _AHEAD < probed:
            ahead = picked.clusters[i + _AHEAD]
            fetch_upper(tree.rows, tree.starts[ahead], tree.starts[ahead + 1])
        end = score_nibbles(tree.rows, first, last, scratch.own_numbers, lacking, scale, found, count)
        if limits.product:
            of_cluster = log_sigmoid(picked.scores[i])
            for j in range(count, end):
                found[j] = log_sigmoid(found[j]) + of_cluster
        scratch.begins[i], count = count, end
    kept, owner = choose(found, count, len(scratch.places), scratch.scores, chosen), -1
    for i in range(kept):  # in order, as clusters are; before the first are labels that are always scored
        while owner + 1 < probed and scratch.begins[owner + 1] <= chosen[i]:
            owner += 1
        scratch.owners[i] = -1 if owner < 0 else picked.clusters[owner]
        begin, first = (0, 0) if owner < 0 else (scratch.begins[owner], tree.starts[scratch.owners[i]])
        scratch.places[i] = first + chosen[i] - begin
    return kept


@compiled
def _empty_picked(limits):  # type: ignore[no-untyped-def]
    most = limits.clusters + limits.spare
    return Picked(np.empty(most, np.int32), np.empty(most, np.float32))


@compiled
def _near_clusters(tree, limits, lacking, scale, picked, scratch):  # type: ignore[no-untyped-def]
    """Pick the best clusters of the best groups, or of all if there are no groups; return their number."""
    num_groups, most = len(tree.groups.scales), limits.clusters + limits.spare
    numbers, scores, chosen = scratch.numbers, scratch.cluster_scores, scratch.chosen
    if num_groups == 0:
        count = score_nibbles(tree.clusters, 0, len(scores), numbers, lacking, scale, scores, 0)
        probed = choose(scores, count, most, scratch.scores, chosen)
        for i in range(probed):
            picked.clusters[i], picked.scores[i] = chosen[i], scores[chosen[i]]
        return probed
    of_groups = np.empty(num_groups, np.float32)
    score_nibbles(tree.groups, 0, num_groups, numbers, lacking, scale, of_groups, 0)
    opened, count = choose(of_groups, num_groups, limits.groups, scratch.scores, chosen), 0
    begins, firsts = np.empty(opened, np.int32), np.empty(opened, np.int32)
    for i in range(opened):
        first, last = tree.group_starts[chosen[i]], tree.group_starts[chosen[i] + 1]
        if i + _GROUPS_AHEAD < opened:
            ahead = chosen[i + _GROUPS_AHEAD]
            fetch_upper(tree.clusters, tree.group_starts[ahead], tree.group_starts[ahead + 1])
        begins[i], firsts[i] = count, first
        count = score_nibbles(tree.clusters, first, last, numbers, lacking, scale, scores, count)
    probed, group = choose(scores, count, most, scratch.scores, chosen), 0
    for i in range(probed):  # in order, as groups are
        while group + 1 < opened and begins[group + 1] <= chosen[i]:
            group += 1
        picked.clusters[i] = firsts[group] + chosen[i] - begins[group]
        picked.scores[i] = scores[chosen[i]]
    return probed


@compiled
def _choose_surely(tree, limits, near, picked, count, scratch, chosen):  # type: ignore[no-untyped-def]
    """Keep as many of the picked clusters as are wanted; those near the last are scored again. Return their number."""
    clusters, scores = picked
    sure = choose(scores, count, max(0, limits.clusters - limits.spare), scratch, chosen)
    others, again, passed = np.empty(count - sure, np.int32), np.empty(count - sure, np.float32), 0
    for i in range(count):
        if passed < sure and chosen[passed] == i:
            clusters[passed], scores[passed] = clusters[i], scores[i]
            passed += 1
        else:
            others[i - passed] = clusters[i]
    for i in range(len(others)):
        if i + _ROWS_AHEAD < len(others):
            fetch_row(tree.clusters, others[i + _ROWS_AHEAD])
        again[i] = both_dot(tree.clusters, others[i], near) + tree.clusters.biases[others[i]]
    added = choose(again, len(others), limits.clusters - sure, scratch, chosen)
    for i in range(added):
        clusters[sure + i], scores[sure + i] = others[chosen[i]], again[chosen[i]]
    return sure + added


@compiled
def whole_score(tree, limits, place, cluster, near, vector):  # type: ignore[no-untyped-def]
    """Return a label's score by all bits or, for products, the logarithm of its probability and its cluster's.

    No cluster is below zero: there the label is always scored.
    """
    total = both_dot(tree.rows, place, vector) + tree.rows.biases[place]
    if not limits.product:
        return total
    of_cluster = np.float32(0)
    if cluster >= 0:
        of_cluster = log_sigmoid(both_dot(tree.clusters, cluster, near) + tree.clusters.biases[cluster])
    return log_sigmoid(total) + of_cluster


@compiled
def score_labels(held, for_clusters, for_labels, labels, scores):  # type: ignore[no-untyped-def]
    """Write the probabilities of labels; 0 for NO_LABEL. Held are a Tree, SearchLimits and the labels' places in it."""
    (tree, limits, places), vectors = held.value, Vectors(for_clusters, for_labels)
    count = labels.shape[1]
    own = np.empty(count, np.int64)
    for text in range(len(labels)):
        near = padded(vectors.for_clusters[text], tree.clusters.upper.shape[1])
        vector = padded(vectors.for_labels[text], tree.rows.upper.shape[1])
        for i in range(count):
            prefetch(places, max(labels[text, i], 0) * places.itemsize)
        for i in range(count):
            own[i] = places[max(labels[text, i], 0)]
        for i in range(count):
            if i + _ROWS_AHEAD < count:
                fetch_row(tree.rows, own[i + _ROWS_AHEAD])
            if labels[text, i] == NO_LABEL:
                scores[text, i] = 0
                continue
            cluster = -1
            if limits.product and own[i] >= tree.starts[0]:
                cluster = np.searchsorted(tree.starts, own[i], side="right") - 1
            score = whole_score(tree, limits, own[i], cluster, near, vector)
            scores[text, i] = np.exp(score if limits.product else log_sigmoid(score))


@compiled
def score_candidates(held, for_labels, labels, proposed, wanted, scores):  # type: ignore[no-untyped-def]
    """Write the probabilities of a text's labels, each of which it has once; rows end in NO_LABEL, which have 0.

    The best `wanted` of its first `proposed` labels by their upper bits are scored by all bits, and so are all labels
    that follow. Held are a Tree, SearchLimits and the labels' places.
    """
    tree, _, places = held.value
    width = labels.shape[1]
    own, chosen = np.empty(width, np.int64), np.empty(width, np.int32)
    scratch, numbers = np.empty(width, np.float32), np.empty(2 * tree.rows.upper.shape[1], np.int8)
    for text in range(len(labels)):
        vector, count = padded(for_labels[text], tree.rows.upper.shape[1]), 0
        scale, lacking = in_bytes(vector, numbers)
        while count < width and labels[text, count] != NO_LABEL:
            prefetch(places, labels[text, count] * places.itemsize)
            count += 1
        for i in range(count):
            own[i] = places[labels[text, i]]
        for i in range(count):
            fetch_upper_row(tree.rows, own[i])
        found = scores[text]
        score_rows(tree.rows, own, count, numbers, lacking, scale, found)
        first = min(count, proposed[text])
        again = choose(found, first, wanted, scratch, chosen)
        for i in range(first, count):
            chosen[again] = i
            again += 1
        for i in range(again):
            fetch_row(tree.rows, own[chosen[i]])
        for i in range(again):
            row = own[chosen[i]]
            found[chosen[i]] = both_dot(tree.rows, row, vector) + tree.rows.biases[row]
        for i in range(count):
            found[i] = np.exp(log_sigmoid(found[i]))
        found[count:] = 0
