"""Small packed parts to test with, and what their coarse rows say, worked out in plain numpy.

Their encoder gives dense features as they come, so that a text is its vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array

from laconic.kernels.csr import Lists
from laconic.packed.engine import PARTS
from laconic.packed.engine.cells import Cells
from laconic.packed.engine.encoders import Given
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.pairs import Pairs
from laconic.packed.engine.parts import Part, flattened, restored
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.texts import Texts
from laconic.packed.engine.transforms import Layer, Unchanged

DIM = 24
Kind = TypeVar("Kind", bound=Part)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def units(*shape: int, seed: int = 0) -> np.ndarray:
    vectors = numbers(*shape, seed=seed)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def rows(count: int, dim: int = DIM, *, seed: int = 0, with_exact: bool = True) -> Rows:
    return Rows.of(numbers(count, dim, seed=seed) / 4, numbers(count, seed=seed + 1) / 4, with_exact=with_exact)


def given(dim: int = DIM) -> dict[str, Any]:
    """An encoder and a transform that leave vectors as they are."""
    return {"encoder": Given(features=dim), "transform": Unchanged(inputs=dim)}


def layer(inputs: int = DIM, width: int = DIM, *, seed: int = 0) -> Layer:
    lines = {name: numbers(width, seed=seed + place) for place, name in enumerate(("bias", "gain", "shift", "skip"))}
    plain = {"activation": "relu", "first": 0, "relu_before": False, "relu_after": False}
    return Layer(weight=numbers(width, inputs, seed=seed) / 4, **lines, inputs=inputs, **plain)


def cells(vectors: np.ndarray, sizes: Sequence[int], *, beam: int, groups: Sequence[int] = ()) -> Cells:
    """The vectors, in an order of their own, in cells of these sizes, and these in groups of those."""
    order = np.random.default_rng(len(vectors)).permutation(len(vectors)).astype(np.int32)
    starts = np.cumsum([0, *sizes]).astype(np.int32)
    parts = [vectors[order[first:last]] for first, last in pairwise(starts)]
    middles = np.stack([part.mean(0) if len(part) else np.zeros(vectors.shape[1]) for part in parts])
    of_cells = NibbleRows.of(middles.astype(np.float32), np.zeros(len(sizes), np.float32), with_exact=False)
    of_groups = NibbleRows.from_bytes(rows(len(groups), vectors.shape[1], seed=5, with_exact=False)) if groups else None
    return Cells(
        rows=NibbleRows.of(vectors[order], np.zeros(len(vectors), np.float32), with_exact=False),
        order=order,
        starts=starts,
        middles=of_cells,
        group_starts=np.cumsum([0, *(groups or [len(sizes)])]).astype(np.int32),
        groups=of_groups,
        open_groups=1,
        beam=beam,
    )


def pairs(table: np.ndarray) -> Pairs:
    return Pairs.of(Lists.of(csr_array(table)))


def texts(bags: Sequence[Sequence[int]]) -> Texts:
    """Every word weighs as much as its id, so that a weight that went with another word would be seen."""
    ids = np.array([one for bag in bags for one in bag], dtype=np.int32)
    return Texts(ids, ids.astype(np.float32) / 10, np.cumsum([0, *map(len, bags)]))


def texts_of(table: csr_array) -> Texts:
    return Texts(table.indices.astype(np.int32), table.data.astype(np.float32), table.indptr.astype(np.int64))


def coarsely(part: Rows, vectors: np.ndarray) -> np.ndarray:
    """What coarse rows say of vectors that are rounded to whole numbers of 12 bits."""
    largest = np.abs(vectors).max(1, keepdims=True, initial=0)
    step = np.where(largest > 0, largest, 1) / 2047
    products = np.rint(vectors / step) @ part.coarse.T.astype(np.float64)
    return products * step * part.scales + part.biases


def by_upper_bits(part: NibbleRows, vectors: np.ndarray) -> np.ndarray:
    """What the upper four bits of rows say of vectors that are rounded to bytes."""
    largest = np.abs(vectors).max(1, keepdims=True, initial=0)
    step = np.where(largest > 0, largest, 1) / 127
    middles = np.floor(part.coarse / 16) * 16 + 7.5
    return np.rint(vectors / step) @ middles.T * step * part.scales + part.biases


def exactly(part: Rows | NibbleRows, vectors: np.ndarray) -> np.ndarray:
    """What all bytes that there are of the rows say."""
    return vectors.astype(np.float64) @ both_bytes(part).T + part.biases


def in_two_bytes(table: np.ndarray) -> np.ndarray:
    """Round rows to what a packed model has of them."""
    return both_bytes(Rows.of(table, np.zeros(len(table), np.float32))).astype(np.float32)


def both_bytes(part: Rows | NibbleRows) -> np.ndarray:
    fine = 0 if part.fine is None else part.fine / 254
    return (part.coarse.astype(np.float64) + fine) * part.scales[:, None]


def sigmoid(scores: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.asarray(scores, dtype=np.float64)))


def mapped(part: Kind, folder: Path) -> Kind:
    """The part as it comes back from its structure and from files that are mapped, read-only."""
    facts, arrays = flattened(part)
    for number, (path, array) in enumerate(arrays.items()):
        np.save(folder / f"{number}.npy", array)
        arrays[path] = np.load(folder / f"{number}.npy", mmap_mode="r")
    back = restored(facts, arrays, PARTS)
    assert isinstance(back, type(part))
    return back
