"""Folders of parts: the answers of `laconic predict`, in order, whole after an interruption, and of one job alone."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laconic.bulk.job import finished
from laconic.bulk.labeller import Question, answering_folder, settled
from laconic.errors import ConfigError, DataError
from tests.bulk.jobs import answer_here, expected_rows, job_of, many_texts, parts_of, rows_of, write_titles
from tests.serve.small import write

TEXTS = many_texts(2500)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture(scope="module")
def titles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_titles(tmp_path_factory.mktemp("titles") / "titles.parquet", len(TEXTS))


def test_answers_are_those_of_predict_to_the_bit(model: Path, titles: Path, tmp_path: Path) -> None:
    answer_here(job_of(model, [titles], tmp_path / "out", k=3))
    rows = rows_of(tmp_path / "out")
    assert [(row["title"], row["key"]) for row in rows] == list(zip(TEXTS, range(len(TEXTS)), strict=True))
    found = [(row["labels"], row["scores"], row["known_words"]) for row in rows]
    assert found == expected_rows(model, TEXTS, 3)


def test_the_manifest_counts_what_is_there(model: Path, titles: Path, tmp_path: Path) -> None:
    job = job_of(model, [titles], tmp_path / "out")
    assert finished(job) is None
    totals = answer_here(job)
    manifest = json.loads((tmp_path / "out" / "_manifest.json").read_text())
    parts = parts_of(tmp_path / "out")
    assert totals is not None
    assert (totals.parts, totals.rows, totals.bad) == (3, 2500, 0) == tuple(manifest[key] for key in totals._asdict())
    assert {one["part"]: one["sha256"] for one in manifest["written"]} == {
        name: hashlib.sha256(content).hexdigest() for name, content in parts.items()
    }
    assert finished(job) == totals
    assert not (tmp_path / "out" / "_receipts").exists()


def test_a_stopped_job_goes_on_with_what_is_missing(model: Path, titles: Path, tmp_path: Path) -> None:
    answer_here(job_of(model, [titles], tmp_path / "whole"))
    job = job_of(model, [titles], tmp_path / "out")
    answer_here(job, most=1)
    (first,) = parts_of(tmp_path / "out")
    written = (tmp_path / "out" / first).stat().st_mtime_ns
    (tmp_path / "out" / ".00000-titles-00001.parquet.partial-1").write_bytes(b"half")
    (tmp_path / "out" / "00000-titles-00002.parquet").write_bytes(b"without a receipt")
    assert finished(job) is None
    answer_here(job)
    assert parts_of(tmp_path / "out") == parts_of(tmp_path / "whole")
    assert (tmp_path / "out" / first).stat().st_mtime_ns == written
    assert not list((tmp_path / "out").glob(".*"))


def test_a_part_that_was_cut_is_written_again(model: Path, titles: Path, tmp_path: Path) -> None:
    answer_here(job_of(model, [titles], tmp_path / "whole"))
    job = job_of(model, [titles], tmp_path / "out")
    answer_here(job, most=2)
    (tmp_path / "out" / "00000-titles-00000.parquet").write_bytes(b"PAR1")
    answer_here(job)
    assert parts_of(tmp_path / "out") == parts_of(tmp_path / "whole")


def test_a_folder_of_another_job_is_refused(model: Path, titles: Path, tmp_path: Path) -> None:
    answer_here(job_of(model, [titles], tmp_path / "out", k=3), most=1)
    other = write(tmp_path / "other", neighbours=3)
    (tmp_path / "texts.jsonl").write_text('{"text": "a"}\n')
    for job, what in (
        (job_of(model, [titles], tmp_path / "out", k=4), "other options"),
        (job_of(other, [titles], tmp_path / "out", k=3), "another model"),
        (job_of(model, [tmp_path / "texts.jsonl"], tmp_path / "out", k=3), "other files"),
    ):
        with pytest.raises(ConfigError, match=f"its parts are of {what}"):
            answer_here(job)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "mine.txt").touch()
    with pytest.raises(ConfigError, match="no answers"):
        answer_here(job_of(model, [titles], tmp_path / "else"))


def test_bad_rows_stop_the_job_or_go_to_a_file(model: Path, tmp_path: Path) -> None:
    texts = [*TEXTS[:1500], None, *TEXTS[1500:]]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet, row 1501: 'text' is None.*--skip-bad skips"):
        answer_here(job_of(model, [tmp_path / "a.parquet"], tmp_path / "out"))
    totals = answer_here(job_of(model, [tmp_path / "a.parquet"], tmp_path / "out", skip_bad=True))
    assert totals is not None
    assert (totals.rows, totals.bad) == (2500, 1)
    assert [row["text"] for row in rows_of(tmp_path / "out")] == TEXTS
    (bad,) = (tmp_path / "out" / "_bad").iterdir()
    assert "row 1501" in json.loads(bad.read_text())["error"]


def test_labels_are_chosen_as_predict_chooses_them(model: Path, titles: Path, tmp_path: Path) -> None:
    from laconic.predict.load import open_model

    predictor = open_model(model)
    allow, block = predictor.names[:6], [predictor.names[2]]
    answer_here(job_of(model, [titles], tmp_path / "out", k=4, allow=allow, block=block, min_score=0.2))
    expected = [
        [prediction for prediction in answer if prediction.score >= 0.2]
        for first in range(0, len(TEXTS), 1024)
        for answer in predictor.predict(TEXTS[first : first + 1024], 4, allow=allow, block=block)
    ]
    found = [list(zip(row["labels"], row["scores"], strict=True)) for row in rows_of(tmp_path / "out")]
    assert found == expected
    assert {len(answer) for answer in expected} > {0}


def test_a_gpu_is_asked_for_the_model_that_is_not_packed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answering_folder(model, Question(device="cuda")) == model  # whether this machine has a GPU or not
    assert settled(Question(device="cuda"), model).device == "cuda"
    for here, device in ((True, "cpu"), (False, "cuda")):
        monkeypatch.setattr("laconic.bulk.labeller.on_cpu", lambda name, here=here: here)
        assert settled(Question(), model).device == device
        assert settled(Question(), model / "packed").device == "cpu"
