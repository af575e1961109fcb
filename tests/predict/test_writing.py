"""Answers as files: every form says the same, and a file is there whole or not at all."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from laconic.data.formats.entries import Entry
from laconic.errors import ConfigError
from laconic.predict import output as writing
from laconic.predict.output import Answered, Destination, Shape, answers_file
from laconic.predict.predictor import Prediction

ENTRIES = [Entry("red, rose", {"id": 7, "more": [1]}), Entry('a "b"\nc\td', {"id": "ü"}), Entry("", {})]
ANSWERS = [
    [Prediction("flower, cut", 0.1), Prediction("red", 1 / 3)],
    [],
    [Prediction("größer", 1e-9)],
]
KNOWN = [2, 1, 0]  # words
COLUMNS = ["text", "id", "label_1", "score_1", "label_2", "score_2", "known_words"]
ROWS = [
    ["red, rose", "7", "flower, cut", 0.1, "red", 1 / 3, 2],
    ['a "b"\nc\td', "ü", None, None, None, None, 1],
    ["", None, "größer", 1e-9, None, None, 0],
]


def write(
    path: Path, entries: Sequence[Entry] = ENTRIES, answers: Any = ANSWERS, columns: Sequence[str] = ("id",)
) -> Path:
    with answers_file(Destination.at(path), Shape(columns, places=2)) as write:
        for answered in zip(entries, answers, KNOWN, strict=False):
            write([Answered(*answered)])
    return path


def read_table(path: Path) -> list[list[Any]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    delimiter = "\t" if ".tsv" in path.name else ","
    return list(csv.reader(text.splitlines(keepends=True), delimiter=delimiter, strict=True))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz"])
def test_a_table_has_a_row_a_text_and_two_columns_a_place(name: str, tmp_path: Path) -> None:
    header, *rows = read_table(write(tmp_path / name))
    assert header == COLUMNS
    assert rows == [["" if cell is None else str(cell) for cell in row] for row in ROWS]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_line_of_json_has_all_that_the_record_had(name: str, tmp_path: Path) -> None:
    data = write(tmp_path / name).read_bytes()
    lines = (gzip.decompress(data) if name.endswith("gz") else data).decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "text": entry.text,
            **entry.fields,
            "predictions": [{"label": p.label, "score": p.score} for p in answer],
            "known_words": known,
        }
        for entry, answer, known in zip(ENTRIES, ANSWERS, KNOWN, strict=True)
    ]
    assert list(json.loads(lines[0])) == ["text", "id", "more", "predictions", "known_words"]


@pytest.mark.parametrize("group", [1, 2, 100])
def test_parquet_has_the_columns_of_a_table(group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_ROW_GROUP", group)
    table = pq.read_table(write(tmp_path / "a.parquet"))
    assert table.column_names == COLUMNS
    assert [list(row.values()) for row in table.to_pylist()] == ROWS


def test_texts_without_ids_have_no_column_for_them(tmp_path: Path) -> None:
    assert read_table(write(tmp_path / "a.csv", columns=()))[0] == ["text", *COLUMNS[2:]]
    assert pq.read_table(write(tmp_path / "a.parquet", columns=())).column_names == ["text", *COLUMNS[2:]]


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_columns_that_texts_come_with_are_kept_but_for_those_of_answers(name: str, tmp_path: Path) -> None:
    fields = {"id": "7", "price": 3, "score_of_shop": "high", "label_2": "old", "score_9": "0.1", "known_words": "4"}
    path = write(tmp_path / name, [Entry("rose", fields)], [[Prediction("flower", 0.5)]], list(fields))
    wanted = ["text", "id", "price", "score_of_shop", *COLUMNS[2:]]
    if name == "a.parquet":
        table = pq.read_table(path)
        assert table.column_names == wanted
        assert list(table.to_pylist()[0].values()) == ["rose", "7", "3", "high", "flower", 0.5, None, None, 2]
    else:
        assert read_table(path) == [wanted, ["rose", "7", "3", "high", "flower", "0.5", "", "", "2"]]


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_no_texts_are_a_file_without_answers(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, [], [])
    if name == "a.jsonl":
        assert path.read_bytes() == b""
    else:
        header = pq.read_table(path).column_names if name == "a.parquet" else read_table(path)[0]
        assert header == COLUMNS


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_half_a_character_beside_the_text_can_be_written(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, [Entry("ü", {"id": "\ud800"})], [[]])
    if name == "a.jsonl":
        assert json.loads(path.read_text())["id"] == "\ud800"
    else:
        row = pq.read_table(path).to_pylist()[0] if name == "a.parquet" else dict(zip(*read_table(path), strict=True))
        assert row["id"] == "\\ud800"


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.parquet"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_breaks_off_leaves_the_old_file_or_none(name: str, error: type[BaseException], tmp_path: Path) -> None:
    def breaking_off() -> None:
        with answers_file(Destination.at(tmp_path / name), Shape(("id",), 2)) as write:
            write([Answered(*one) for one in zip(ENTRIES, ANSWERS, KNOWN, strict=True)])
            raise error

    for expected in ({}, {name: b"old"}):
        for path, data in expected.items():
            (tmp_path / path).write_bytes(data)
        with pytest.raises(error):
            breaking_off()
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == expected


def test_the_same_answers_are_the_same_bytes(tmp_path: Path) -> None:
    one, other = (write(tmp_path / folder / "a.jsonl.gz") for folder in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").touch()
    for name, message in (
        ("a.txt", "--out must end in .jsonl, .csv, .tsv or .parquet, .gz may follow; but it is .*a.txt"),
        ("a.parquet.gz", "Parquet packs itself; leave .gz out"),
        ("folder.csv", "this is there already and is no file"),
        ("file/a.csv", "file is a file, where a folder is needed"),
    ):
        with pytest.raises(ConfigError, match=message):
            Destination.at(tmp_path / name)
    assert Destination.at(tmp_path / "a.txt", usual="jsonl").form == "jsonl"


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_cells_that_a_spreadsheet_would_run_begin_with_a_quote_if_asked(ending: str, tmp_path: Path) -> None:
    entry = Entry("=1+1", {"id": "-3", "@sum": "plain"})
    answers = [Answered(entry, [Prediction("+cmd", 0.5), Prediction("fine=1", -0.25)], 1)]
    rows = {}
    for safe in (False, True):
        path = tmp_path / f"{safe}.{ending}"
        shape = Shape(["id", "@sum"], places=2)
        with answers_file(Destination.at(path), shape, without_formulas=safe) as write_rows:
            write_rows(answers)
        rows[safe] = list(csv.reader(path.read_text().splitlines(), delimiter="," if ending == "csv" else "\t"))
    assert rows[False][1] == ["=1+1", "-3", "plain", "+cmd", "0.5", "fine=1", "-0.25", "1"]
    assert rows[True][0][2] == "'@sum"
    assert rows[True][1] == ["'=1+1", "'-3", "plain", "'+cmd", "0.5", "fine=1", "-0.25", "1"]
