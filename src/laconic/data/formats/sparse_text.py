"""Read the Extreme Classification Repository's two text forms of a sparse matrix by compiled loops.

The matrix:           "rows columns", then a line per row of `index:value`.
The old single file:  "texts features labels", then a line per text of `label,label index:value index:value`.

Numbers count from 0, an empty line is an empty row, and in the old file a leading space means "no labels".

The kernels read until the first token that is wrong and say where it begins; what is wrong with it, and what to do, is
found out here, in plain Python.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, UInt8
from scipy.sparse import csr_array

from laconic.data.formats.lines import contents
from laconic.data.formats.records import excerpt
from laconic.data.formats.sparse_kernels import COLON, FLOAT32_END, Rows, fill_labelled_rows, fill_rows, tally
from laconic.errors import DataError


def read_sparse(path: Path, *, column: str = "column") -> csr_array:
    """Read the float32 matrix of a file; `column` names its columns in errors, such as "label"."""
    text = _Text.of(path, ("row", column))
    num_rows, num_columns = text.sizes
    rows = Rows.of(num_rows, num_columns, at_most=text.colons)
    text.check_end(fill_rows(text.bytes, text.start, rows))
    return text.matrix(rows, column)


def read_labelled(path: Path) -> tuple[csr_array, csr_array]:
    """Read labels (ones) and features of the texts in an old single file, both float32."""
    text = _Text.of(path, ("text", "feature", "label"))
    num_texts, num_features, num_labels = text.sizes
    features = Rows.of(num_texts, num_features, at_most=text.colons)
    labels = Rows.of(num_texts, num_labels, at_most=text.commas + num_texts)
    labels.values.fill(1)
    text.check_end(fill_labelled_rows(text.bytes, text.start, labels, features))
    return text.matrix(labels, "label"), text.matrix(features, "feature")


class _Text(NamedTuple):
    """A file whose header is sound and announces no more rows than there are lines."""

    path: Path
    data: bytes  # ends in a newline
    sizes: tuple[int, ...]
    names: tuple[str, ...]  # of what the sizes count, in the singular
    start: int  # of the first row
    colons: int
    commas: int

    @classmethod
    def of(cls, path: Path, names: tuple[str, ...]) -> _Text:
        data = contents(path).removeprefix(b"\xef\xbb\xbf")
        if not data.endswith(b"\n"):
            data += b"\n"
        start = data.index(b"\n") + 1
        sizes = _header(data[:start], names, path)
        newlines, colons, commas = tally(np.frombuffer(data, np.uint8)[start:])
        if newlines < sizes[0]:
            raise DataError(
                f"{path}: the header announces {sizes[0]} {names[0]}s, but the file has {newlines}; "
                "is it cut off in the middle? Fetch or write it again"
            )
        return cls(path, data, sizes, names, start, colons, commas)

    @property
    def bytes(self) -> UInt8[np.ndarray, "size"]:
        return np.frombuffer(self.data, np.uint8)

    def check_end(self, end: int) -> None:
        """Raise if the kernel stopped at a token (minus its position), or if text follows the rows."""
        if end < 0:
            raise self._error(-end, self._what_is_wrong(-end))
        extra = _TOKEN.search(self.data, end)
        if extra is not None:
            raise self._error(
                extra.start(), f"the header announces {self.sizes[0]} {self.names[0]}s, but there are more"
            )

    def matrix(self, rows: Rows, column: str) -> csr_array:
        entries = int(rows.starts[-1])
        values = rows.values[:entries]
        self._settle(values)
        matrix = csr_array((values, rows.indices[:entries], rows.starts), shape=(len(rows.starts) - 1, rows.columns))
        if not matrix.has_canonical_format:
            matrix.sort_indices()
            self._refuse_repeats(matrix, column)
            matrix.has_canonical_format = True  # scipy remembers what it saw before the sorting
        return matrix

    def _settle(self, values: Float32[np.ndarray, "entries"]) -> None:
        """Parse with Python's `float` the few values that the kernel was not certain of and left as NaN."""
        uncertain = np.flatnonzero(np.isnan(values))
        if not len(uncertain):
            return
        colons = np.flatnonzero(self.bytes == COLON)  # the kernel has seen that every entry has one, and nothing else
        for entry, colon in zip(uncertain.tolist(), colons[uncertain].tolist(), strict=True):
            value = float(self._token(colon + 1))
            if abs(value) >= FLOAT32_END:
                raise self._error(colon + 1, "the value is too large for a 32-bit number")
            values[entry] = value

    def _refuse_repeats(self, matrix: csr_array, column: str) -> None:
        """Raise for the first row that has an index twice; every row is sorted."""
        again = np.flatnonzero(matrix.indices[1:] == matrix.indices[:-1]) + 1
        again = again[~np.isin(again, matrix.indptr)]  # the last index of a row may well begin the next
        if len(again):
            line = int(np.searchsorted(matrix.indptr, again[0], side="right")) + 1
            raise DataError(
                f"{self.path}:{line}: {column} {matrix.indices[again[0]]} is there twice; give every index once a line"
            )

    def _what_is_wrong(self, at: int) -> str:
        token = self._token(at)
        begins_line = self.data[at - 1 : at] == b"\n"
        if len(self.sizes) == 3 and begins_line and ("," in token or ":" not in token):
            return _wrong_labels(token, self.sizes[2])
        return _wrong_entry(token, self.names[1], self.sizes[1])

    def _token(self, at: int) -> str:
        """Return the characters up to the next blank or line end."""
        match = _TOKEN.match(self.data, at)
        return "" if match is None else match[0].decode("utf-8", "replace")

    def _error(self, at: int, what: str) -> DataError:
        line = self.data.count(b"\n", 0, at) + 1
        return DataError(f"{self.path}:{line}: {what}: '{excerpt(self._token(at))}'; mend the line or the header")


_TOKEN = re.compile(rb"[^ \t\r\n]+")


def _header(line: bytes, names: tuple[str, ...], path: Path) -> tuple[int, ...]:
    numbers = line.split()
    # Seventeen digits at most: the kernel multiplies an index by ten before it compares.
    if len(numbers) != len(names) or not all(re.fullmatch(rb"[0-9]{1,17}", number) for number in numbers):
        raise DataError(
            f"{path}:1: the first line is '{excerpt(line.decode('utf-8', 'replace').strip())}', "
            f"where the {len(names)} sizes are needed: {', '.join(f'{name}s' for name in names)}"
        )
    return tuple(int(number) for number in numbers)


def _wrong_labels(token: str, num_labels: int) -> str:
    wrong = (_wrong_index(label, "label", num_labels) for label in token.split(","))
    return next((reason for reason in wrong if reason), "these are not labels with commas between them")


def _wrong_entry(token: str, column: str, num_columns: int) -> str:
    index, colon, value = token.partition(":")
    if not colon:
        return "this is not `index:value`"
    if value.lstrip("+-").lower() in ("nan", "inf", "infinity"):
        return "the value is not finite"
    return _wrong_index(index, column, num_columns) or "the value is not a decimal number"


def _wrong_index(index: str, column: str, num_columns: int) -> str | None:
    shown = excerpt(index, 30)
    if re.fullmatch(r"-[0-9]+", index):
        return f"{column} {shown} is negative, where numbers count from 0"
    if not re.fullmatch(r"[0-9]+", index):
        return f"the {column} '{shown}' is not an integer"
    if len(index.lstrip("0")) > 17 or int(index) >= num_columns:
        return f"{column} {shown} is outside 0..{num_columns - 1} announced in the header"
    return None
