"""A small file cannot make its reader fill the memory: what it announces is weighed against what it holds."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from scipy.sparse import coo_array, csr_array, save_npz

from laconic.data.formats.bounds import LONGEST_LINE, MEGABYTE
from laconic.data.formats.lines import contents, lines, opened
from laconic.data.formats.matrices import read_matrix
from laconic.data.sources import read
from laconic.data.streams import Reading, opened_stream
from laconic.errors import DataError


@contextmanager
def within(megabytes: int) -> Iterator[None]:
    tracemalloc.start()
    yield
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < megabytes * MEGABYTE


def written(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.fixture(scope="module")
def bomb() -> bytes:
    packed = io.BytesIO()
    with gzip.open(packed, "wb", compresslevel=6) as file:
        for _ in range(80):
            file.write(bytes(MEGABYTE))
    return packed.getvalue()


def test_gzip_that_unpacks_to_far_more_is_refused(bomb: bytes, tmp_path: Path) -> None:
    path = written(tmp_path / "texts.txt.gz", bomb)
    for reader in (contents, lambda path: list(lines(path))):
        with within(200), pytest.raises(DataError, match=r"bytes unpack to more than 67,108,864|longer than 16 MB"):
            reader(path)


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trn_X_Y.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", bytes(80 * MEGABYTE))
    with within(20), pytest.raises(DataError, match="bytes unpack to more than 67,108,864"):
        read_matrix(path)


def test_parquet_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "texts.parquet"
    table = pyarrow.table({"text": ["x" * MEGABYTE] * 200, "labels": ["a"] * 200})
    pyarrow.parquet.write_table(table, path, compression="zstd")
    del table
    with pytest.raises(DataError, match="bytes unpack to more than"):
        read(str(path))


@pytest.mark.parametrize("labels", [10**9, 10**13, 10**17 - 1])
def test_labels_that_only_a_header_knows_are_refused(labels: int, tmp_path: Path) -> None:
    written(tmp_path / "data" / "trn_X_Y.txt", f"2 {labels}\n0:1\n1:1\n")
    written(tmp_path / "data" / "trn_X.txt", "one\ntwo\n")
    written(tmp_path / "old.txt", f"1 {labels} 5\n0 1:1\n")
    written(tmp_path / "other.txt", f"1 5 {labels}\n0 1:1\n")
    for name in ("data", "old.txt", "other.txt"):
        with within(50), pytest.raises(DataError, match=r"(label|feature)s for [12] entr.*, which cannot be right"):
            read(str(tmp_path / name))


def test_label_numbers_out_of_proportion_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "trn.json", '{"uid": "a", "title": "one", "target_ind": [2147483646]}\n')
    with within(50), pytest.raises(DataError, match="2,147,483,647 labels for 1 entry, which cannot be right"):
        read(str(tmp_path))


@pytest.mark.parametrize("form", [coo_array, csr_array])
def test_a_matrix_of_a_shape_out_of_proportion_is_refused(form: Any, tmp_path: Path) -> None:
    largest = 2**31 - 1
    shape = (largest, 3) if form is coo_array else (3, largest)
    matrix = coo_array((np.ones(2, np.float32), ([0, 1], [1, 2])), shape=shape)
    save_npz(tmp_path / "trn_X_Y.npz", form(matrix))
    written(tmp_path / "trn_X.txt", "one\ntwo\nthree\n")
    with within(50), pytest.raises(DataError, match=r"2,147,483,647 (row|label)s for \d entries"):
        read(str(tmp_path))


@pytest.fixture
def short_lines() -> Iterator[None]:
    token = LONGEST_LINE.set(MEGABYTE)
    yield
    LONGEST_LINE.reset(token)


READERS: dict[str, Callable[[Path], object]] = {
    "lines": lambda path: list(lines(path)),
    "corpus": lambda path: read(str(path)),
    "stream": lambda path: _streamed(path),
}


def _streamed(path: Path) -> None:
    def refused(error: DataError) -> None:
        raise error

    with opened_stream(path, Reading(form="csv"), refused) as stream:
        list(stream.entries)


@pytest.mark.usefixtures("short_lines")
@pytest.mark.parametrize("reader", READERS)
def test_a_line_that_is_too_long_is_refused_with_its_number(reader: str, tmp_path: Path) -> None:
    path = written(tmp_path / "texts.csv", "text,labels\none,a\n" + "x" * (MEGABYTE + 1) + ",b\n")
    with pytest.raises(DataError, match=r"texts\.csv:3: the line is longer than 1 MB; .*\(--max-line\)"):
        READERS[reader](path)


@pytest.mark.usefixtures("short_lines")
def test_a_line_of_just_that_length_is_read(tmp_path: Path) -> None:
    longest = "x" * (MEGABYTE - 1)
    assert list(lines(written(tmp_path / "texts.txt", f"{longest}\n{longest}"))) == [(1, longest), (2, longest)]


@pytest.mark.usefixtures("short_lines")
@pytest.mark.parametrize("reader", ["corpus", "stream"])
def test_a_quote_that_is_never_closed_ends_soon(reader: str, tmp_path: Path) -> None:
    path = written(tmp_path / "texts.csv", 'text,labels\n"one,a\n' + "two,b\n" * 400_000)
    with within(20), pytest.raises(DataError, match=r"texts\.csv:2: not a whole row"):
        READERS[reader](path)


def test_errors_of_whoever_reads_are_not_those_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "texts.txt", gzip.compress(b"one\n"))
    for error in (FileNotFoundError("another file"), PermissionError("another"), EOFError("a pickle")):
        with pytest.raises(type(error), match=str(error)), opened(path):
            raise error
