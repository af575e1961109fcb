"""CSV, TSV and Parquet: columns found or named, labels cut, and errors with file, line, value and remedy."""

from __future__ import annotations

import csv
import gzip
import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.data.formats.assemble import Row, corpus_of
from laconic.data.formats.tabular import Columns, delimited_table, parquet_table, table_rows
from laconic.errors import DataError
from tests.variants import examples


def delimited(folder: Path, data: bytes | str, **columns: Any) -> list[Row]:
    path = folder / "table.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return list(table_rows({"": delimited_table(path, Columns(**columns))}, Columns(**columns)).rows[""])


def parquet(folder: Path, table: pa.Table | dict[str, Any], **columns: Any) -> list[Row]:
    path = folder / "table.parquet"
    pyarrow.parquet.write_table(table if isinstance(table, pa.Table) else pa.table(table), path)
    return list(table_rows({"": parquet_table(path, Columns(**columns))}, Columns(**columns)).rows[""])


def texts_and_labels(rows: list[Row]) -> list[tuple[str | None, list[str | int]]]:
    return [(row.text, list(row.labels)) for row in rows]


def test_columns_are_found_by_their_usual_names(tmp_path: Path) -> None:
    rows = delimited(tmp_path, "ID, Title ,weight,price,Tags\n7,red apple,2.5,9,fruit|red\n,sky,,9,\n")
    assert texts_and_labels(rows) == [("red apple", ["fruit", "red"]), ("sky", [])]
    assert [(row.id, row.weight) for row in rows] == [("7", 2.5), (None, None)]
    assert rows[1].place.endswith("table.csv:3")


def test_columns_and_the_separator_can_be_named(tmp_path: Path) -> None:
    data = "text,labels,Name,Topic,key,importance\nno,no,red apple,a|b / c,k1,3\n"
    named = {"text": "name", "labels": "topic", "id": "KEY", "weight": "importance", "separator": " / "}
    (row,) = delimited(tmp_path, data, **named)
    assert (row.text, row.labels, row.id, row.weight) == ("red apple", ["a|b", "c"], "k1", 3)
    (row,) = parquet(tmp_path, {"name": ["red apple"], "topic": ["a|b / c"], "key": [1], "importance": [3]}, **named)
    assert (row.text, row.labels, row.id, row.weight) == ("red apple", ["a|b", "c"], "1", 3)


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["a|b;c", "d,e"], [["a", "b;c"], ["d,e"]]),
        (["a;b, c", "d,e"], [["a;b", "c"], ["d", "e"]]),
        (["a,b , c", "d"], [["a", "b", "c"], ["d"]]),
        (["a b", " ,, "], [["a b"], []]),
    ],
)
def test_the_separator_is_the_one_that_most_cells_have_or_the_first_of_equals(
    cells: list[str], labels: list[list[str]], tmp_path: Path
) -> None:
    data = "text\tlabels\n" + "".join(f"t\t{cell}\n" for cell in cells)
    assert [row.labels for row in delimited(tmp_path, data)] == labels
    assert [row.labels for row in parquet(tmp_path, {"text": ["t"] * len(cells), "labels": cells})] == labels


def test_a_space_may_separate_labels(tmp_path: Path) -> None:
    assert delimited(tmp_path, "text,labels\nt,a b\n", separator=" ")[0].labels == ["a", "b"]


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_delimiter_is_that_of_the_first_line(delimiter: str, pack: Any, tmp_path: Path) -> None:
    data = '\ufefftext,labels\r\n"a ""b"", c\nd",x\r\n\r\n,y\r\n'.replace(",", delimiter)
    rows = delimited(tmp_path, pack(data.encode()))
    assert texts_and_labels(rows) == [(f'a "b"{delimiter} c\nd', ["x"]), ("", ["y"])]
    assert [row.place.rsplit(":", 1)[1] for row in rows] == ["2", "5"]  # where a row begins, whatever is in its quotes


def test_quotes_can_be_characters_like_any_other(tmp_path: Path) -> None:
    rows = delimited(tmp_path, 'text\tlabels\n5" nail\tx\n"so" they say\ty\n', quotes=False)
    assert texts_and_labels(rows) == [('5" nail', ["x"]), ('"so" they say', ["y"])]


CELLS = st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]), max_size=8)
NAMES = st.text("abc é+", min_size=1, max_size=4).map(str.strip).filter(bool)


@examples(60)
@given(
    table=st.lists(st.tuples(CELLS, st.lists(NAMES, max_size=3)), min_size=1, max_size=5),
    delimiter=st.sampled_from(",;\t"),
)
def test_what_csv_writes_is_read_back(table: list[tuple[str, list[str]]], delimiter: str, folder: Path) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerow(["text", "labels"])
    writer.writerows((text, "|".join(labels)) for text, labels in table)
    rows = delimited(folder, buffer.getvalue(), separator="|")
    assert texts_and_labels(rows) == table


@examples(30)
@given(table=st.lists(st.tuples(CELLS, st.lists(NAMES, max_size=3)), min_size=1, max_size=5))
def test_what_parquet_writes_is_read_back(table: list[tuple[str, list[str]]], folder: Path) -> None:
    columns = {
        "text": [text for text, _ in table],
        "labels": pa.array([labels for _, labels in table], pa.list_(pa.string())),
    }
    assert texts_and_labels(parquet(folder, columns)) == table


def test_parquet_labels_may_be_numbers_categories_or_missing(tmp_path: Path) -> None:
    (first, second) = parquet(tmp_path, {"text": ["a", "b"], "labels": [[3, 5], None]})
    assert (first.labels, second.labels) == ([3, 5], [])
    categories = pa.array(["x|y", "x"]).dictionary_encode()
    assert [row.labels for row in parquet(tmp_path, {"text": ["a", "b"], "labels": categories})] == [["x", "y"], ["x"]]


def test_per_text_weights_reach_the_corpus(tmp_path: Path) -> None:
    rows = delimited(tmp_path, "text,labels,weight\na,x,2\nb,y,\n")
    weights = corpus_of({"all": rows}, None, source="table").split("train").weights
    assert weights is not None
    assert weights.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", r"table\.csv: the file is empty"),
        (
            "body,labels\n",
            r"table\.csv: no column 'text' or 'title' or .*; the columns are: body, labels\. Name the one",
        ),
        ("text,topic\n", r"no column 'labels' or .* Name the one that holds the labels"),
        (
            "A red rose\nA blue sky\n",
            r"the columns are: A red rose\. .* \(--column text=NAME --column labels=NAME\); if this is the first text",
        ),
        ("text,labels\na,b,c\n", r"table\.csv:2: 3 cells, where the first line names 2 columns; mend the row"),
        ("text,labels\na,b\nc\n", r"table\.csv:3: 1 cell, where"),
        ('text,labels\na,b\n"a"b,c\n', r"table\.csv:3: not a whole row .*quotes"),
        ('text,labels\na,b\n"cut off\nc,d\n', r"table\.csv:3: not a whole row .*quotes"),
        ("text,labels\rold,mac\r", r"table\.csv:1: not a whole row"),
        (b"text,labels\nok,x\nca\xe9,x\n", r"table\.csv:3: byte 3 of the line is not UTF-8"),
        (
            "text,labels,weight\na,b,-1\n",
            r"table\.csv:2: the weight of a text must be a number of 0 or more, but is '-1'",
        ),
        ("text,labels,weight\na,b,nan\n", r":2: the weight of a text must be .* but is 'nan'"),
        ("text,labels,weight\na,b,inf\n", r":2: the weight of a text must be .* but is 'inf'"),
        ("text,labels,weight\na,b,much\n", r":2: the weight of a text must be .* but is 'much'"),
        (gzip.compress(b"text,labels\na,b\n", mtime=0)[:-3], r"table\.csv: the gzip data is cut off or damaged"),
    ],
)
def test_a_table_that_is_wrong_is_refused_with_its_place_and_value(
    data: bytes | str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        delimited(tmp_path, data)


def test_a_named_column_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"no column 'key'; the columns are: text, labels\. Name the one that holds the id"
    ):
        delimited(tmp_path, "text,labels\na,b\n", id="key")


INVALID_UTF8 = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(bytes([0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])), pa.py_buffer(b"ok\xe9")]
)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"body": ["a"], "labels": ["b"]}, r"table\.parquet: no column 'text'"),
        ({"text": ["a", None], "labels": ["b", "c"]}, r"table\.parquet, row 2: the text is None, where text is needed"),
        ({"text": [b"\xff"], "labels": ["b"]}, r"row 1: the text is b'\\xff', where text is needed; write the column"),
        ({"text": [5], "labels": ["b"]}, r"row 1: the text is 5, where text is needed"),
        ({"text": ["a"], "labels": [[1.5]]}, r"row 1: a label is 1\.5, where text is needed"),
        ({"text": ["a"], "labels": [[None]]}, r"row 1: a label is None, where text is needed"),
        ({"text": ["a"], "labels": [{"x": 1}]}, r"row 1: the labels is \{'x': 1\}, where text is needed"),
        ({"text": ["a"], "labels": ["b"], "weight": [float("nan")]}, r"row 1: the weight of a text .* but is 'nan'"),
        ({"text": ["a"], "labels": ["b"], "weight": [-2]}, r"row 1: the weight of a text .* but is '-2'"),
        ({"text": INVALID_UTF8, "labels": ["b", "c"]}, r"table\.parquet, row 2: not to be read \(.*utf-8.*\)"),
    ],
)
def test_a_parquet_table_that_is_wrong_is_refused_with_its_row_and_value(
    table: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        parquet(tmp_path, table)


WHOLE = pa.table(
    {"text": ["apple", "größe"] * 3, "labels": [["a", "b"], []] * 3, "weight": [1.0, None] * 3, "id": [1, 2] * 3}
)


def parquet_bytes() -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(WHOLE, buffer)
    return buffer.getvalue()


@examples(100)
@given(
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3),
    end=st.none() | st.integers(0, 10**6),
)
def test_a_damaged_parquet_file_is_read_or_refused(
    changes: list[tuple[int, int]], end: int | None, folder: Path
) -> None:
    data = bytearray(parquet_bytes())
    for place, value in changes:
        data[place % len(data)] = value
    kept = data if end is None else data[: end % len(data)]
    path = folder / "damaged.parquet"
    path.write_bytes(kept)
    with suppress(DataError):
        rows = list(table_rows({"": parquet_table(path, Columns())}, Columns()).rows[""])
        assert end is None  # what is cut off is never read
        assert all(isinstance(row.text, str) for row in rows)


@examples(150)
@given(
    data=st.binary(max_size=60)
    | st.text("text,labels\n\t;\"'|a0", max_size=60).map(lambda rest: f"text,labels,weight\n{rest}".encode()),
    quotes=st.booleans(),
)
def test_any_bytes_are_read_or_refused(data: bytes, quotes: bool, folder: Path) -> None:
    with suppress(DataError):
        rows = delimited(folder, data, quotes=quotes)
        assert all(label == label.strip() != "" for row in rows for label in map(str, row.labels))
