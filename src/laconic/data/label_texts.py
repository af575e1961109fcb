"""Labels' own texts as training texts, with soft targets for labels that often occur together (Gandalf; Renee).

The target of such a label is the fraction of the label's texts that have it too. Only training sees them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array, vstack

from laconic.config import Bounds, check_within
from laconic.data.dataset import Dataset
from laconic.errors import DataError
from laconic.kernels.co_occurrence import CoOccurring, Occurrences, count_co_occurring
from laconic.system.machine import usable_cores
from laconic.types import FIRST_WORD

_TEXTS_A_LABEL = (
    1000  # that are counted, evenly spaced among all it has: a fraction is then known to 0.03, two deviations
)
_PARTS_OF_CORE = 4  # into which labels are cut


@dataclass(frozen=True, kw_only=True)
class ExtraTexts:
    """Settings of the added texts."""

    bounds: ClassVar[Bounds] = {"share": (0, 0.9), "threshold": (0.001, 1), "most": (0, 1000), "weight": (0.001, 1000)}

    share: float = 0.0
    """Fraction of every batch that is label texts, at least one text. 0: each label text occurs once per epoch."""
    threshold: float = 0.1
    """Least fraction of a label's texts that must have another label too for that label to become a target. Symbol: δ
    (Gandalf).
    """
    most: int = 10
    """Most other labels that are targets of one label's text; the most frequent are kept."""
    weight: float = 1.0
    """Weight of a label text in the loss, where a training text has weight 1."""

    def __post_init__(self) -> None:
        check_within(self, self.bounds, "extra_texts.")


def with_label_texts(config: ExtraTexts, data: Dataset) -> Dataset:
    """Add a text for every label that has a known word; its own label has target 1.

    Pairs that are left out stay so, and none are of the new texts.
    """
    if data.label_inputs is None:
        raise DataError("extra_texts wants labels with texts, but this data has none; train without extra_texts")
    named = np.flatnonzero(with_known_words(data.label_inputs))
    if not len(named):
        raise DataError("extra_texts wants labels with texts, but no label's text has a known word")
    labels = _targets(named, going_together(data, named, config))
    # Where labels have weights, the largest is what is wholly true.
    labels.data *= max(float(data.labels.data.max(initial=1)), 1)
    none = csr_array((len(named), data.num_labels), dtype=np.float32)
    return replace(
        data,
        inputs=vstack([data.inputs, data.label_inputs[named]], format="csr"),
        labels=vstack([data.labels, labels], format="csr"),
        leave_out=None if data.leave_out is None else vstack([data.leave_out, none], format="csr"),
        weights=_weights(data, len(named), config.weight),
        groups=None,  # nothing is held out of them any more
        extra=np.arange(len(data) + len(named)) >= len(data),
        extra_share=config.share,
    )


def going_together(data: Dataset, labels: Int[np.ndarray, "n"], config: ExtraTexts) -> csr_array:
    """Return for each of these labels the others and the fraction of its texts that have them, as the config bounds it.

    Labels × labels is never held, and the work has a bound: of a frequent label some texts are counted.
    """
    pairs = csr_array(data.labels, dtype=np.float64, copy=True)
    pairs.data = (pairs.data != 0).astype(np.float64)
    pairs.eliminate_zeros()
    texts_of = _evenly(csr_array(pairs.T)[labels])
    if data.weights is not None:
        texts_of.data *= data.weights[texts_of.indices]
    texts, pairs = (Occurrences(one.indptr.astype(np.int64), one.indices, one.data) for one in (texts_of, pairs))
    totals, own, work = texts_of.sum(axis=1), labels.astype(np.int64), _work(texts, pairs)
    found = _places(np.minimum(np.diff(work), config.most))
    bounds = _parts(work)

    def count(part: int) -> None:
        rows = bounds[part], bounds[part + 1]
        count_co_occurring(texts, pairs, own, totals, config.threshold, data.num_labels, *rows, found)

    with ThreadPoolExecutor(usable_cores()) as pool:
        for done in [pool.submit(count, part) for part in range(len(bounds) - 1)]:
            done.result()
    return _joined(found, data.num_labels)


def _evenly(texts_of: csr_array) -> csr_array:
    """Return at most a fixed number of texts of each label, evenly spaced: no randomness, and no bias by time."""
    counts = np.diff(texts_of.indptr).astype(np.int64)
    place = np.arange(texts_of.nnz) - np.repeat(texts_of.indptr[:-1], counts)
    has, wanted = np.repeat(counts, counts), np.repeat(np.minimum(counts, _TEXTS_A_LABEL), counts)
    taken = (place + 1) * wanted // has > place * wanted // has
    starts = np.concatenate([[0], np.minimum(counts, _TEXTS_A_LABEL).cumsum()])
    return csr_array((texts_of.data[taken], texts_of.indices[taken], starts), shape=texts_of.shape)


def _work(texts_of: Occurrences, labels_of: Occurrences) -> Int[np.ndarray, "rows+1"]:
    """Return how many labels the texts of each label have, cumulated: what it takes to count them."""
    of_texts = np.append(0, np.diff(labels_of.starts)[texts_of.numbers].cumsum())
    work: Int[np.ndarray, "rows+1"] = of_texts[texts_of.starts]
    return work


def _places(capacities: Int[np.ndarray, "rows"]) -> CoOccurring:
    """Allocate places for so many labels of each row."""
    starts = np.append(0, capacities.cumsum())
    return CoOccurring(
        starts, np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float64), np.zeros(len(capacities), np.int64)
    )


def _parts(work: Int[np.ndarray, "rows+1"]) -> Int[np.ndarray, "bounds"]:
    """Return the bounds of runs of labels that take about equally long, several for each core."""
    limits = np.linspace(0, work[-1], _PARTS_OF_CORE * usable_cores() + 1)[1:-1]
    return np.unique(np.concatenate([[0], np.searchsorted(work, limits), [len(work) - 1]]))


def _joined(found: CoOccurring, num_labels: int) -> csr_array:
    """Return a matrix of what was found."""
    places = np.diff(found.starts)
    there = np.arange(found.starts[-1]) - np.repeat(found.starts[:-1], places) < np.repeat(found.counts, places)
    starts = np.append(0, found.counts.cumsum())
    joined = csr_array((found.fractions[there], found.labels[there], starts), shape=(len(found.counts), num_labels))
    joined.sort_indices()
    return joined


def _targets(labels: Int[np.ndarray, "n"], others: csr_array) -> csr_array:
    """Return the targets of each label's text: the label itself, and the others."""
    itself = csr_array((np.ones(len(labels)), (np.arange(len(labels)), labels)), shape=others.shape)
    targets = csr_array(itself + others, dtype=np.float32)
    targets.sort_indices()
    return targets


def with_known_words(rows: csr_array) -> Bool[np.ndarray, "rows"]:
    """Return which token rows have a known word."""
    of_row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    known = (rows.indices >= FIRST_WORD) & (rows.data != 0)  # tokens around a text weigh nothing
    return np.bincount(of_row[known], minlength=rows.shape[0]) > 0


def _weights(data: Dataset, more: int, weight: float) -> Float[np.ndarray, "texts"] | None:
    if data.weights is None and weight == 1:
        return None
    own = np.ones(len(data), dtype=np.float32) if data.weights is None else data.weights
    return np.concatenate([own, np.full(more, weight, dtype=own.dtype)])
