"""Many files are converted to the folder, and the counts of words, that one process makes of them joined into one."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laconic.data.conversion import convert_files, count_words
from laconic.data.formats.tabular import Columns
from laconic.data.output import write_folder
from laconic.data.sources import files_by_split, read, stream_rows
from laconic.data.text import Splitter, word_table
from laconic.data.vocabulary import Vocabulary, VocabularyConfig
from laconic.errors import DataError
from tests.test_cli import laconic

ROWS, FILES = 60, 3


def records(seed: int) -> list[dict[str, Any]]:
    """Return records with all that records can have; labels of a text come in any order, some of them twice."""
    draw = random.Random(seed)
    found = []
    for number in range(ROWS):
        labels = draw.choices([f"label {n}" for n in range(40)] + [7, 12], k=draw.randint(0, 4))
        record: dict[str, Any] = {"text": f"title {draw.randint(0, 30)} of é {number}", "labels": labels}
        if draw.random() < 0.3:
            record["id"] = draw.choice(["label 3", f"text {number}"])
        if draw.random() < 0.3:
            record["label_weights"] = [draw.choice([1, 0.1, 2]) for _ in labels]
        if draw.random() < 0.3:
            record["leave_out"] = draw.choices([f"label {n}" for n in range(50)], k=2)
        found.append(record)
    return found


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    cells = (f'"{row["text"]}\n",{";".join(map(str, row["labels"]))},{row.get("id", "")}\n' for row in rows)
    path.write_text("text,labels,id\n" + "".join(cells))
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    labels = [[str(label) for label in row["labels"]] for row in rows]
    pq.write_table(pa.table({"title": [row["text"] for row in rows], "labels": labels}), path, row_group_size=13)
    return path


WRITERS = {"jsonl": write_jsonl, "csv": write_csv, "parquet": write_parquet}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(params=["jsonl", "csv", "parquet"])
def ending(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_files_are_converted_as_one_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, compress: bool, weighted: bool
) -> None:
    monkeypatch.setattr("laconic.data.conversion._ROWS", 16)
    rows = [records(seed) for seed in range(FILES)]
    if weighted:
        rows[1][5]["weight"] = 0.3  # which gives all texts of all files one
    paths = [WRITERS[ending](tmp_path / f"{n}.{ending}", own) for n, own in enumerate(rows)]
    joined = WRITERS[ending](tmp_path / f"joined.{ending}", [row for own in rows for row in own])
    columns = Columns(separator=";" if ending == "csv" else "auto")
    corpus = read(joined, columns)
    write_folder(corpus, tmp_path / "one", compress=compress)
    done = convert_files({"all": paths}, tmp_path / "many", columns, compress=compress)
    assert contents(tmp_path / "many") == contents(tmp_path / "one")
    assert (done.texts, done.labels) == ({"all": ROWS * FILES}, len(corpus.labels))
    assert [f"all: {done.repeated['all']} repeated labels ignored"] == [note for note in corpus.notes if "all:" in note]


def test_several_processes_write_what_one_does(tmp_path: Path) -> None:
    for split, seeds in {"train": (0, 1, 2), "test": (3,)}.items():
        (tmp_path / "in" / split).mkdir(parents=True)
        for seed in seeds:
            write_parquet(tmp_path / "in" / split / f"{seed}.parquet", records(seed))
    for workers in (1, 2):
        shown = laconic(
            *("convert", tmp_path / "in", tmp_path / f"out-{workers}", "--workers", workers),
            *("--words", tmp_path / f"words-{workers}.tsv"),
        )
        assert shown.startswith(f"{tmp_path / f'out-{workers}'}: train 180 texts, test 60 texts, ")
    assert contents(tmp_path / "out-1") == contents(tmp_path / "out-2")
    laconic("convert", tmp_path / "out-1", tmp_path / "again", "--words", tmp_path / "words.tsv")
    assert contents(tmp_path / "again") == contents(tmp_path / "out-1")
    counted = [(tmp_path / name).read_text() for name in ("words.tsv", "words-1.tsv", "words-2.tsv")]
    assert counted[0].startswith("title\t180\n")
    assert counted == counted[:1] * 3


def test_words_of_files_are_counted_as_those_of_all_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laconic.data.word_counts._TEXTS", 7)
    paths = [write_jsonl(tmp_path / f"{seed}.jsonl", records(seed)) for seed in range(FILES)]
    texts = [row.text or "" for path in paths for row in stream_rows(path, Columns())]
    config = VocabularyConfig(min_count=2, size=30, subwords=64)
    counts = count_words(paths, Columns(), Splitter(), subwords=config.subwords)
    found = Vocabulary.of_counts(counts, config)
    expected = Vocabulary.of(word_table(texts, Splitter()), config)
    assert (found.words, found.num_texts) == (expected.words, expected.num_texts)
    np.testing.assert_array_equal(found.text_counts, expected.text_counts)
    np.testing.assert_array_equal(found.subword_counts, expected.subword_counts)


def test_files_are_found_by_pattern_or_folder(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "deep/c.jsonl.gz", "read.me", "_job.json", ".hidden.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text,labels\n")
    assert [path.name for path in files_by_split(str(tmp_path))["all"]] == ["a.csv", "b.csv", "c.jsonl.gz"]
    assert [path.name for path in files_by_split(f"{tmp_path}/*.csv")["all"]] == ["a.csv", "b.csv"]
    with pytest.raises(DataError, match="no such file or folder"):
        files_by_split(f"{tmp_path}/*.parquet")
    (tmp_path / "labels.csv").write_text("id\n")
    with pytest.raises(DataError, match="leave --workers out"):
        files_by_split(str(tmp_path))


def test_what_cannot_be_done_in_parts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,labels\nowls,a;b\n")
    with pytest.raises(DataError, match=r"a.csv:2: the labels are text, .* \(--separator SIGN"):
        convert_files({"all": [path]}, tmp_path / "out", Columns())
    path.write_text("text,labels\n")
    with pytest.raises(DataError, match="no record at all"):
        convert_files({"all": [path]}, tmp_path / "out", Columns(separator=";"))
    assert [one.name for one in tmp_path.iterdir()] == ["a.csv"]
    message = laconic("convert", path, tmp_path / "out", "--workers", 2, "--add-broader", code=2)
    assert "--add-broader does not go with --workers; leave one of them out" in message
