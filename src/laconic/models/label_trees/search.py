"""Find a text's best labels by beam search in label trees.

The loss of a path is the sum of max(0, 1 - score)² over its children; exp(-loss) is the probability of its end.
A label's score is its mean probability over all trees, also those in which the beam did not reach it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.kernels.csr import TRACE, find, take_best
from laconic.kernels.exponential import exp_below_zero
from laconic.kernels.jit import compiled
from laconic.kernels.prefetch import prefetch

COMPLETED = 64  # labels, at least, whose probabilities are computed in every tree
DEEPEST = 64  # levels of a tree at most
BLOCK_BITS = 4  # a block is of so many rows as this many bits can tell apart
BANK_BITS = 16  # and a bank of so many nodes
_UNKNOWN = np.float32(-1)


class Workspace(NamedTuple):
    """Scratch arrays of one thread, restored after every text."""

    reached: Float[np.ndarray, "nodes"]  # the loss of the path to each node; -1: unknown
    nodes: Int[np.ndarray, "nodes"]  # nodes of known loss
    opened: Int[np.ndarray, "nodes"]  # nodes whose children have known losses
    totals: Float[np.ndarray, "labels"]
    touched: Int[np.ndarray, "labels"]
    losses: Float[np.ndarray, "children"]  # of the path to each child; -1: unknown
    found: Float[np.ndarray, "children"]  # scores of a node's children


class Reached(NamedTuple):
    """How many of the workspace's nodes and labels a text has reached."""

    nodes: int
    opened: int
    labels: int


@compiled
def make_workspace(num_nodes, num_labels, num_children, most_children):  # type: ignore[no-untyped-def]
    return Workspace(
        np.full(num_nodes, _UNKNOWN),
        np.empty(num_nodes, dtype=np.int32),
        np.empty(num_nodes, dtype=np.int32),
        np.zeros(num_labels, dtype=np.float32),
        np.empty(num_labels + 1, dtype=np.int32),
        np.full(num_children, _UNKNOWN),
        np.empty(most_children, dtype=np.float32),
    )


@compiled
def rank_texts(trees, queries, beam, span, workspace, into):  # type: ignore[no-untyped-def]
    """Write the best labels of a span of texts; a beam that finds too few is doubled."""
    (forest, paths), (labels, scores) = trees, into
    wanted = min(labels.shape[1], len(workspace.totals))
    size = min(max(COMPLETED, wanted), len(workspace.totals))
    best, totals = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.float32)
    for text in range(span[0], span[1]):
        width = beam
        reached = _walk(forest, queries, text, width, workspace)
        while reached.labels < wanted:
            _forget(forest, workspace, reached)
            width *= 2
            reached = _walk(forest, queries, text, width, workspace)
        kept = take_best(workspace.totals, workspace.touched, reached.labels, best, totals)
        for i in range(kept):
            workspace.totals[best[i]] = _probability(forest, paths, queries, text, best[i], workspace)
        take_best(workspace.totals, best, kept, labels[text], scores[text])
        _forget(forest, workspace, reached)


@compiled
def score_texts(trees, queries, span, workspace, into):  # type: ignore[no-untyped-def]
    """Write the scores of given labels for a span of texts; NO_LABEL has 0."""
    (forest, paths), (labels, scores) = trees, into
    for text in range(span[0], span[1]):
        reached = _open_roots(forest, queries, text, workspace)
        for i in range(labels.shape[1]):
            if labels[text, i] >= 0:
                scores[text, i] = _probability(forest, paths, queries, text, labels[text, i], workspace)
        _forget(forest, workspace, reached)


@compiled
def _open_roots(forest, queries, text, workspace):  # type: ignore[no-untyped-def]
    """Compute the losses of all nodes below the roots, which most labels' paths share."""
    known, found, rows = 0, workspace.found, _empty_rows(queries, text)
    for root in forest.roots:
        workspace.reached[root], workspace.nodes[known] = 0, root
        known += 1
        for place in range(score_children(forest, queries, text, root, rows, found)):
            target = forest.targets[forest.child_starts[root] + place]
            if target >= 0:
                workspace.reached[target], workspace.nodes[known] = _loss(found[place]), target
                known += 1
    return Reached(known, 0, 0)


@compiled
def _walk(forest, queries, text, beam, workspace):  # type: ignore[no-untyped-def]
    """Search every tree with the beam."""
    known, visited, count, rows = 0, 0, 0, _empty_rows(queries, text)
    open_nodes, next_nodes = np.empty(beam, dtype=np.int32), np.empty(beam, dtype=np.int32)
    open_losses, next_losses = np.empty(beam, dtype=np.float32), np.empty(beam, dtype=np.float32)
    targets, (reached, nodes, every, totals, touched, losses, found) = forest.targets, workspace
    for tree in range(len(forest.roots)):
        open_nodes[0], open_losses[0], opened = forest.roots[tree], 0, 1
        reached[open_nodes[0]] = 0
        nodes[known] = open_nodes[0]
        known += 1
        while opened:
            kept = 0
            for i in range(opened):
                every[visited] = open_nodes[i]
                visited += 1
                begin = forest.child_starts[open_nodes[i]]
                size = score_children(forest, queries, text, open_nodes[i], rows, found)
                _losses_and_chances(found[:size], open_losses[i], losses[begin : begin + size])
                for place in range(size):
                    target = targets[begin + place]
                    if target < 0:
                        label = -1 - target
                        touched[count] = label  # without a branch: what is written in vain is written over next
                        count += totals[label] == 0
                        totals[label] += found[place] + TRACE
                        continue
                    loss = losses[begin + place]
                    reached[target] = loss
                    nodes[known] = target
                    known += 1
                    if kept < beam or loss <= next_losses[beam - 1]:
                        kept = _insert(next_nodes, next_losses, kept, target, loss)
            open_nodes, next_nodes, open_losses, next_losses = next_nodes, open_nodes, next_losses, open_losses
            opened = kept
    return Reached(known, visited, count)


@compiled
def _losses_and_chances(scores, above, losses):  # type: ignore[no-untyped-def]
    """Write the losses of the paths to children, and their probabilities in the place of the children's scores."""
    for i in range(len(scores)):
        losses[i] = above + _loss(scores[i])
    for i in range(len(scores)):
        scores[i] = exp_below_zero(-losses[i])


@compiled
def _forget(forest, workspace, reached):  # type: ignore[no-untyped-def]
    for i in range(reached.nodes):
        workspace.reached[workspace.nodes[i]] = _UNKNOWN
    for i in range(reached.opened):
        node = workspace.opened[i]
        workspace.losses[forest.child_starts[node] : forest.child_starts[node + 1]] = _UNKNOWN
    for i in range(reached.labels):
        workspace.totals[workspace.touched[i]] = 0


@compiled
def _empty_rows(queries, text):  # type: ignore[no-untyped-def]
    """Return scratch for a row of weights of every feature of a text."""
    return np.empty(queries.starts[text + 1] - queries.starts[text], dtype=np.int64)


@compiled
def row_start(forest, row):  # type: ignore[no-untyped-def]
    """Return where the weights of a row begin."""
    return np.int64(forest.blocks[row >> BLOCK_BITS]) + np.int64(forest.weights.starts[row])


@compiled
def num_banks(width, num_nodes):  # type: ignore[no-untyped-def]
    """Return how many banks the nodes of a feature are split into, where the number of a node takes `width` bytes.

    Numbers of four bytes need one bank; numbers of two begin anew with every bank.
    """
    return 1 if width > 2 else max(1, ((num_nodes - 1) >> BANK_BITS) + 1)


@compiled
def _banked(forest, node):  # type: ignore[no-untyped-def]
    """Return the number of banks, and for a node its bank and its number there."""
    banks = num_banks(forest.nodes.itemsize, len(forest.child_starts) - 1)
    bank = np.int64(node) >> BANK_BITS if banks > 1 else np.int64(0)
    return banks, bank, np.int64(node) - (bank << BANK_BITS)


@compiled
def score_children(forest, queries, text, node, rows, scores):  # type: ignore[no-untyped-def]
    """Write the scores of a node's children and return their number. `rows` is scratch for the text's features.

    All rows of weights are found first, and fetched together.
    """
    begin, end, first = forest.child_starts[node], forest.child_starts[node + 1], queries.starts[text]
    nodes, feature_starts, (starts, steps, values) = forest.nodes, forest.feature_starts, forest.weights
    banks, bank, number = _banked(forest, node)
    for i in range(len(rows)):
        group, rows[i] = queries.numbers[first + i] * banks + bank, -1
        if group < len(feature_starts) - 1:
            rows[i] = find(nodes, feature_starts[group], feature_starts[group + 1], number)
            if rows[i] >= 0:
                prefetch(starts, rows[i] * starts.itemsize)
                prefetch(forest.blocks, (rows[i] >> BLOCK_BITS) * forest.blocks.itemsize)
    for i in range(len(rows)):
        if rows[i] >= 0:
            start = row_start(forest, rows[i])
            prefetch(steps, start)
            prefetch(values, start)
    scores[: end - begin] = 0
    for i in range(len(rows)):
        if rows[i] >= 0:
            value, place = queries.values[first + i], np.int64(0)
            for j in range(row_start(forest, rows[i]), row_start(forest, rows[i] + 1)):
                place += steps[j]
                scores[place] += value * np.float32(values[j])
    for child in range(begin, end):
        scores[child - begin] = forest.biases[child] + forest.scales[child] * scores[child - begin]
    return end - begin


@compiled
def _probability(forest, paths, queries, text, label, workspace):  # type: ignore[no-untyped-def]
    """Return the mean probability of a label."""
    total = np.float32(0)
    for tree in range(len(forest.roots)):
        child = paths.child_of[tree, label]
        loss = workspace.losses[child]
        if loss < 0:
            loss = _loss_to(forest, paths, queries, text, child, workspace.reached)
        total += np.exp(-loss)
    return total / np.float32(len(forest.roots))


@compiled
def _loss_to(forest, paths, queries, text, child, reached):  # type: ignore[no-untyped-def]
    """Return the loss of the path to a child, continued from its last node of known loss."""
    way, steps = np.empty(DEEPEST, dtype=np.int32), 1
    way[0], node = child, paths.node_of[child]
    while reached[node] < 0:
        way[steps] = paths.child_to[node]
        node = paths.node_of[way[steps]]
        steps += 1
    loss = reached[node]
    for step in range(steps - 1, -1, -1):
        loss += _loss(_score_child(forest, queries, text, paths.node_of[way[step]], way[step]))
    return loss


@compiled
def _score_child(forest, queries, text, node, child):  # type: ignore[no-untyped-def]
    """Score one child exactly as score_children does, in the same order of addition."""
    total, wanted = np.float32(0), child - forest.child_starts[node]
    nodes, feature_starts, (_, steps, values) = forest.nodes, forest.feature_starts, forest.weights
    banks, bank, number = _banked(forest, node)
    for i in range(queries.starts[text], queries.starts[text + 1]):
        group = queries.numbers[i] * banks + bank
        if group < len(feature_starts) - 1:
            row = find(nodes, feature_starts[group], feature_starts[group + 1], number)
            if row >= 0:
                place = np.int64(0)
                for j in range(row_start(forest, row), row_start(forest, row + 1)):
                    place += steps[j]
                    if place >= wanted:
                        if place == wanted:
                            total += queries.values[i] * np.float32(values[j])
                        break
    return forest.biases[child] + forest.scales[child] * total


@compiled
def _loss(score):  # type: ignore[no-untyped-def]
    short = max(np.float32(0), np.float32(1) - score)
    return short * short


@compiled
def _insert(nodes, losses, kept, node, loss):  # type: ignore[no-untyped-def]
    """Insert a node into the list sorted by loss, then number; return the list's new length."""
    place = kept
    while place > 0 and (loss < losses[place - 1] or (loss == losses[place - 1] and node < nodes[place - 1])):
        place -= 1
    if place == len(nodes):
        return kept
    last = min(kept, len(nodes) - 1)
    for i in range(last, place, -1):
        nodes[i], losses[i] = nodes[i - 1], losses[i - 1]
    nodes[place], losses[place] = node, loss
    return last + 1
