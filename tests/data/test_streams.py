"""Texts from files of every form: all of them, in their order, with what goes along; what is bad is told of."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.data.formats.entries import Entry
from laconic.data.streams import FORMS, Reading, form_of, in_pieces, opened_stream, stream_of
from laconic.errors import ConfigError, DataError
from tests.variants import examples

TEXTS = ["red rose", "", 'a "quoted", listed; text', "tabs\tin it", "größer ✿", "red rose"]
IDS = ["a", "b", "c", "d", "e", "f"]


def as_lines(texts: list[str], ids: list[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def as_records(texts: list[str], ids: list[str]) -> bytes:
    return "".join(json.dumps({"id": id, "text": text}) + "\n" for text, id in zip(texts, ids, strict=True)).encode()


def as_table(texts: list[str], ids: list[str], delimiter: str = ",") -> bytes:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows([("Text", "id"), *zip(texts, ids, strict=True)])
    return file.getvalue().encode()


def as_parquet(texts: list[Any], ids: list[Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": ids, "text": texts}), file, row_group_size=4)
    return file.getvalue()


WRITTEN: dict[str, Callable[[list[str], list[str]], bytes]] = {
    "lines": as_lines,
    "jsonl": as_records,
    "csv": as_table,
    "tsv": lambda texts, ids: as_table(texts, ids, "\t"),
    "parquet": as_parquet,
}


def refused(error: DataError) -> None:
    raise error


def entries(path: Path, reading: Reading, on_bad: Callable[[DataError], None] = refused) -> list[Entry]:
    with opened_stream(path, reading, on_bad) as stream:
        return list(stream.entries)


def written(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


@pytest.mark.parametrize("form", FORMS)
def test_texts_come_in_their_order_with_what_their_records_say(form: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"texts.{form}", WRITTEN[form](TEXTS, IDS))
    with opened_stream(path, Reading(form=form), refused) as stream:
        found = list(stream.entries)
        assert list(stream.columns) == ([] if form == "lines" else ["id"])
        assert stream.position() == stream.size == (len(TEXTS) if form == "parquet" else path.stat().st_size)
    assert [entry.text for entry in found] == TEXTS
    assert [entry.fields.get("id") for entry in found] == ([None] * len(TEXTS) if form == "lines" else IDS)


@pytest.mark.parametrize("form", [form for form in FORMS if form != "parquet"])
def test_a_stream_and_a_packed_file_are_read_as_the_file_is(form: str, tmp_path: Path) -> None:
    data, reading = WRITTEN[form](TEXTS, IDS), Reading(form=form)
    expected = entries(written(tmp_path, "plain", data), reading)
    packed = written(tmp_path, "packed", gzip.compress(data))
    assert entries(packed, reading) == list(stream_of(io.BytesIO(data), "it", reading, refused).entries) == expected
    with opened_stream(packed, reading, refused) as stream:
        list(stream.entries)
        assert stream.position() == stream.size == packed.stat().st_size


@examples(30)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r")), min_size=1))
@pytest.mark.parametrize("form", ["jsonl", "csv", "tsv", "parquet"])
def test_whatever_a_text_is_it_comes_back(form: str, texts: list[str], folder: Path) -> None:
    path = written(folder, f"texts.{form}", WRITTEN[form](texts, texts))
    assert [entry.text for entry in entries(path, Reading(form=form))] == texts


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.jsonl", "jsonl"),
        ("a.JSON.gz", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.b.csv.gz", "csv"),
        ("a.TSV", "tsv"),
        ("a.parquet", "parquet"),
        ("a.txt", None),
        ("csv", None),
        ("-", None),
    ],
)
def test_an_ending_says_the_form(name: str, form: str | None) -> None:
    assert form_of(Path("folder.csv") / name) == form


def test_a_records_other_fields_are_not_touched(tmp_path: Path) -> None:
    record = {"id": 7, "title": "rose", "text": {"not": "a text"}, "nested": [None, True, 0.5, "ü"]}
    path = written(tmp_path, "a", json.dumps(record).encode() + b"\n\n  \n")
    assert entries(path, Reading(form="jsonl", column="title")) == [Entry("rose", record)]


def test_a_column_is_found_by_its_name_or_a_usual_one(tmp_path: Path) -> None:
    path = written(tmp_path, "a", b"name;Product;TITLE\nn;p;t\n")
    assert entries(path, Reading(form="csv")) == [Entry("t", {"name": "n", "Product": "p"})]
    assert entries(path, Reading(form="csv", column="product")) == [Entry("p", {"name": "n", "TITLE": "t"})]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_other_columns_come_with_a_text_in_their_order_and_ids_first(form: str, tmp_path: Path) -> None:
    table = {"sku": ["a1"], "title": ["red rose"], "text": ["not this"], "id": ["7"], "price": ["3"]}
    if form == "parquet":
        pq.write_table(pa.table(table), tmp_path / "a")
    else:
        written(tmp_path, "a", b"sku,title,text,id,price,sku\na1,red rose,not this,7,3,again\n")
    with opened_stream(tmp_path / "a", Reading(form=form, column="title"), refused) as stream:
        assert list(stream.columns) == ["id", "sku", "price"]
        assert list(stream.entries) == [Entry("red rose", {"id": "7", "sku": "a1", "price": "3"})]


def test_what_is_tab_separated_may_have_commas_in_its_first_line(tmp_path: Path) -> None:
    path = written(tmp_path, "a", b"text\nred, green\n")
    assert entries(path, Reading(form="tsv")) == [Entry("red, green", {})]


def test_ids_of_any_type_can_be_written_down(tmp_path: Path) -> None:
    import datetime

    days = [datetime.date(2024, 1, 2), None]
    path = written(tmp_path, "a", as_parquet(["x", "y"], days))
    assert [entry.fields for entry in entries(path, Reading(form="parquet"))] == [{"id": "2024-01-02"}, {"id": None}]
    path = written(tmp_path, "b", as_parquet(["x"], [1 << 60]))
    assert entries(path, Reading(form="parquet"))[0].fields == {"id": 1 << 60}


def parquet_of_bytes(texts: list[bytes]) -> bytes:
    """A column that says it is text, whatever its bytes are."""
    array = pa.Array.from_buffers(pa.string(), len(texts), pa.array(texts, pa.binary()).buffers())
    file = io.BytesIO()
    pq.write_table(pa.table({"text": array}), file)
    return file.getvalue()


BAD: list[tuple[str, bytes, str]] = [
    ("lines", b"one\n\xff\xfe\nthree\n", ":2: byte 1 of the line is not UTF-8"),
    ("jsonl", b'{"text": "one"}\n{"text": \n{"text": "three"}\n', ":2: this is not JSON"),
    ("jsonl", b'{"text": "one"}\n\n[1]\n{"text": "three"}\n', ":3: the line is [1], where a JSON object is needed"),
    ("jsonl", b'{"text": "one"}\n{"id": 3}\n{"text": "three"}\n', ':2: the key "text" is missing'),
    ("jsonl", b'{"text": "one"}\n{"text": null}\n{"text": "three"}\n', ':2: "text" is null, where a text is needed'),
    ("jsonl", b'{"text": "one"}\n{"text": "\\ud800"}\n{"text": "three"}\n', ':2: "text" holds half of a character'),
    ("csv", b"id,text\n1,one\n2,two,2\n3,three\n", ":3: 3 cells, where the first line names 2 columns"),
    ("csv", b'text,id\none,1\n"two"2,2\nthree,3\n', ":3: not a whole row"),
    ("csv", b"text,id\none,1\n\xff,2\nthree,3\n", ":3: byte 1 of the line is not UTF-8"),
    ("csv", b'text,id\n"one",1\n\n"a\nb"\nthree,3\n', ":4: 1 cell"),
    ("tsv", b"text\tid\none\t1\ntwo\nthree\t3\n", ":3: 1 cell, where the first line names 2 columns"),
    ("parquet", as_parquet(["one", None, "three"], ["1", "2", "3"]), ", row 2: 'text' is None, where a text is needed"),
    ("parquet", parquet_of_bytes([b"one", b"\xff", b"three"]), ", row 2: 'text' cannot be read"),
]


@pytest.mark.parametrize(("form", "data", "message"), BAD)
def test_what_is_bad_is_told_with_its_place_or_passed_over(
    form: str, data: bytes, message: str, tmp_path: Path
) -> None:
    path, reading = written(tmp_path, "file", data), Reading(form=form)
    with pytest.raises(DataError) as raised:
        entries(path, reading)
    assert f"{path}{message}" in str(raised.value)
    told: list[DataError] = []
    assert [entry.text for entry in entries(path, reading, told.append)] == ["one", "three"]
    assert [str(error) for error in told] == [str(raised.value)]


def test_a_quote_that_is_never_closed_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laconic.data.formats.entries._LONGEST_CELL", 1000)
    rows = "".join(f"text {number},{number}\n" for number in range(500))
    path = written(tmp_path, "a", f'text,id\none,1\n"two,2\n{rows}'.encode())
    told: list[DataError] = []
    found = entries(path, Reading(form="csv"), told.append)
    assert f"{path}:3: not a whole row (field larger than field limit" in str(told[0])
    assert found[0].text == "one"
    assert found[-1].text == "text 499"


@pytest.mark.parametrize(
    ("form", "data", "message"),
    [
        ("csv", b"", "the file is empty; its first line must name the columns"),
        ("csv", b"\xff,id\na,b\n", ":1: byte 1 of the line is not UTF-8"),
        ("csv", b"words,id\na,b\n", r"no column 'text' or .*; the columns are: words, id\. .*--column text=NAME"),
        ("tsv", b"text\ttext\na\tb\n", "the column 'text' is there twice"),
        ("parquet", b"", "this is not a whole Parquet file"),
        ("parquet", b"PAR1 and more", "this is not a whole Parquet file"),
        ("parquet", gzip.compress(as_parquet(["a"], ["b"]), mtime=0), "Parquet inside gzip .* gunzip it first"),
        ("lines", gzip.compress(b"a\n" * 5000, mtime=0)[:-20], "the gzip data is cut off or damaged"),
    ],
)
def test_a_file_that_is_bad_as_a_whole_is_not_passed_over(form: str, data: bytes, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, "file", data)
    with pytest.raises(DataError, match=f"file.*{message}"):
        entries(path, Reading(form=form), lambda error: None)


def test_a_parquet_file_that_breaks_off_inside_is_not_passed_over(tmp_path: Path) -> None:
    whole = as_parquet([f"text {number}" for number in range(20_000)], ["x"] * 20_000)
    half = bytearray(whole)
    half[len(whole) // 4 : len(whole) // 2] = bytes(len(whole) // 2 - len(whole) // 4)
    with pytest.raises(DataError, match="not a whole Parquet file"):
        entries(written(tmp_path, "a", bytes(half)), Reading(form="parquet"), lambda error: None)


@pytest.mark.parametrize("form", ["lines", "jsonl"])
def test_an_empty_file_has_no_texts(form: str, tmp_path: Path) -> None:
    assert entries(written(tmp_path, "a", b""), Reading(form=form)) == []


def test_what_cannot_be_read_so_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--format must be lines or jsonl .* but is 'xml'"):
        Reading(form="xml")
    with pytest.raises(ConfigError, match="--column is 'x', but lines have no columns"):
        Reading(form="lines", column="x")
    with pytest.raises(DataError, match="it: Parquet is read from its end"):
        stream_of(io.BytesIO(), "it", Reading(form="parquet"), refused)


def test_no_more_is_read_than_is_asked_for() -> None:
    file = io.BytesIO(b"text\n" * 99)
    pieces = in_pieces(stream_of(file, "it", Reading(form="lines"), refused).entries, 10)
    assert (len(next(pieces)), file.tell()) == (10, 10 * len("text\n"))
    assert [len(piece) for piece in pieces] == [10] * 8 + [9]
