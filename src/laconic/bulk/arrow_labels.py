"""Turn rankings of many texts into Arrow columns of label names and scores, without a Python object per label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Num

from laconic.errors import ModelError
from laconic.packed.strings import Strings
from laconic.predict.min_score import Limits
from laconic.predict.prediction import RankedTexts
from laconic.types import NO_LABEL

ANSWERS = ("labels", "scores", "known_words")


class AnswerColumns(NamedTuple):
    """Arrow arrays with an element per text."""

    labels: Any  # list<string>, best label first
    scores: Any  # list<double>
    known_words: Any  # int64


class LabelColumns:
    """Names the labels of rankings, and leaves out those below a lowest score."""

    def __init__(self, names: Sequence[str], limits: Limits | None) -> None:
        self._names, self._limits = _arrow_strings(names), limits

    def of(self, ranked: RankedTexts) -> AnswerColumns:
        """Return the columns of a ranking."""
        import pyarrow

        kept = ranked.labels != NO_LABEL
        if self._limits is not None:
            kept &= self._limits.reached(ranked)
        names = self._names.take(arrow_numbers(ranked.labels[kept], np.int64)).cast(pyarrow.string())
        try:
            names.validate(full=True)
        except pyarrow.ArrowInvalid as error:
            raise ModelError(f"a label name is not UTF-8 ({error}); copy the model again") from None
        bounds = arrow_numbers(np.concatenate([[0], kept.sum(axis=1).cumsum()]), np.int32)
        scores = arrow_numbers(ranked.scores[kept], np.float64)
        labels, scores = (pyarrow.ListArray.from_arrays(bounds, values) for values in (names, scores))
        return AnswerColumns(labels, scores, arrow_numbers(ranked.known_words, np.int64))


def arrow_numbers(numbers: Num[np.ndarray, "n"], kind: type[np.number[Any]]) -> Any:
    """Return an Arrow array of numbers. `pyarrow.array` would import pandas, which takes tens of megabytes."""
    import pyarrow

    values = np.ascontiguousarray(numbers, dtype=kind)
    return pyarrow.Array.from_buffers(pyarrow.from_numpy_dtype(kind), len(values), [None, pyarrow.py_buffer(values)])


def _arrow_strings(names: Sequence[str]) -> Any:
    """Return names as an Arrow array; those of a packed model stay where they are mapped."""
    import pyarrow

    if not isinstance(names, Strings):
        return pyarrow.array(list(names), pyarrow.large_string())
    starts, content = (pyarrow.py_buffer(part) for part in names.buffers())
    return pyarrow.LargeStringArray.from_buffers(len(names), starts, content)
