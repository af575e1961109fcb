"""Read the columns of frames and tables in memory: pandas, polars, Arrow and Hugging Face datasets.

They are known by what they can do, so that none of these libraries is imported for those who do not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from laconic.errors import DataError


class Frame(NamedTuple):
    """A table with named columns."""

    names: Sequence[Any]
    column: Callable[[Any], Any]  # by name: a sequence of values
    matrix: Callable[[], Any] | None = None  # all values as an array, where the table has one


def frame_of(values: Any) -> Frame | None:
    """Return a table as a frame; None: it is none, but a sequence of values."""
    names = getattr(values, "column_names", None)
    if isinstance(names, Mapping):
        raise DataError(f"this is a dictionary of datasets; give one of them, such as dataset[{next(iter(names))!r}]")
    if isinstance(names, list) and callable(getattr(values, "column", None)):
        return Frame(names, lambda name: values.column(name).to_pylist())  # Arrow
    if isinstance(names, list):
        return Frame(names, lambda name: _named_classes(list(values[name]), _feature(values, name)))  # Hugging Face
    if hasattr(values, "columns") and (len(getattr(values, "shape", ())) == 2 or getattr(values, "ndim", 0) == 2):
        # pandas, polars
        return Frame(list(values.columns), lambda name: values[name], getattr(values, "to_numpy", None))
    return None


def _feature(values: Any, name: str) -> Any:
    features = getattr(values, "features", None)
    return features.get(name) if isinstance(features, Mapping) else None


def _named_classes(column: list[Any], feature: Any) -> list[Any]:
    """Replace the numbers of a ClassLabel, or of lists of them, by their names."""
    names = getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None)
    if not names:
        return column
    return [names[value] if isinstance(value, int) else [names[one] for one in value] for value in column]
