"""The label hierarchy: which labels are broader than others, directly or by any number of steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from laconic.data.corpus import Corpus, Split
from laconic.data.dataset import grouped
from laconic.errors import DataError
from laconic.system.sparse import csr_array


def ancestors(broader: csr_array) -> csr_array:
    """Return all broader labels of each label, from those that are directly broader.

    Circles, which vocabularies have by mistake, do no harm: no label is broader than itself.
    """
    direct = csr_array(broader, dtype=np.int32)
    found, size = direct, -1
    while found.nnz > size:
        size = found.nnz
        found = _ones(csr_array(found + found @ direct))
    return _without_diagonal(found)


def with_broader(corpus: Corpus) -> Corpus:
    """Return the data with every broader label of each text's labels, whose weight is the largest of these."""
    if corpus.labels.broader is None:
        raise DataError(
            f"{corpus.source}: the labels have no broader ones; give a vocabulary that has (SKOS), or a list of labels "
            'with "broader"'
        )
    count = len(corpus.labels)
    itself = csr_array((np.ones(count, dtype=np.int32), (np.arange(count), np.arange(count))), shape=(count, count))
    mapping = csr_array(ancestors(corpus.labels.broader) + itself)
    mapping.sort_indices()
    return replace(corpus, splits={name: _extended(split, mapping) for name, split in corpus.splits.items()})


def _extended(split: Split, mapping: csr_array) -> Split:
    return replace(split, labels=grouped(split.labels, mapping))


def _ones(matrix: csr_array) -> csr_array:
    matrix.data[:] = 1
    return matrix


def _without_diagonal(matrix: csr_array) -> csr_array:
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    kept = rows != matrix.indices
    pairs = (np.ones(kept.sum(), dtype=np.int32), (rows[kept], matrix.indices[kept]))
    return csr_array(pairs, shape=matrix.shape)
