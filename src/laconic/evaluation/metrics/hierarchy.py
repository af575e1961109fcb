"""Metrics that count near misses, by a label hierarchy.

A prediction is near if it is true or one step broader or narrower than a true label. Hierarchical precision and recall
(Kiritchenko, Matwin, Nock and Famili, 2006, section 3) compare the predicted labels and the true ones after the broader
labels of both have been added.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from scipy.sparse import csr_array

from laconic.data.hierarchy import ancestors
from laconic.evaluation.metrics.judgement import Judged
from laconic.evaluation.metrics.pairs import holds
from laconic.evaluation.metrics.ratios import Ratio, precision
from laconic.types import NO_LABEL


def near_misses(judged: Judged, broader: csr_array, *, ks: Sequence[int]) -> dict[str, Ratio]:
    """Return near precision, and hierarchical precision, recall and F1, per text. F1 is a mean over texts as well."""
    direct = csr_array(broader, dtype=np.int32)
    texts = np.ones(len(judged.labels))
    near = holds(csr_array(_counts(judged.truth) @ _with_itself(direct + direct.T)), judged.labels).astype(np.float64)
    found = {f"near P@{k}": Ratio(precision(near, k), texts) for k in ks}
    upward = _with_itself(ancestors(direct))
    truth = csr_array(_counts(judged.truth) @ upward)
    for k in ks:
        found |= _hierarchical(csr_array(_predicted(judged, k) @ upward), truth, k)
    return found


def _hierarchical(predicted: csr_array, truth: csr_array, k: int) -> dict[str, Ratio]:
    """Compare the two sets of labels of each text; an empty set has precision, or recall, 0."""
    both = np.diff(csr_array((predicted > 0).multiply(truth > 0)).indptr).astype(np.float64)
    sizes = [np.diff(one.indptr) for one in (predicted, truth)]
    texts = np.ones(len(both))
    found = {
        f"hP@{k}": both / np.maximum(sizes[0], 1),
        f"hR@{k}": both / np.maximum(sizes[1], 1),
        f"hF1@{k}": 2 * both / np.maximum(sizes[0] + sizes[1], 1),
    }
    return {name: Ratio(gained, texts) for name, gained in found.items()}


def _counts(pairs: csr_array) -> csr_array:
    return csr_array((np.ones(pairs.nnz, dtype=np.int32), pairs.indices, pairs.indptr), shape=pairs.shape)


def _with_itself(steps: csr_array) -> csr_array:
    count = steps.shape[0]
    itself = csr_array((np.ones(count, dtype=np.int32), (np.arange(count), np.arange(count))), shape=steps.shape)
    return csr_array(steps + itself)


def _predicted(judged: Judged, k: int) -> csr_array:
    """Return each text's first k labels as a matrix."""
    labels: Int[np.ndarray, "batch k"] = judged.labels[:, :k]
    rows, places = np.nonzero(labels != NO_LABEL)
    ones = np.ones(len(rows), dtype=np.int32)
    return csr_array((ones, (rows, labels[rows, places])), shape=judged.truth.shape)
