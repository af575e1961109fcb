"""Inputs of the packed engine: concatenated token rows, or dense features."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from laconic.data.dataset import Rows
from laconic.errors import DataError
from laconic.system.sparse import csr_array
from laconic.types import NO_LABEL


class Texts(NamedTuple):
    """Text t is `ids[starts[t]:starts[t + 1]]` in reading order; weights add up, per word, to its tf-idf."""

    ids: Int[np.ndarray, "total"]
    weights: Float[np.ndarray, "total"]
    starts: Int[np.ndarray, "texts+1"]

    @property
    def size(self) -> int:
        return len(self.starts) - 1

    def part(self, first: int, last: int) -> Texts:
        """Return texts first to last."""
        start, end = self.starts[first], self.starts[last]
        return Texts(self.ids[start:end], self.weights[start:end], self.starts[first : last + 1] - start)


Inputs: TypeAlias = Texts | Float[np.ndarray, "texts features"]
Some: TypeAlias = Texts | Float[np.ndarray, "_ features"]  # of the inputs, however many


class Ranked(NamedTuple):
    """The best labels of each text, best first; rows end in NO_LABEL with score 0."""

    labels: Int[np.ndarray, "texts k"]
    scores: Float[np.ndarray, "texts k"]

    @staticmethod
    def empty(texts: int, k: int) -> Ranked:
        """Return rows without a label, to be written to."""
        labels = np.empty((texts, k), dtype=np.int64)
        labels.fill(NO_LABEL)  # np.full takes several times as long for a few numbers
        return Ranked(labels, np.zeros((texts, k), dtype=np.float32))


def size_of(inputs: Inputs) -> int:
    """Return the number of texts."""
    return inputs.size if isinstance(inputs, Texts) else len(inputs)


def some(inputs: Inputs, first: int, last: int) -> Some:
    return inputs.part(first, last) if isinstance(inputs, Texts) else inputs[first:last]


def check_features(inputs: Inputs, width: int) -> Float[np.ndarray, "texts features"]:
    """Return dense features of that width, and refuse anything else."""
    if isinstance(inputs, Texts) or inputs.shape[1] != width:
        found = "words" if isinstance(inputs, Texts) else f"{inputs.shape[1]:,}"
        raise DataError(f"the model reads {width:,} features, but is given {found}")
    return inputs


def inputs_of(rows: Rows) -> Inputs:
    """Convert rows of a dataset to inputs of the engine."""
    if not isinstance(rows, csr_array):
        return np.ascontiguousarray(rows, dtype=np.float32)
    return Texts(
        rows.indices.astype(np.int32, copy=False),
        rows.data.astype(np.float32, copy=False),
        rows.indptr.astype(np.int64, copy=False),
    )
