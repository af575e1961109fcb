"""Files divided into units: every text in one of them, in order, with its columns and the number of its row."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laconic.bulk.unit_reader import Piece, Wanted, pieces
from laconic.bulk.units import Unit, files_in, units_of
from laconic.data.formats.entries import OnBad
from laconic.errors import DataError

TEXTS = [f"text {number} é" for number in range(2500)]


def refuse(error: DataError) -> None:
    raise error


def read(unit: Unit, column: str = "", on_bad: OnBad = refuse) -> list[Piece]:
    return list(pieces(unit, Wanted(column, ""), on_bad))


def texts_of(units: list[Unit], column: str = "") -> list[str]:
    return [text for unit in units for piece in read(unit, column) for text in piece.texts]


@pytest.mark.parametrize("row_group", [100, 1000, 3000])
def test_units_of_parquet_are_all_rows_with_their_columns(tmp_path: Path, row_group: int) -> None:
    table = pa.table({"title": TEXTS, "price": pa.array(range(2500), pa.float32()), "labels": [["a"]] * 2500})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=row_group)
    units = units_of([tmp_path / "a.parquet"], texts=1024)
    assert [(unit.row, unit.count) for unit in units] == [(1, 1024), (1025, 1024), (2049, 452)]
    assert texts_of(units) == TEXTS
    joined = pa.concat_tables([piece.table for unit in units for piece in read(unit)])
    assert joined.rename_columns(table.schema.names).equals(table)
    assert joined.schema.names == ["title", "price", "input_labels"]


def test_units_of_lines_are_all_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufeff" + "".join(f"{text}\n" for text in TEXTS))
    (tmp_path / "b.txt").write_text("\n".join(TEXTS[:2048]))  # ends with a unit, and without a line end
    for name, texts in (("a.txt", TEXTS), ("b.txt", TEXTS[:2048])):
        units = units_of([tmp_path / name], texts=1024)
        assert len(units) == -(-len(texts) // 1024)
        assert texts_of(units) == texts


def test_units_of_records_have_the_keys_of_all_their_records(tmp_path: Path) -> None:
    records = [
        {"text": text, "n": number} | ({"late": [1]} if number == 2400 else {}) for number, text in enumerate(TEXTS)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n\n" for record in records))
    units = units_of([tmp_path / "a.jsonl"], texts=1024)
    assert texts_of(units) == TEXTS
    assert [row["n"] for unit in units for piece in read(unit) for row in piece.table.to_pylist()] == [
        str(number) for number in range(2500)
    ]
    assert read(units[0])[0].table.schema.names == ["text", "n"]
    assert read(units[-1])[0].table.to_pylist()[-100]["late"] == "[1]"


def test_tables_and_gzip_are_one_unit_per_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("title,key\n" + "".join(f'"{text}\n",{n}\n' for n, text in enumerate(TEXTS)))
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in TEXTS)
    table, packed = units_of([tmp_path / "a.csv", tmp_path / "b.jsonl.gz"], texts=1024)
    assert texts_of([table]) == [f"{text}\n" for text in TEXTS]
    assert texts_of([packed]) == TEXTS
    assert read(table)[0].table.schema.names == ["title", "key"]


def test_an_empty_file_of_parquet_has_an_empty_part(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "a.parquet")
    (unit,) = units_of([tmp_path / "a.parquet"])
    assert [piece.texts for piece in read(unit)] == [[]]


def test_parts_are_in_the_order_of_the_input_and_have_its_name(tmp_path: Path) -> None:
    for name in ("x/b.csv", "x/a.csv", "y/a.csv", "x/_job.json", "x/.hidden.csv", "x/_old/a.csv", "x/read.me"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("text\na\n")
    files = files_in([tmp_path / "y", tmp_path / "x", tmp_path / "y" / "a.csv"])
    assert [str(file.relative_to(tmp_path)) for file in files] == ["y/a.csv", "x/a.csv", "x/b.csv"]
    assert [unit.name for unit in units_of(files)] == [
        "00000-a-00000.parquet",
        "00001-a-00000.parquet",
        "00002-b-00000.parquet",
    ]
    (tmp_path / "z").mkdir()
    with pytest.raises(DataError, match="no file of texts in this folder"):
        files_in([tmp_path / "z"])


def test_what_is_wrong_with_a_row_says_file_and_row(tmp_path: Path) -> None:
    texts = [*TEXTS[:1500], None, *TEXTS[1500:]]
    pq.write_table(pa.table({"text": texts, "n": list(range(2501))}), tmp_path / "a.parquet")
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (tmp_path / "c.csv").write_text(
        "text,n\n" + "".join(f"{text}\n" if text is None else f"{text},1\n" for text in texts)
    )
    for name, place in (
        ("a.parquet", "a.parquet, row 1501: "),
        ("b.jsonl", "b.jsonl:1501: "),
        ("c.csv", "c.csv:1502: "),
    ):
        bad: list[DataError] = []
        units = units_of([tmp_path / name], texts=1024)
        good = [text for unit in units for piece in read(unit, on_bad=bad.append) for text in piece.texts]
        assert good == TEXTS
        assert [place in str(error) for error in bad] == [True]
    numbers = [
        row["n"]
        for unit in units_of([tmp_path / "a.parquet"])
        for piece in read(unit, on_bad=bad.append)
        for row in piece.table.to_pylist()
    ]
    assert numbers == [*range(1500), *range(1501, 2501)]


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    for name in ("a.parquet", "gone.parquet", "gone.jsonl"):
        with pytest.raises(DataError, match=name):
            units_of([tmp_path / name])
