"""Bytes and lines, plain or gzip'd."""

from __future__ import annotations

import gzip
import os
import random
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.data.formats.lines import contents, decoded, lines
from laconic.errors import DataError
from tests.variants import examples


def written(folder: Path, data: bytes) -> Path:
    path = folder / "file.txt"
    path.write_bytes(data)
    return path


@examples(50)
@given(texts=st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), min_size=1))
def test_lines_come_back_as_they_were_written(texts: list[str], folder: Path) -> None:
    texts[0] = "first " + texts[0]  # not a byte order mark
    data = "".join(text + "\n" for text in texts).encode()
    expected = list(enumerate(texts, 1))
    assert list(lines(written(folder, data))) == expected
    assert list(lines(written(folder, data.replace(b"\n", b"\r\n")))) == expected
    assert list(lines(written(folder, gzip.compress(data)))) == expected
    assert contents(written(folder, gzip.compress(data))) == data


def test_the_last_line_needs_no_newline(folder: Path) -> None:
    assert list(lines(written(folder, b"a\n\nb"))) == [(1, "a"), (2, ""), (3, "b")]


def test_only_a_newline_ends_a_line(folder: Path) -> None:
    text = "a\x0bb\x0cc\x1cd\x85e\u2028f\rg"
    assert list(lines(written(folder, text.encode() + b"\n"))) == [(1, text)]


def test_a_byte_order_mark_is_no_part_of_the_first_line(folder: Path) -> None:
    assert list(lines(written(folder, b"\xef\xbb\xbfa\n\xef\xbb\xbfb"))) == [(1, "a"), (2, "\ufeffb")]


def test_gzip_is_told_by_content_not_by_name(folder: Path) -> None:
    path = folder / "plain.gz"
    path.write_bytes(b"not packed\n")
    assert list(lines(path)) == [(1, "not packed")]


def test_gzip_members_follow_one_another(folder: Path) -> None:
    assert contents(written(folder, gzip.compress(b"a\n") + gzip.compress(b"b\n"))) == b"a\nb\n"


@pytest.mark.parametrize("data", [b"", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_refused_unless_it_may_be_empty(data: bytes, folder: Path) -> None:
    path = written(folder, data)
    for read in (contents, lambda path: list(lines(path))):
        with pytest.raises(DataError, match=r"file\.txt: the file is empty"):
            read(path)
    assert list(lines(path, may_be_empty=True)) == []


def test_bytes_that_are_not_utf8_are_refused_with_line_byte_and_remedy(folder: Path) -> None:
    source = lines(written(folder, b"good\nca\xe9\x20x\n"))
    assert next(source) == (1, "good")
    with pytest.raises(DataError, match=r"file\.txt:2: byte 3 of the line is not UTF-8 \(hex e9 20 78\); .* iconv"):
        next(source)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_other_encodings_are_refused(encoding: str, folder: Path) -> None:
    with pytest.raises(DataError, match="is not UTF-8"):
        list(lines(written(folder, "é\n".encode(encoding))))


@given(cut=st.integers(2, 10_000))
def test_gzip_data_that_is_cut_off_is_refused(cut: int, folder: Path) -> None:
    whole = gzip.compress(random.Random(0).randbytes(2000))
    data = whole[: cut % (len(whole) - 2) + 2]
    with pytest.raises(DataError, match=r"file\.txt: the gzip data is cut off or damaged \(.*\); fetch or write"):
        contents(written(folder, data))


@examples(60)
@given(place=st.integers(0, 10_000), value=st.integers(0, 255))
def test_damaged_gzip_data_is_read_whole_or_refused(place: int, value: int, folder: Path) -> None:
    plain = b"one line\n" * 40
    data = bytearray(gzip.compress(plain))
    data[2 + place % (len(data) - 2)] = value
    with suppress(DataError):
        assert contents(written(folder, bytes(data))) == plain  # a time or a name in the header may change


def test_what_is_not_a_readable_file_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: there is no such file"):
        contents(folder / "nowhere")
    with pytest.raises(DataError, match=r": this is a folder, where a file is needed"):
        contents(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(folder: Path) -> None:
    path = written(folder, b"secret")
    path.chmod(0)
    with pytest.raises(DataError, match="reading it is not permitted"):
        contents(path)


@given(data=st.binary(max_size=20))
def test_bytes_are_decoded_exactly_or_refused(data: bytes) -> None:
    with suppress(DataError):
        assert decoded(data, "here:1").encode() == data
