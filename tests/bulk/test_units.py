"""Files divided into units: every text in one of them, in order, with its columns and the number of its row."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laconic.bulk.table_ranges import _single_lines
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


def test_gzip_is_one_unit_per_file(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in TEXTS)
    (packed,) = units_of([tmp_path / "b.jsonl.gz"], texts=1024)
    assert texts_of([packed]) == TEXTS


CELLS = (
    "plain",
    "",
    '"in quotes"',
    '"two\nlines"',
    '"many\r\n\n\n lines"',
    '"a ""word"""',
    '5" disk',
    'a "b',
    "é",
    " ",
    "x\ry",
)
BROKEN = ('"a" b', '"never closed', "\xff", "1,2,3")  # as cells


@pytest.mark.parametrize("cells", [("plain",), CELLS[:8], CELLS, CELLS + BROKEN])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\n\n", "\n \r\n"])
@pytest.mark.parametrize("block", [64, 1 << 20])
def test_units_of_tables_are_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: tuple[str, ...], line_end: str, block: int
) -> None:
    monkeypatch.setattr("laconic.bulk.table_ranges._BLOCK", block)
    generator = random.Random(f"{cells}{line_end}")
    for delimiter, ending in ((",", "csv"), ("\t", "tsv"), (";", "csv")):
        rows = [f"{generator.choice(cells)}{delimiter}{generator.choice(cells)}{line_end}" for _ in range(300)]
        header = f'title{delimiter}"a\nkey"{line_end}'
        path = tmp_path / f"a.{ending}"
        path.write_bytes(f"\ufeff{header}{''.join(rows)}".encode().replace("\xff".encode(), b"\xff"))
        whole, parts = _with_errors(units_of([path], texts=10_000)), _with_errors(units_of([path], texts=16))
        assert parts == whole
        assert len(units_of([path], texts=16)) > 10


@pytest.mark.parametrize(
    ("block", "alone"),
    [
        (b'"a","b ""c"""\r\n1,"x,\ry"\n,\n', True),
        (b'"a\n",1\n', False),
        (b'5" disk,"a\n', False),
        (b'a "b",1\n', False),
        (b'"a" ,1\n', False),
        (b'"a,1\n', False),
        (b"x\ry,1\n", False),
    ],
)
def test_lines_that_are_a_row_each_are_known(block: bytes, alone: bool) -> None:
    assert (_single_lines(",").fullmatch(block) is not None) == alone


def _with_errors(units: list[Unit]) -> tuple[list[dict[str, str]], list[str]]:
    """Return the rows of units, and what is wrong with the others."""
    bad: list[DataError] = []
    rows = [row for unit in units for piece in read(unit, on_bad=bad.append) for row in piece.table.to_pylist()]
    return rows, [str(error) for error in bad]


def test_units_of_tables_begin_at_multiples_of_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("title,n\n" + "".join(f'"{text}\n",1\n\n' for text in TEXTS[:2048]))
    (tmp_path / "b.csv").write_text("title,n\n" + "".join(f"{text},1\n" for text in TEXTS))
    for name, sizes in (("a.csv", [1024, 1024]), ("b.csv", [1024, 1024, 452])):
        units = units_of([tmp_path / name], texts=1024)
        assert [len(read(unit)[0].texts) for unit in units][: len(sizes)] == sizes
        assert read(units[1])[0].table.schema.names == ["title", "n"]
    for content in ("", "\n\n", "title\n", "\xff\n"):
        (tmp_path / "c.csv").write_bytes(content.encode("latin1"))
        assert len(units_of([tmp_path / "c.csv"])) == 1


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
