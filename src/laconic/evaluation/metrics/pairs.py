"""Set operations on (text, label) pairs stored as sparse matrices."""

import numpy as np
from jaxtyping import Bool, Int
from scipy.sparse import csr_array

from laconic.errors import DataError
from laconic.units import counted


def relevant(matrix: csr_array) -> csr_array:
    """Return the pairs sorted and unique. A stored zero is no pair; any other value is one."""
    pairs = csr_array(matrix, copy=True)
    pairs.sum_duplicates()
    pairs.eliminate_zeros()
    return pairs


def truth_without_pairs(truth: csr_array, pairs: csr_array) -> csr_array:
    """Remove the pairs to leave out of the truth, values kept. `without_pairs` does this to a ranking."""
    truth = relevant(truth)
    if pairs.shape != truth.shape:
        raise DataError(f"pairs to leave out are of shape {pairs.shape}, but the truth is of shape {truth.shape}")
    left_out = _found(_keys(truth), _keys(relevant(pairs)))
    # Not eliminated through a zero value: a weight may be of any type.
    starts = np.concatenate([[0], np.cumsum(~left_out)])[truth.indptr]
    return csr_array((truth.data[~left_out], truth.indices[~left_out], starts), shape=truth.shape)


def holds(pairs: csr_array, labels: Int[np.ndarray, "batch k"]) -> Bool[np.ndarray, "batch k"]:
    """Tell which labels of row r are in row r of the pairs. NO_LABEL is in no row."""
    if len(labels) != pairs.shape[0]:
        raise DataError(
            f"the ranking has {counted(len(labels), 'text')}, but the pairs to compare it with {pairs.shape[0]}"
        )
    num_labels = int(pairs.shape[1])
    keys = np.arange(len(labels), dtype=np.int64)[:, None] * num_labels + labels
    found = _found(keys, _keys(relevant(pairs)))
    # A number outside the labels would be taken for a label of another row.
    found &= (labels >= 0) & (labels < num_labels)
    return found


def row_numbers(pairs: csr_array) -> Int[np.ndarray, "pairs"]:
    """Return the row of every stored pair, in storage order."""
    return np.arange(pairs.shape[0]).repeat(np.diff(pairs.indptr))


def _keys(pairs: csr_array) -> Int[np.ndarray, "pairs"]:
    """Return one key per pair, ordered as (row, label), for binary search."""
    keys: Int[np.ndarray, "pairs"] = row_numbers(pairs) * np.int64(pairs.shape[1]) + pairs.indices
    return keys


def _found(keys: Int[np.ndarray, "..."], among: Int[np.ndarray, "pairs"]) -> Bool[np.ndarray, "..."]:
    if len(among) == 0:
        return np.zeros(keys.shape, dtype=bool)
    # Queries come row by row as the keys do, so the search stays within a cached stretch of `among`.
    places = np.searchsorted(among, keys)
    found: Bool[np.ndarray, "..."] = among[np.minimum(places, len(among) - 1)] == keys
    return found
