"""Labels without a name, and data without labels."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laconic import Laconic
from laconic.data.formats.assemble import Row, corpus_of
from laconic.data.sources import read
from laconic.errors import DataError
from tests.test_cli import laconic


def jsonl(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize("name", ["", " ", "\t\n", "\u00a0"])
def test_a_label_without_a_name_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    good = {"text": "a", "labels": ["x"]}
    with pytest.raises(DataError, match=r"data\.jsonl:2: .*a label is .*, which is no name"):
        read(jsonl(tmp_path / "data.jsonl", good, {"text": "b", "labels": ["x", name]}))
    with pytest.raises(DataError, match=r"data\.jsonl:1: .*a label is .*, which is no name"):
        read(jsonl(tmp_path / "data.jsonl", {**good, "leave_out": [name]}))
    with pytest.raises(DataError, match=r"table\.parquet, row 2: .*a label is .*, which is no name"):
        pq.write_table(pa.table({"text": ["a", "b"], "labels": [["x"], [name]]}), tmp_path / "table.parquet")
        read(tmp_path / "table.parquet")
    with pytest.raises(DataError, match=r"table\.csv:2: .*a label is .*, which is no name"):
        (tmp_path / "table.csv").write_text(f'text,labels\na,"{["x", name]}"\n')
        read(tmp_path / "table.csv")
    (tmp_path / "folder").mkdir()
    jsonl(tmp_path / "folder" / "train.jsonl", good)
    jsonl(tmp_path / "folder" / "labels.jsonl", {"id": "x"}, {"id": name})
    with pytest.raises(DataError, match=r"labels\.jsonl:2: .*a label is .*, which is no name"):
        read(tmp_path / "folder")


@pytest.mark.parametrize("name", ["", "  "])
def test_a_label_without_a_name_is_refused_in_python_too(name: str) -> None:
    with pytest.raises(DataError, match=r"labels\[1\]: a label is .*, which is no name"):
        Laconic("nearest", device="cpu").fit(["a", "b"], [["x"], ["y", name]])
    with pytest.raises(DataError, match=r"label_texts\[.*\]: a label is .*, which is no name"):
        Laconic("nearest", device="cpu").fit(["a", "b"], [["x"], ["y"]], {name: "text"})


def test_training_on_data_without_a_label_is_refused_with_source_column_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text("title,tags,kind\nred rose,,flower\nblue sea,,water\n")
    for method in ("nearest", "auto"):
        complained = laconic("train", tmp_path / "shop.csv", "--method", method, "--out", tmp_path / "m", code=2)
        assert "shop.csv: no text has a label" in complained
        assert "column 'tags'" in complained
        assert "--column labels=NAME" in complained
        assert not (tmp_path / "m").exists()


def test_training_on_records_without_a_label_is_refused(tmp_path: Path) -> None:
    jsonl(tmp_path / "train.jsonl", {"text": "a", "labels": []})
    jsonl(tmp_path / "test.jsonl", {"text": "a", "labels": ["x"]})
    complained = laconic("train", tmp_path, "--method", "nearest", "--out", tmp_path / "m", code=2)
    assert "no text of the split train has a label; give" in complained


def test_fit_and_update_refuse_texts_without_a_label() -> None:
    with pytest.raises(DataError, match="no text has a label; give"):
        Laconic("nearest", device="cpu").fit(["a", "b"], [[], []])
    with pytest.raises(DataError, match="no text has a label; give"):
        Laconic("nearest", device="cpu").fit(["a", "b"], [[], []], {"x": "a text"})
    model = Laconic("nearest", device="cpu").fit(["a", "b"], [["x"], ["y"]])
    with pytest.raises(DataError, match="no text has a label; give"):
        model.update(["c"], [[]])


def test_data_without_labels_can_still_be_looked_at(tmp_path: Path) -> None:
    corpus = corpus_of({"all": [Row("here", "a", [])]}, None, source="here")
    assert not len(corpus.labels)
    (tmp_path / "shop.csv").write_text("title,tags\nred rose,\n")
    assert json.loads(laconic("inspect", tmp_path / "shop.csv", "--json"))["labels"]["labels"] == 0
