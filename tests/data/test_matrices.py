"""Matrices in files: every form gives the same matrix, and a damaged file a sound matrix or an error."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import bsr_array, coo_array, csc_array, csr_array, csr_matrix, random_array, save_npz

from laconic.data.formats.matrices import read_matrix
from laconic.errors import DataError
from tests.repository_folder import write_matrix
from tests.variants import examples


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("matrices")


def written(folder: Path, data: bytes) -> Path:
    path = folder / "matrix"
    path.write_bytes(data)
    return path


def npz(matrix: Any) -> bytes:
    buffer = io.BytesIO()
    save_npz(buffer, matrix)
    return buffer.getvalue()


def npy(array: np.ndarray, *, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def parts(**arrays: np.ndarray) -> bytes:
    """An .npz of exactly these arrays, on top of those of a sound csr matrix of 2 rows and 3 columns."""
    sound = {
        "format": np.array(b"csr"),
        "shape": np.array([2, 3]),
        "indptr": np.array([0, 2, 3]),
        "indices": np.array([0, 2, 1]),
        "data": np.array([1.0, 2.0, 3.0]),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **(sound | arrays))
    return buffer.getvalue()


MATRIX = csr_array(np.array([[1, 0, 2], [0, 3, 0]], dtype=np.float32))


# ---- agreement ----


@pytest.mark.parametrize("form", [csr_array, csc_array, coo_array, csr_matrix])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8, bool])
def test_every_sparse_form_and_type_gives_the_same_matrix(form: Any, dtype: Any, folder: Path) -> None:
    matrix = MATRIX.astype(dtype)
    found = read_matrix(written(folder, npz(form(matrix))))
    assert isinstance(found, csr_array)
    assert found.dtype == np.float32
    assert np.array_equal(found.toarray(), matrix.astype(np.float32).toarray())


@examples(50)
@given(seed=st.integers(0, 10**6), shape=st.tuples(st.integers(0, 9), st.integers(1, 9)), packed=st.booleans())
def test_the_form_is_told_by_content_and_gzip_makes_no_difference(
    seed: int, shape: tuple[int, int], packed: bool, folder: Path
) -> None:
    matrix = random_array(shape, density=0.3, format="csr", dtype=np.float32, rng=np.random.default_rng(seed))
    write_matrix(folder / "text", matrix)
    for data in (npz(matrix), npz(matrix.tocsc()), npy(matrix.toarray()), (folder / "text").read_bytes()):
        found = read_matrix(written(folder, gzip.compress(data) if packed else data))
        dense = found.toarray() if isinstance(found, csr_array) else found
        assert dense.dtype == np.float32
        assert np.array_equal(dense, matrix.toarray())


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, bool, ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_dense_array_is_read_whatever_its_type_and_order(dtype: Any, order: Any, folder: Path) -> None:
    array = np.array([[1, 0, 2], [0, 3, 0]]).astype(dtype, order=order)
    found = read_matrix(written(folder, npy(array)))
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float32
    assert found.flags.writeable
    assert np.array_equal(found, array.astype(np.float32))


def test_a_form_written_as_unicode_and_one_written_as_coords_are_read(folder: Path) -> None:
    assert read_matrix(written(folder, parts(format=np.array("csr")))).nnz == 3
    coords = parts(format=np.array(b"coo"), coords=np.array([[0, 0, 1], [0, 2, 1]]))
    assert np.array_equal(read_matrix(written(folder, coords)).toarray(), MATRIX.toarray())


# ---- refusals ----


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cut off|the first line|empty"),
        (npz(MATRIX)[:-30], "the archive is cut off or damaged"),
        (npz(MATRIX)[:60], "the archive is cut off or damaged"),
        (npz(bsr_array(np.eye(4))), "in the form 'bsr'; csr, csc and coo are read"),
        (parts(shape=np.array([2, 3, 4])), r"the shape is \[2, 3, 4\]"),
        (parts(shape=np.array([-2, 3])), r"the shape is \[-2, 3\]"),
        (parts(shape=np.array([2.0, 3.0])), "'shape' has the type float64"),
        (parts(indptr=np.array([0, 2])), "'indptr' does not fit the shape"),
        (parts(indptr=np.array([0, 3, 2])), "row 1 ends before it begins"),
        (parts(indptr=np.array([0, 2, 9])), "'indptr' ends at 9"),
        (parts(indptr=np.array([0, 0, 2**63], dtype=np.uint64)), "'indptr' holds 9223372036854775808"),
        (parts(indices=np.array([0, 3, 1])), r"row 0: label 3 is outside 0\.\.2"),
        (parts(indices=np.array([0, 2, -1])), r"row 1: label -1 is outside 0\.\.2"),
        (parts(indices=np.array([2, 2, 1])), "row 0: label 2 is there twice"),
        (parts(data=np.array([1.0, 2.0, np.nan])), "row 1: the value of label 1 is nan"),
        (parts(data=np.array([1.0, 1e300, 1.0])), r"row 0: the value of label 2 is 1e\+300"),
        (parts(data=np.array([1.0, 2.0])), "3 rows, 3 columns and 2 values"),
        (parts(data=np.array([1j, 2j, 3j])), "where numbers are needed"),
        (parts(data=np.array([None, 1, 2], dtype=object)), "where numbers are needed"),
        (parts(format=np.array(b"coo"), row=np.array([0, 0, 2]), col=np.array([0, 2, 1])), r"row 2 is outside 0\.\.1"),
        (npy(np.zeros(3)), r"shape \(3,\) and type float64, where a table of numbers is needed"),
        (npy(np.zeros((2, 0, 2))), r"shape \(2, 0, 2\) and type float64, where a table of numbers is needed"),
        (npy(np.zeros((0, 4))).replace(b"4), }" + b" " * 19, b"99999999999999999999), }"), "which cannot be"),
        (npy(np.zeros((1, 1, 1, 1))), r"shape \(1, 1, 1, 1\), which cannot be"),
        (npy(np.array([["a", "b"]])), "where a table of numbers is needed"),
        (npy(np.array([[{}]]), allow_pickle=True), r"type '\|O', where numbers are needed"),
        (npy(np.array([[1.0, 2.0], [3.0, np.inf]])), "row 1, column 1 is inf"),
        (npy(np.array([[1.0, 1e300]])), r"row 0, column 1 is 1e\+300"),
        (npy(np.ones((4, 4)))[:-8], "cut off: 128 bytes of numbers are announced, 120 are there"),
        (npy(np.ones((4, 4))).replace(b"(4, 4)", b"(9**99)"), "header is damaged"),
        (npy(np.ones((4, 4))).replace(b"(4, 4)", b"(-4,4)"), r"shape \(-4, 4\)"),
    ],
)
def test_what_is_wrong_is_said_with_file_row_and_value(data: bytes, message: str, folder: Path) -> None:
    with pytest.raises(DataError, match=message) as error:
        read_matrix(written(folder, data), column="label")
    assert str(folder / "matrix") in str(error.value)


def test_a_pickle_is_never_opened(folder: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(folder / "sprung"),)

    trap = np.array([Trap()], dtype=object)
    for data in (npy(trap.reshape(1, 1), allow_pickle=True), parts(data=trap)):
        with pytest.raises(DataError):
            read_matrix(written(folder, data))
    assert not (folder / "sprung").exists()


def test_an_array_of_more_bytes_than_the_file_is_not_allocated(folder: Path) -> None:
    huge = npy(np.ones((4, 4))).replace(b"(4, 4), }" + b" " * 10, b"(4, 99999999999), }")
    with pytest.raises(DataError, match="cut off: 3199999999968 bytes"):
        read_matrix(written(folder, huge))


# ---- damage ----


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed) - 1))
        changed[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(changed[: draw(st.integers(0, len(changed)))] if draw(st.booleans()) else changed)


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


MEMBERS = members(npz(MATRIX))


def with_member(name: str, content: bytes) -> bytes:
    """The archive with one member replaced and all checksums right, so that damage reaches the array's reader."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for member, old in MEMBERS.items():
            archive.writestr(member, content if member == name else old)
    return buffer.getvalue()


def is_sound_or_refused(path: Path) -> None:
    try:
        matrix = read_matrix(path)
    except DataError:
        return
    if isinstance(matrix, csr_array):
        matrix.check_format(full_check=True)
        assert matrix.has_canonical_format
    assert np.isfinite(matrix.data if isinstance(matrix, csr_array) else matrix).all()


@examples(300)
@given(data=st.one_of(damaged(npz(MATRIX)), damaged(npy(MATRIX.toarray())), damaged(gzip.compress(npz(MATRIX)))))
def test_a_damaged_file_gives_a_sound_matrix_or_is_refused(data: bytes, folder: Path) -> None:
    is_sound_or_refused(written(folder, data))


@examples(300)
@given(data=st.data(), name=st.sampled_from(sorted(MEMBERS)))
def test_a_damaged_member_gives_a_sound_matrix_or_is_refused(data: st.DataObject, name: str, folder: Path) -> None:
    is_sound_or_refused(written(folder, with_member(name, data.draw(damaged(MEMBERS[name])))))
