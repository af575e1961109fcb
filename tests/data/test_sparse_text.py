"""The compiled reader of sparse text against a slow one that is short enough to be believed, and scikit-learn's."""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array
from sklearn.datasets import load_svmlight_file

from laconic.data.formats import sparse_kernels, sparse_text
from laconic.data.formats.sparse_text import read_labelled, read_sparse
from laconic.errors import DataError
from tests.variants import examples

# ---- the plain twin ----

BLANKS = b" \t\r"
ENTRY = re.compile(rb"([0-9]+):([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")


def slow_sparse(data: bytes) -> csr_array:
    rows, (columns,) = slow_rows(data, 2)
    return slow_matrix([slow_entries(row, columns) for row in rows], columns)


def slow_labelled(data: bytes) -> tuple[csr_array, csr_array]:
    rows, (num_features, num_labels) = slow_rows(data, 3)
    labels, features = [], []
    for row in rows:
        first = b""
        if row[:1].strip(BLANKS) and not re.match(rb"[0-9]*:", row):
            first = re.split(rb"[ \t\r]", row)[0]
            require(re.fullmatch(rb"[0-9]+(,[0-9]+)*", first))
        names = [int(label) for label in first.split(b",") if label]
        require(all(label < num_labels for label in names) and len(set(names)) == len(names))
        labels.append(dict.fromkeys(names, 1.0))
        features.append(slow_entries(row[len(first) :], num_features))
    return slow_matrix(labels, num_labels), slow_matrix(features, num_features)


def slow_rows(data: bytes, numbers: int) -> tuple[list[bytes], list[int]]:
    header, *rows = data.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n") if data else [b""]
    sizes = header.split()
    require(len(sizes) == numbers and all(re.fullmatch(rb"[0-9]{1,17}", size) for size in sizes))
    count, *columns = map(int, sizes)
    require(len(rows) >= count and not b"".join(rows[count:]).strip(BLANKS))
    return rows[:count], columns


def slow_entries(row: bytes, columns: int) -> dict[int, float]:
    entries: dict[int, float] = {}
    for token in filter(None, re.split(rb"[ \t\r]+", row)):
        match = require(ENTRY.fullmatch(token))
        index, value = int(match[1]), float(match[2])
        require(index < columns and index not in entries and abs(value) < 3.4028235677973366e38)
        entries[index] = value
    return entries


def slow_matrix(rows: list[dict[int, float]], columns: int) -> csr_array:
    starts = np.cumsum([0, *map(len, rows)])
    indices = [index for row in rows for index in sorted(row)]
    values = [np.float32(row[index]) for row in rows for index in sorted(row)]
    return csr_array((np.array(values, np.float32), np.array(indices, np.int64), starts), shape=(len(rows), columns))


def require(condition: object) -> re.Match[bytes]:
    if not condition:
        raise ValueError
    return condition


# ---- what the tests are made with ----


def written(folder: Path, data: bytes) -> Path:
    path = folder / "matrix.txt"
    path.write_bytes(data)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sparse")


def equal(one: csr_array, other: csr_array) -> bool:
    """Bit for bit, explicit zeros and their signs included."""
    return (
        one.shape == other.shape
        and one.dtype == other.dtype == np.float32
        and np.array_equal(one.indptr, other.indptr)
        and np.array_equal(one.indices, other.indices)
        and np.array_equal(one.data.view(np.int32), other.data.view(np.int32))
    )


@contextmanager
def interpreted() -> Iterator[None]:
    """Every kernel as plain Python, whose arrays refuse an index beyond their end."""
    with pytest.MonkeyPatch.context() as patch:
        for name, kernel in vars(sparse_kernels).copy().items():
            if hasattr(kernel, "py_func"):
                patch.setattr(sparse_kernels, name, kernel.py_func)
                patch.setattr(sparse_text, name, kernel.py_func, raising=False)
        yield


VALUES = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from(["1", "1.", ".5", "-0", "+2.50", "1e-5", "3E+2", "7e-46", "0.1234567890123456789", "1e38"]),
    st.decimals(-1000, 1000, places=6).map(str),
)


@st.composite
def rows_of_entries(draw: st.DrawFn, columns: int) -> str:
    indices = draw(st.lists(st.integers(0, columns - 1), unique=True, max_size=6))
    blank = draw(st.sampled_from([" ", " ", "  ", "\t"]))
    return blank.join(f"{index}:{draw(VALUES)}" for index in indices)


@st.composite
def sparse_files(draw: st.DrawFn) -> bytes:
    columns = draw(st.sampled_from([1, 7, 40_000, 2**33]))
    rows = draw(st.lists(rows_of_entries(columns), max_size=6))
    return finished(draw, [f"{len(rows)} {columns}", *rows])


@st.composite
def labelled_files(draw: st.DrawFn) -> bytes:
    num_features, num_labels = draw(st.sampled_from([1, 300])), draw(st.sampled_from([1, 5, 700_000]))
    rows = []
    for _ in range(draw(st.integers(0, 6))):
        labels = draw(st.lists(st.integers(0, num_labels - 1), unique=True, max_size=4))
        rows.append(",".join(map(str, labels)) + " " + draw(rows_of_entries(num_features)))
    return finished(draw, [f"{len(rows)} {num_features} {num_labels}", *rows])


def finished(draw: st.DrawFn, lines: list[str]) -> bytes:
    newline = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    ending = draw(st.sampled_from([newline, newline, newline * 3, " " + newline, ""]))
    # Without its newline an empty last line would not be there at all.
    return (newline.join(lines) + (ending if lines[-1].strip() else newline)).encode()


@st.composite
def damaged(draw: st.DrawFn, files: st.SearchStrategy[bytes]) -> bytes:
    data = bytearray(draw(files))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        new = draw(st.lists(st.sampled_from(b"0123456789:,. \t\r\n+-eEnaif\xff\x00"), max_size=3))
        data[at : at + draw(st.integers(0, 3))] = bytes(new)
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)


def same_as_slow(read: Callable[[Path], object], slow: Callable[[bytes], object], data: bytes, folder: Path) -> None:
    try:
        expected = slow(data)
    except ValueError:
        with pytest.raises(DataError):
            read(written(folder, data))
        return
    found = read(written(folder, data))
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    assert all(equal(one, other) for one, other in pairs)


# ---- agreement ----


@examples(80)
@given(data=sparse_files())
def test_valid_matrices_read_as_the_slow_twin_reads_them(data: bytes, folder: Path) -> None:
    assert equal(read_sparse(written(folder, data)), slow_sparse(data))


@examples(80)
@given(data=labelled_files())
def test_valid_old_files_read_as_the_slow_twin_reads_them(data: bytes, folder: Path) -> None:
    same_as_slow(read_labelled, slow_labelled, data, folder)


@examples(250)
@given(data=damaged(sparse_files()))
def test_a_damaged_matrix_reads_as_by_the_slow_twin_or_is_refused(data: bytes, folder: Path) -> None:
    same_as_slow(read_sparse, slow_sparse, data, folder)


@examples(250)
@given(data=damaged(labelled_files()))
def test_a_damaged_old_file_reads_as_by_the_slow_twin_or_is_refused(data: bytes, folder: Path) -> None:
    same_as_slow(read_labelled, slow_labelled, data, folder)


@examples(120)
@given(sparse=damaged(sparse_files()), labelled=damaged(labelled_files()))
def test_the_kernels_stay_within_their_arrays(sparse: bytes, labelled: bytes, folder: Path) -> None:
    with interpreted():
        same_as_slow(read_sparse, slow_sparse, sparse, folder)
        same_as_slow(read_labelled, slow_labelled, labelled, folder)


@examples(200)
@given(
    header=st.sampled_from(["0 1", "1 5", "3 5", "2 9 4", "4 2 1"]),
    rest=st.text("0123456789:,. \t\r\n+-eEna", max_size=40),
)
def test_arbitrary_lines_stay_within_the_arrays(header: str, rest: str, folder: Path) -> None:
    data = f"{header}\n{rest}".encode()
    with interpreted():
        same_as_slow(read_sparse, slow_sparse, data, folder)
        same_as_slow(read_labelled, slow_labelled, data, folder)


@examples(50)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 20))
def test_old_files_agree_with_scikit_learn(seed: int, rows: int, folder: Path) -> None:
    generator = np.random.default_rng(seed)
    features = random_array((rows, 30), density=0.3, format="csr", dtype=np.float32, rng=generator)
    labels = [np.flatnonzero(generator.random(9) < 0.2) for _ in range(rows)]
    # scikit-learn passes over lines on which there is nothing at all, so every line has a feature.
    features = csr_array(features + csr_array(np.eye(rows, 30, k=0) + np.eye(rows, 30, k=-29)), dtype=np.float32)
    lines = [
        f"{','.join(map(str, labels[i]))} "
        + " ".join(f"{j}:{float(v)!r}" for j, v in zip(features[[i]].indices, features[[i]].data, strict=True))
        for i in range(rows)
    ]
    body = ("\n".join(lines) + "\n").encode()
    found_labels, found = read_labelled(written(folder, f"{rows} 30 9\n".encode() + body))
    expected, their_labels = load_svmlight_file(
        io.BytesIO(body), n_features=30, dtype=np.float32, multilabel=True, zero_based=True
    )
    assert equal(found, csr_array(expected))
    assert [tuple(map(int, row)) for row in their_labels] == [tuple(found_labels[[i]].indices) for i in range(rows)]


# ---- numbers ----


def read_values(tokens: list[str], folder: Path) -> np.ndarray:
    row = " ".join(f"{index}:{token}" for index, token in enumerate(tokens))
    return read_sparse(written(folder, f"1 {len(tokens)}\n{row}\n".encode())).data


NUMERALS = st.builds(
    lambda sign, whole, part, exponent: f"{sign}{whole}.{part}{exponent}",
    st.sampled_from(["", "-", "+"]),
    st.text("0123456789", max_size=25).map(lambda digits: digits or "0"),
    st.text("0123456789", max_size=25),
    st.one_of(st.just(""), st.integers(-60, 10).map(lambda exponent: f"e{exponent}")),
)


@examples(200)
@given(tokens=st.lists(NUMERALS, min_size=1, max_size=20))
def test_decimals_are_read_exactly_as_python_reads_them(tokens: list[str], folder: Path) -> None:
    expected = np.array([np.float32(float(token)) for token in tokens])
    assert np.array_equal(read_values(tokens, folder).view(np.int32), expected.view(np.int32))


def test_decimals_beside_the_middle_of_two_neighbours_are_read_exactly(folder: Path) -> None:
    values = np.random.default_rng(0).uniform(1e-4, 10, 200).astype(np.float32)
    middles = (values.astype(np.float64) + np.nextafter(values, np.float32(np.inf)).astype(np.float64)) / 2
    tokens = [str(Decimal(float(middle))) for middle in middles]
    tokens += [f"{token}0000001" for token in tokens] + [f"{middle:.16g}" for middle in middles]
    expected = np.array([np.float32(float(token)) for token in tokens])
    assert np.array_equal(read_values(tokens, folder), expected)


def test_an_endless_number_is_no_trouble(folder: Path) -> None:
    tokens = ["0." + "3" * 5000, "0." + "0" * 5000 + "1e5000", "1" + "0" * 30, "1e-99999999999999999999999"]
    expected = np.array([np.float32(float(token)) for token in tokens])
    assert np.array_equal(read_values(tokens, folder), expected)


# ---- forms ----


def test_rows_may_be_empty_unsorted_and_gzipped(folder: Path) -> None:
    data = gzip.compress(b"3 5\n4:2 0:1\n\n2:.5\n")
    matrix = read_sparse(written(folder, data))
    assert matrix.toarray().tolist() == [[1, 0, 0, 0, 2], [0, 0, 0, 0, 0], [0, 0, 0.5, 0, 0]]
    assert matrix.has_canonical_format


def test_a_leading_space_means_no_labels(folder: Path) -> None:
    labels, features = read_labelled(written(folder, b"4 3 9\n8,1 0:1\n 2:1\n3\n1:5\n"))
    assert [row.tolist() for row in np.split(labels.indices, labels.indptr[1:-1])] == [[1, 8], [], [3], []]
    assert features.toarray().tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 5, 0]]
    assert labels.dtype == features.dtype == np.float32


def test_more_columns_than_32_bits_count_are_read(folder: Path) -> None:
    assert read_sparse(written(folder, b"1 8589934592\n8589934591:1\n")).indices.tolist() == [8589934591]


# ---- refusals ----


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"matrix\.txt: the file is empty"),
        (b"\n", r":1: the first line is '', where the 2 sizes are needed: rows, labels"),
        (b"abc\n", r":1: the first line is 'abc'"),
        (b"1 2 3\n0:1\n", r":1: the first line is '1 2 3'"),
        (b"-1 2\n", r":1: the first line is '-1 2'"),
        (b"3 5\n0:1\n1:1\n", r"announces 3 rows, but the file has 2; is it cut off in the middle\?"),
        (b"99999999999999999 5\n0:1\n", r"announces 99999999999999999 rows, but the file has 1"),
        (b"1 5\n0:1\n\n2:1\n", r":4: the header announces 1 rows, but there are more: '2:1'"),
        (
            b"2 131073\n0:1\n5:1 131073:1\n",
            r":3: label 131073 is outside 0\.\.131072 announced in the header: '131073:1'",
        ),
        (b"1 5\n99999999999999999999999:1\n", r":2: label 9+ is outside 0\.\.4"),
        (b"1 5\n-1:1\n", r":2: label -1 is negative"),
        (b"3 5\n0:1\n1:1\n2:1 4:1 2:3\n", r":4: label 2 is there twice"),
        (b"1 5\n0:nan\n", r":2: the value is not finite: '0:nan'"),
        (b"1 5\n0:-Infinity\n", r":2: the value is not finite"),
        (b"1 5\n0:1e39\n", r":2: the value is too large for a 32-bit number: '1e39'"),
        (b"1 15\n12:\n", r":2: the value is not a decimal number: '12:'"),
        (b"1 5\n0:1e\n", r":2: the value is not a decimal number: '0:1e'"),
        (b"1 5\n0:1:1\n", r":2: the value is not a decimal number"),
        (b"1 5\n0:1_0\n", r":2: the value is not a decimal number"),
        (b"1 5\nabc:1\n", r":2: the label 'abc' is not an integer: 'abc:1'"),
        (b"1 5\n3\n", r":2: this is not `index:value`: '3'"),
        (b"1 5\n" + b"x" * 1000 + b"\n", r":2: this is not `index:value`: 'x{79}…'"),
        (gzip.compress(b"1 5\n3:1\n", mtime=0)[:-9], r"gzip data is cut off or damaged"),
    ],
)
def test_a_matrix_is_refused_with_its_place_and_value(data: bytes, message: str, folder: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_sparse(written(folder, data), column="label")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1 5\n0:1\n", r":1: the first line is '1 5', where the 3 sizes are needed: texts, features, labels"),
        (b"2 5 5\n0 0:1\n", r"announces 2 texts, but the file has 1; is it cut off in the middle\?"),
        (b"1 5 5\n7,1 0:1\n", r":2: label 7 is outside 0\.\.4 announced in the header: '7,1'"),
        (b"1 5 5\n1,-3 0:1\n", r":2: label -3 is negative"),
        (b"1 5 5\n1, 0:1\n", r":2: the label '' is not an integer: '1,'"),
        (b"1 5 5\n1,x 0:1\n", r":2: the label 'x' is not an integer"),
        (b"1 5 5\n1,2:3 0:1\n", r":2: the label '2:3' is not an integer"),
        (b"1 5 5\n3,1,3 0:1\n", r":2: label 3 is there twice"),
        (b"1 5 5\n 1,2 0:1\n", r":2: this is not `index:value`: '1,2'"),
        (b"1 5 5\n1 9:1\n", r":2: feature 9 is outside 0\.\.4"),
        (b"1 5 5\n1 0:1 0:2\n", r":2: feature 0 is there twice"),
    ],
)
def test_an_old_file_is_refused_with_its_place_and_value(data: bytes, message: str, folder: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_labelled(written(folder, data))
