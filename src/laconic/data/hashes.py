"""Hash texts and rows of features, with equal results in every process and on every machine.

Texts are equal if they differ in case and white space alone; rows of features, if every number is equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

import numpy as np
from jaxtyping import Float, UInt64

from laconic.system.sparse import csr_array


def folded(text: str) -> str:
    """Return the text without differences of case and white space."""
    return " ".join(text.lower().split())


def text_hashes(texts: Sequence[str]) -> UInt64[np.ndarray, "texts"]:
    """Hash every text."""
    return _hashes(folded(text).encode("utf-8", "surrogatepass") for text in texts)


def feature_hashes(features: csr_array | Float[np.ndarray, "texts dim"]) -> UInt64[np.ndarray, "texts"]:
    """Hash every row of features."""
    return _hashes(_feature_bytes(features))


def mixed(hashes: UInt64[np.ndarray, "texts"], seed: int) -> UInt64[np.ndarray, "texts"]:
    """Return other hashes, one for each, that look independent of these (the finaliser of SplitMix64)."""
    value = hashes + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _hashes(rows: Iterable[bytes]) -> UInt64[np.ndarray, "texts"]:
    digests = b"".join(blake2b(row, digest_size=8).digest() for row in rows)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def _feature_bytes(features: csr_array | Float[np.ndarray, "texts dim"]) -> Iterator[bytes]:
    if isinstance(features, np.ndarray):
        yield from (row.tobytes() for row in np.ascontiguousarray(features, dtype="<f4"))
        return
    rows = csr_array(features, copy=True)
    rows.sort_indices()
    columns, values = rows.indices.astype("<i8"), rows.data.astype("<f4")
    for first, last in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        yield columns[first:last].tobytes() + values[first:last].tobytes()
