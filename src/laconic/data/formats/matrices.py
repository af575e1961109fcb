"""Read matrices from scipy's `.npz`, numpy's `.npy` and the repository's sparse text.

numpy's own loader trusts a file's header with the size of what it allocates, and scipy's trusts the indices. Here files
are untrusted: nothing is unpickled, no array is larger than its bytes, and every index is checked.
"""

from __future__ import annotations

import ast
import io
import math
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int, Integer, Shaped
from scipy.sparse import csr_array

from laconic.data.formats.bounds import check_announced, check_unpacked
from laconic.data.formats.lines import contents, opened
from laconic.data.formats.records import excerpt
from laconic.data.formats.sparse_text import read_sparse
from laconic.errors import DataError

_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")  # the second begins an archive without files
_ARRAY_MAGIC = b"\x93NUMPY"
_AGAIN = "write the file again, with scipy.sparse.save_npz or numpy.save"


def read_matrix(path: Path, *, column: str = "column") -> csr_array | Float32[np.ndarray, "rows columns"]:
    """Read the matrix as float32, sparse unless it is a `.npy`; content, not the name, decides the format."""
    with opened(path) as file:
        head = file.read(len(_ARRAY_MAGIC))
    if head.startswith(_ZIP_MAGIC):
        return _sparse(path, column)
    if head == _ARRAY_MAGIC:
        return _dense(path)
    return read_sparse(path, column=column)


def check_columns(matrix: csr_array | Float32[np.ndarray, "rows columns"], path: Path, column: str) -> None:
    """Refuse far more columns than entries, where something is kept of each column, such as a label's name."""
    if isinstance(matrix, csr_array):
        check_announced(matrix.shape[1], matrix.nnz, str(path), column)


def _sparse(path: Path, column: str) -> csr_array:
    archive = _Archive.of(path)
    form, shape = archive.form(), archive.shape()
    check_announced(shape[0], max(array.size for array in archive.arrays.values()), str(path), "row")
    if form == "csr":
        rows, columns = archive.expanded(shape[0]), archive.integers("indices")
    elif form == "csc":
        rows, columns = archive.integers("indices"), archive.expanded(shape[1])
    elif "coords" in archive.arrays:
        rows, columns = archive.coordinates()
    else:
        rows, columns = archive.integers("row"), archive.integers("col")
    return _assembled(_Entries(rows, columns, archive.array("data", "biuf")), shape, path, column)


def _dense(path: Path) -> Float32[np.ndarray, "rows columns"]:
    array = _array(contents(path), str(path))
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise DataError(
            f"{path}: an array of shape {array.shape} and type {array.dtype}, "
            "where a table of numbers is needed, one row a text"
        )
    values = _as_float32(array)
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise DataError(
            f"{path}: row {row}, column {column} is {array[row, column]}; every value must be a finite 32-bit number"
        )
    return values


class _Archive(NamedTuple):
    """The arrays of an `.npz` file by name."""

    path: Path
    arrays: dict[str, Shaped[np.ndarray, "..."]]

    @classmethod
    def of(cls, path: Path) -> _Archive:
        members = _unzipped(path)
        arrays = {
            name.removesuffix(".npy"): _array(member, f"{path}: {excerpt(name, 30)}")
            for name, member in members.items()
        }
        return cls(path, arrays)

    def form(self) -> str:
        # By its bytes: scipy writes a byte string, its old versions a unicode one, which may hold any number at all.
        form = self.array("format", "SU").tobytes().replace(b"\0", b"").decode("latin-1")
        if form not in ("csr", "csc", "coo"):
            raise DataError(
                f"{self.path}: a matrix in the form '{excerpt(form)}'; csr, csc and coo are read: save matrix.tocsr()"
            )
        return form

    def shape(self) -> tuple[int, int]:
        shape = self.integers("shape").tolist()
        if len(shape) != 2 or not all(0 <= size < 2**31 for size in shape):
            raise DataError(f"{self.path}: the shape is {shape}, where rows and columns are needed; {_AGAIN}")
        return shape[0], shape[1]

    def array(self, name: str, kinds: str) -> Shaped[np.ndarray, "..."]:
        if name not in self.arrays:
            has = ", ".join(excerpt(other, 20) for other in list(self.arrays)[:8]) or "nothing"
            raise DataError(
                f"{self.path}: there is no '{name}' in it (there is: {has}), so it is not a sparse matrix; {_AGAIN}"
            )
        array = self.arrays[name]
        if array.dtype.kind not in kinds:
            raise DataError(f"{self.path}: '{name}' has the type {array.dtype}, which cannot be; {_AGAIN}")
        return array

    def integers(self, name: str) -> Int[np.ndarray, "n"]:
        return self._as_indices(self.array(name, "iu").reshape(-1), name)

    def coordinates(self) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
        both = self.array("coords", "iu")
        if both.ndim != 2 or len(both) != 2:
            raise DataError(f"{self.path}: 'coords' has the shape {both.shape}, where two rows are needed; {_AGAIN}")
        return self._as_indices(both[0], "coords"), self._as_indices(both[1], "coords")

    def expanded(self, lines: int) -> Int[np.ndarray, "n"]:
        """Return for every entry the line, row or column, that it is in."""
        starts = self.integers("indptr")
        if len(starts) != lines + 1 or starts[0] != 0:
            raise DataError(f"{self.path}: 'indptr' does not fit the shape ({len(starts)} for {lines} lines); {_AGAIN}")
        lengths = np.diff(starts)
        if (lengths < 0).any():
            line = int(np.argmax(lengths < 0))
            raise DataError(f"{self.path}: row {line} ends before it begins ('indptr' falls); {_AGAIN}")
        if starts[-1] != self.array("indices", "iu").size:
            raise DataError(f"{self.path}: 'indptr' ends at {starts[-1]}, which is not the end of 'indices'; {_AGAIN}")
        return np.repeat(np.arange(lines, dtype=np.int32), lengths)

    def _as_indices(self, array: Integer[np.ndarray, "n"], name: str) -> Int[np.ndarray, "n"]:
        if array.dtype.kind == "u" and len(array) and int(array.max()) > np.iinfo(np.int64).max:
            raise DataError(f"{self.path}: '{name}' holds {array.max()}, which cannot be; {_AGAIN}")
        return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)


class _Entries(NamedTuple):
    """The entries of a sparse matrix in coordinate form."""

    rows: Int[np.ndarray, "n"]
    columns: Int[np.ndarray, "n"]
    values: Shaped[np.ndarray, "n"]


def _assembled(entries: _Entries, shape: tuple[int, int], path: Path, column: str) -> csr_array:
    """Build the matrix from its entries after checking all of them."""
    rows, columns, values = entries.rows, entries.columns, _as_float32(entries.values.reshape(-1))
    if not len(rows) == len(columns) == len(values):
        raise DataError(f"{path}: {len(rows)} rows, {len(columns)} columns and {len(values)} values; {_AGAIN}")
    if (at := _first((rows < 0) | (rows >= shape[0]))) is not None:
        raise DataError(f"{path}: row {rows[at]} is outside 0..{shape[0] - 1}, the shape; {_AGAIN}")
    if (at := _first((columns < 0) | (columns >= shape[1]))) is not None:
        raise DataError(
            f"{path}: row {rows[at]}: {column} {columns[at]} is outside 0..{shape[1] - 1}, the shape; {_AGAIN}"
        )
    if (at := _first(~np.isfinite(values))) is not None:
        raise DataError(
            f"{path}: row {rows[at]}: the value of {column} {columns[at]} is {entries.values.reshape(-1)[at]}; "
            "every value must be a finite 32-bit number"
        )
    try:
        matrix = csr_array((values, (rows, columns)), shape=shape)
    except MemoryError:
        raise DataError(f"{path}: a matrix of {shape[0]} rows is more than the memory holds; {_AGAIN}") from None
    if matrix.nnz < len(values):  # the constructor has added up what is there twice
        row, index = _repeated(rows, columns)
        raise DataError(f"{path}: row {row}: {column} {index} is there twice; call sum_duplicates() before saving")
    return matrix


def _first(wrong: Bool[np.ndarray, "n"]) -> int | None:
    """Return the first index where something is wrong, if there is one."""
    return int(np.argmax(wrong)) if wrong.any() else None


def _repeated(rows: Int[np.ndarray, "n"], columns: Int[np.ndarray, "n"]) -> tuple[int, int]:
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    at = np.flatnonzero((rows[1:] == rows[:-1]) & (columns[1:] == columns[:-1]))[0]
    return int(rows[at]), int(columns[at])


def _as_float32(array: Shaped[np.ndarray, "..."]) -> Float32[np.ndarray, "..."]:
    """Return a float32 copy; a value that is too large becomes infinity, for the caller to find."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def _unzipped(path: Path) -> dict[str, bytes]:
    # What zipfile lets through from a damaged archive beside its own error; RuntimeError: a password is needed.
    damages = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, OverflowError, RuntimeError)
    try:
        data = contents(path)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            check_unpacked(sum(member.file_size for member in archive.infolist()), len(data), str(path))
            return {name: archive.read(name) for name in archive.namelist()}
    except damages as error:
        raise DataError(f"{path}: the archive is cut off or damaged ({error}); fetch or write the file again") from None


def _array(data: bytes, place: str) -> Shaped[np.ndarray, "..."]:
    """Parse a `.npy` file: magic, version, length of the header, header, numbers."""
    size = 2 if data[6:7] == b"\x01" else 4
    start = 8 + size + int.from_bytes(data[8 : 8 + size], "little")
    if not data.startswith(_ARRAY_MAGIC) or start > len(data):
        raise DataError(f"{place}: the array is cut off or damaged; {_AGAIN}")
    header = data[8 + size : start].decode("latin-1")
    dtype, shape, order = _read_header(header, place)
    needed = math.prod(shape) * dtype.itemsize
    if needed > len(data) - start:
        raise DataError(f"{place}: cut off: {needed} bytes of numbers are announced, {len(data) - start} are there")
    return np.frombuffer(data[start : start + needed], dtype).reshape(shape, order=order)


def _read_header(header: str, place: str) -> tuple[np.dtype[Any], tuple[int, ...], Any]:
    try:
        fields = ast.literal_eval(header.strip())
        kind, shape, by_column = fields["descr"], fields["shape"], fields["fortran_order"]
    except (ValueError, TypeError, SyntaxError, KeyError, MemoryError, RecursionError):
        raise DataError(f"{place}: the array's header is damaged: '{excerpt(header.strip())}'; {_AGAIN}") from None
    # Only plain numbers, and the short words that scipy writes; never objects, which would be pickles.
    if not isinstance(kind, str) or not re.fullmatch(r"[<>|=]?(b1|[iu][1248]|f[248]|[SU][1-9])", kind):
        raise DataError(f"{place}: an array of type '{excerpt(str(kind))}', where numbers are needed; {_AGAIN}")
    sizes = shape if isinstance(shape, tuple) and len(shape) <= 3 else (-1,)
    sound = all(type(size) is int and size >= 0 for size in sizes)
    # Even beside a size of 0, which leaves nothing to read, numpy counts the others.
    if not sound or math.prod(size or 1 for size in sizes) > 2**59:
        raise DataError(f"{place}: an array of shape {excerpt(str(shape))}, which cannot be; {_AGAIN}")
    return np.dtype(kind), shape, "F" if by_column is True else "C"
