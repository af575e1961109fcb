"""Train boosted trees for the order of short lists (LambdaMART).

Every tree is fitted to the gradients of pairs of a true and a wrong label of a text: how far a pair is from its order,
weighted by what exchanging the two would change in nDCG. All is deterministic: there is no random choice.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from laconic.kernels.jit import compiled
from laconic.models.fusion.order import DEPTH, LARGEST, LEAVES, SPLITS, Forest

_TREES = 50
_RATE = np.float32(0.1)  # of what a tree would add
_BINS = 64  # values of a feature that are told apart
_FEWEST = 50  # examples in a leaf
_RIDGE = 1e-3


def fit_forest(
    numbers: Float[np.ndarray, "texts k numbers"],
    true: Bool[np.ndarray, "texts k"],
    there: Bool[np.ndarray, "texts k"],
    start: Float[np.ndarray, "texts k"],
    trees: int = _TREES,
) -> Forest:
    """Return trees whose sums, added to the scores `start`, put true labels before wrong ones; absent ones are ignored.

    The last of the trees' features is `start` itself.
    """
    features = np.concatenate([numbers, start[:, :, None]], axis=2).astype(np.float32)[there]
    edges = _edges(features)
    bins = np.stack([np.searchsorted(edges[i], features[:, i]) for i in range(len(edges))], axis=1).astype(np.uint8)
    place = np.full(there.shape, -1, dtype=np.int64)
    place[there] = np.arange(len(bins))
    scores = np.ascontiguousarray(start[there], dtype=np.float64)
    lengths = np.array([len(one) for one in edges])
    chosen = np.zeros((trees, SPLITS), dtype=np.int32)
    cut = np.zeros((trees, SPLITS), dtype=np.int64)
    values = np.zeros((trees, LEAVES), dtype=np.float32)
    gradients = np.empty((len(bins), 2))
    for tree in range(trees):
        pair_gradients(place, np.ascontiguousarray(true), scores, gradients)
        _grow(bins, gradients, lengths, chosen[tree], cut[tree], values[tree], scores)
    thresholds = np.full((trees, SPLITS), LARGEST, dtype=np.float32)  # no split: all go to the first child
    split = cut >= 0
    if split.any():
        thresholds[split] = [edges[number][at] for number, at in zip(chosen[split], cut[split], strict=True)]
    return Forest(np.where(split, chosen, 0).astype(np.int32), thresholds, values)


def _edges(features: Float[np.ndarray, "examples numbers"]) -> list[Float[np.ndarray, "edges"]]:
    """Return the largest value of each bin but the last, by feature."""
    if not len(features):
        return [np.zeros(0, dtype=np.float32)] * features.shape[1]
    wanted = np.linspace(0, 1, _BINS + 1)[1:-1]
    return [np.unique(np.quantile(column, wanted, method="lower").astype(np.float32)) for column in features.T]


@compiled
def pair_gradients(place, true, scores, gradients):  # type: ignore[no-untyped-def]
    """Write the gradient and the curvature of every example: sums over pairs of a true and a wrong label of a text."""
    gradients[:] = 0
    width = place.shape[1]
    rank = np.empty(width, dtype=np.int64)
    for text in range(len(place)):
        count, positives = 0, 0
        for i in range(width):
            if place[text, i] >= 0:
                rank[i] = 0
                for j in range(width):
                    if place[text, j] >= 0:
                        ahead = scores[place[text, j]] - scores[place[text, i]]
                        rank[i] += ahead > 0 or (ahead == 0 and j < i)
                count += 1
                positives += true[text, i]
        if positives == 0 or positives == count:
            continue
        ideal = 0.0
        for i in range(positives):
            ideal += 1 / np.log2(i + 2)
        for i in range(width):
            if place[text, i] < 0 or not true[text, i]:
                continue
            for j in range(width):
                if place[text, j] < 0 or true[text, j]:
                    continue
                first, second = place[text, i], place[text, j]
                change = abs(1 / np.log2(rank[i] + 2) - 1 / np.log2(rank[j] + 2)) / ideal
                wrong = 1 / (1 + np.exp(scores[first] - scores[second]))
                gradients[first, 0] -= change * wrong
                gradients[second, 0] += change * wrong
                gradients[first, 1] += change * wrong * (1 - wrong)
                gradients[second, 1] += change * wrong * (1 - wrong)


@compiled
def _grow(bins, gradients, lengths, chosen, cut, values, scores):  # type: ignore[no-untyped-def]
    """Grow one tree level by level, and add what it says to the scores."""
    node = np.zeros(len(bins), dtype=np.int64)
    cut[:] = -1
    for level in range(DEPTH):
        first, nodes = 2**level - 1, 2**level
        sums = np.zeros((nodes, bins.shape[1], _BINS, 3))
        for example in range(len(bins)):
            at = sums[node[example] - first]
            for number in range(bins.shape[1]):
                one = at[number, bins[example, number]]
                one[0] += gradients[example, 0]
                one[1] += gradients[example, 1]
                one[2] += 1
        for i in range(nodes):
            chosen[first + i], cut[first + i] = _best_split(sums[i], lengths)
        for example in range(len(bins)):
            split = node[example]
            beyond = cut[split] >= 0 and bins[example, chosen[split]] > cut[split]
            node[example] = 2 * split + (2 if beyond else 1)
    totals = np.zeros((LEAVES, 2))
    for example in range(len(bins)):
        totals[node[example] - SPLITS] += gradients[example]
    for leaf in range(LEAVES):
        values[leaf] = np.float32(-_RATE * totals[leaf, 0] / (totals[leaf, 1] + _RIDGE))
    for example in range(len(bins)):
        scores[example] += values[node[example] - SPLITS]


@compiled
def _best_split(sums, lengths):  # type: ignore[no-untyped-def]
    """Return the feature, and the last bin of the first child, that lower the loss most; -1 where none does."""
    best, number_of_best, cut = 0.0, 0, -1
    for number in range(len(sums)):
        gradient, curvature, count = 0.0, 0.0, 0.0
        for i in range(_BINS):
            gradient += sums[number, i, 0]
            curvature += sums[number, i, 1]
            count += sums[number, i, 2]
        whole = gradient * gradient / (curvature + _RIDGE)
        left, left_curvature, left_count = 0.0, 0.0, 0.0
        for i in range(lengths[number]):
            left += sums[number, i, 0]
            left_curvature += sums[number, i, 1]
            left_count += sums[number, i, 2]
            if left_count < _FEWEST or count - left_count < _FEWEST:
                continue
            gain = left * left / (left_curvature + _RIDGE) - whole
            gain += (gradient - left) * (gradient - left) / (curvature - left_curvature + _RIDGE)
            if gain > best + 1e-9:
                best, number_of_best, cut = gain, number, i
    return number_of_best, cut
