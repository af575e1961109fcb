"""Find the texts in batches of tables, whose other columns stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from laconic.data.formats.entries import OnBad, text_of_cells
from laconic.data.formats.tabular import text_columns
from laconic.errors import DataError


class TextColumns(NamedTuple):
    """The columns of a table that hold its texts."""

    names: list[str]
    weights: list[int]  # how often each counts

    @staticmethod
    def of(header: Sequence[str], column: str, fields: str, place: str) -> TextColumns:
        """Find the columns that are asked for, else those of the model's fields, else the usual one."""
        found = text_columns(header, column, fields, place)
        return TextColumns([header[number] for number, _ in found], [weight for _, weight in found])

    def text(self, values: Sequence[Any], place: str) -> str:
        """Return the text that a row has in these columns."""
        return text_of_cells(values, self.names, self.weights, place)


class RowTexts(NamedTuple):
    """The texts of the rows that could be read, and which rows these are."""

    texts: list[str]
    rows: Int[np.ndarray, "texts"]


def row_texts(
    columns: TextColumns, values_of: Callable[[str], Sequence[Any]], place: Callable[[int], str], on_bad: OnBad
) -> RowTexts:
    """Return the texts of rows; what is wrong with a row goes to `on_bad`. `place` says where a row stands."""
    texts, rows, alone = [], [], columns.weights == [1]
    for number, values in enumerate(zip(*map(values_of, columns.names), strict=True)):
        try:
            if alone and type(values[0]) is str and values[0].isascii():  # as most are: nothing can be wrong with it
                texts.append(values[0])
            else:
                texts.append(columns.text(values, place(number)))
            rows.append(number)
        except DataError as error:
            on_bad(error)
    return RowTexts(texts, np.array(rows, dtype=np.int64))


def arrow_values(column: Any) -> list[Any]:
    """Return the values of an Arrow column; where one is not UTF-8, the error of reading it stands in its place."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except ValueError:  # once more, one by one
        return [_value(scalar) for scalar in column]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except ValueError as error:
        return error
