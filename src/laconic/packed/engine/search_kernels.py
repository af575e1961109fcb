"""The kernel from a text's vectors to its best labels: groups of clusters, clusters, labels.

Every level is a run of rows that is scored at once. What the coarse rows find best is scored again in 16 bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.kernels.jit import compiled
from laconic.kernels.selection import ascending, choose
from laconic.packed.engine.row_kernels import Grid, fetch_run, fine_dot, log_sigmoid, quantise, score_run
from laconic.types import NO_LABEL

_AHEAD = 2  # clusters
_LABELS_AHEAD = 8


class Tree(NamedTuple):
    """Labels in cluster order; the first `starts[0]` are always scored."""

    groups: Grid  # of clusters; no row: all clusters are scored
    group_starts: Int[np.ndarray, "groups+1"]
    clusters: Grid
    starts: Int[np.ndarray, "clusters+1"]
    rows: Grid
    fine: Int[np.ndarray, "labels dim"]  # the second byte of the rows' numbers
    order: Int[np.ndarray, "labels"]  # the label of each place


class SearchLimits(NamedTuple):
    """The search width."""

    groups: int  # to probe
    clusters: int
    rescored: int  # labels that are scored again in 16 bits
    capacity: int  # labels that the probed clusters have at most
    product: bool  # a label's probability is multiplied with its cluster's
    scored: int = 0  # clusters that the probed groups may have together; 0: there may be all


class Vectors(NamedTuple):
    """Text vectors for the rows of clusters and for those of labels."""

    for_clusters: Float[np.ndarray, "texts width"]
    for_labels: Float[np.ndarray, "texts dim"]


@compiled
def search(held, for_clusters, for_labels, labels, scores):  # type: ignore[no-untyped-def]
    """Write the best labels of each text, best first, with their probabilities; held are a Tree and SearchLimits."""
    (tree, limits), vectors = held.value, Vectors(for_clusters, for_labels)
    num_clusters = limits.scored if limits.scored else len(tree.starts) - 1
    cluster_scores, cluster_of = np.empty(num_clusters, np.float32), np.empty(num_clusters, np.int32)
    found, places = np.empty(limits.capacity, np.float32), np.empty(limits.capacity, np.int32)
    from_cluster = np.empty(limits.capacity, np.float32)
    width = max(num_clusters, limits.capacity, len(tree.groups.scales))
    scratch, chosen = np.empty(width, np.float32), np.empty(width, np.int32)
    numbers = np.empty(vectors.for_clusters.shape[1], np.int16)
    own_numbers = np.empty(vectors.for_labels.shape[1], np.int16)
    for text in range(len(labels)):
        vector = vectors.for_labels[text]
        scale = quantise(vectors.for_clusters[text], numbers)
        count = near_clusters(tree, limits, numbers, scale, cluster_scores, cluster_of, scratch, chosen)
        probed = choose(cluster_scores, count, limits.clusters, scratch, chosen)
        scale = quantise(vector, own_numbers)
        count = score_run(tree.rows, 0, tree.starts[0], own_numbers, scale, found, 0)
        for i in range(count):
            places[i] = i
            from_cluster[i] = 0
            if limits.product:
                found[i] = log_sigmoid(found[i])
        for i in range(probed):
            cluster = cluster_of[chosen[i]]
            first, last = tree.starts[cluster], tree.starts[cluster + 1]
            if i + _AHEAD < probed:
                ahead = cluster_of[chosen[i + _AHEAD]]
                fetch_run(tree.rows, tree.starts[ahead], tree.starts[ahead + 1])
            end = score_run(tree.rows, first, last, own_numbers, scale, found, count)
            share = log_sigmoid(cluster_scores[chosen[i]]) if limits.product else np.float32(0)
            for j in range(count, end):
                places[j] = first + j - count
                from_cluster[j] = share
                if limits.product:
                    found[j] = log_sigmoid(found[j]) + share
            count = end
        kept = choose(found, count, limits.rescored, scratch, chosen)
        for i in range(kept):
            place = places[chosen[i]]
            total = fine_dot(tree.rows, tree.fine, place, vector) + tree.rows.biases[place]
            scratch[i] = log_sigmoid(total) + from_cluster[chosen[i]] if limits.product else total
        best = ascending(-scratch[:kept])
        for i in range(min(kept, labels.shape[1])):
            labels[text, i] = tree.order[places[chosen[best[i]]]]
            scores[text, i] = np.exp(scratch[best[i]] if limits.product else log_sigmoid(scratch[best[i]]))
        for i in range(kept, labels.shape[1]):
            labels[text, i] = NO_LABEL
            scores[text, i] = 0


@compiled
def near_clusters(tree, limits, numbers, scale, scores, cluster_of, scratch, chosen):  # type: ignore[no-untyped-def]
    """Score the clusters of the best groups, or all if there are no groups; return their number."""
    num_groups = len(tree.groups.scales)
    if num_groups == 0:
        count = score_run(tree.clusters, 0, len(scores), numbers, scale, scores, 0)
        for i in range(count):
            cluster_of[i] = i
        return count
    of_groups = np.empty(num_groups, np.float32)
    score_run(tree.groups, 0, num_groups, numbers, scale, of_groups, 0)
    probed, count = choose(of_groups, num_groups, limits.groups, scratch, chosen), 0
    for i in range(probed):
        first, last = tree.group_starts[chosen[i]], tree.group_starts[chosen[i] + 1]
        end = score_run(tree.clusters, first, last, numbers, scale, scores, count)
        for j in range(count, end):
            cluster_of[j] = first + j - count
        count = end
    return count


@compiled
def score_labels(held, for_clusters, for_labels, labels, scores):  # type: ignore[no-untyped-def]
    """Write the probabilities of labels; 0 for NO_LABEL. Held are a Tree, SearchLimits and the labels' places in it."""
    (tree, limits, places), vectors = held.value, Vectors(for_clusters, for_labels)
    numbers = np.empty(vectors.for_clusters.shape[1], np.int16)
    of_cluster = np.empty(1, np.float32)
    for text in range(len(labels)):
        scale = quantise(vectors.for_clusters[text], numbers)
        for i in range(labels.shape[1]):
            if i + _LABELS_AHEAD < labels.shape[1]:
                ahead = places[max(labels[text, i + _LABELS_AHEAD], 0)]
                fetch_run(tree.rows, ahead, ahead + 1)
            if labels[text, i] == NO_LABEL:
                scores[text, i] = 0
                continue
            place = places[labels[text, i]]
            total = fine_dot(tree.rows, tree.fine, place, vectors.for_labels[text]) + tree.rows.biases[place]
            score = log_sigmoid(total)
            if limits.product and place >= tree.starts[0]:
                cluster = np.searchsorted(tree.starts, place, side="right") - 1
                score_run(tree.clusters, cluster, cluster + 1, numbers, scale, of_cluster, 0)
                score += log_sigmoid(of_cluster[0])
            scores[text, i] = np.exp(score)
