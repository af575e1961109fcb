"""The verb predict as a user types it."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from laconic.data.output import write_folder
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import read_model, write_model
from laconic.training.run import Run
from tests.planted import planted_texts
from tests.test_cli import laconic, process, shown_and_told

CORPUS = planted_texts()
TEXTS = list(CORPUS.split("test").texts or ())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    write_model(train_model(CORPUS, "nearest", config_of("nearest", {"calibration": 0.0}), Run.unkept()), folder)
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Records with an id and something else."""
    records = ({"id": number, "text": text, "more": [number]} for number, text in enumerate(TEXTS))
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return tmp_path / "texts.jsonl"


def objects(shown: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shown.splitlines()]


def test_every_way_in_and_out_gives_the_same_answers(model: Path, texts: Path, tmp_path: Path) -> None:
    expected = [
        [prediction._asdict() for prediction in answer]
        for answer in Predictor.open(model, device="cpu").predict(TEXTS, 3)
    ]
    shown = laconic("predict", model, texts, "-k", 3, "--json")
    assert objects(shown) == [
        {"text": text, "id": number, "more": [number], "predictions": answer, "known_words": len(text.split())}
        for number, (text, answer) in enumerate(zip(TEXTS, expected, strict=True))
    ]
    for name in ("a.jsonl", "a.csv", "a.tsv.gz", "a.parquet"):
        assert laconic("predict", model, texts, "-k", 3, "--out", tmp_path / name) == ""
    assert (tmp_path / "a.jsonl").read_text() == shown
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert [[row[f"{what}_{place}"] for what in ("label", "score")] for row in rows for place in (1, 2, 3)] == [
        list(prediction.values()) for answer in expected for prediction in answer
    ]
    lines = "".join(text + "\n" for text in TEXTS)
    for file, more, stdin in (
        ("-", [], lines),
        (tmp_path / "a.csv", [], ""),
        (tmp_path / "a.tsv.gz", [], ""),
        (tmp_path / "a.parquet", ["--column", "text"], ""),
        ("-", ["--format", "csv"], (tmp_path / "a.csv").read_text()),
        ("-", ["--format", "tsv"], gzip.decompress((tmp_path / "a.tsv.gz").read_bytes())),
        ("-", ["--format", "jsonl"], shown),
    ):
        answers = objects(laconic("predict", model, file, "-k", 3, "--json", *more, stdin=stdin))
        assert [answer["text"] for answer in answers] == TEXTS
        assert [answer["predictions"] for answer in answers] == expected


def test_many_texts_are_answered_in_their_order(model: Path, tmp_path: Path) -> None:
    many = [TEXTS[number % len(TEXTS)] + f" {number}" for number in range(2500)]  # in three pieces
    (tmp_path / "texts").write_text("".join(text + "\n" for text in many))
    answers = objects(laconic("predict", model, tmp_path / "texts", "-k", 1, "--json"))
    assert [answer["text"] for answer in answers] == many


def test_labels_with_too_low_a_score_are_left_out(model: Path, texts: Path, tmp_path: Path) -> None:
    every = objects(laconic("predict", model, texts, "--json"))
    some = objects(laconic("predict", model, texts, "--json", "--min-score", 0.7))
    for one, other in zip(every, some, strict=True):
        assert other["predictions"] == [found for found in one["predictions"] if found["score"] >= 0.7]
    assert 0 < sum(len(one["predictions"]) for one in some) < sum(len(one["predictions"]) for one in every)
    assert not re.search(r"L\d", laconic("predict", model, "--min-score", 9, stdin=TEXTS[0]))


@pytest.fixture
def calibrated(model: Path, tmp_path: Path) -> Path:
    """Return a copy of the model whose scores are divided by ten."""
    curve = {"how": "isotonic", "texts": 1234, "scores": [2.0], "probabilities": [0.2]}
    saved = read_model(model)
    write_model(replace(saved, facts={**saved.facts, "calibration": curve}), tmp_path / "calibrated")
    return tmp_path / "calibrated"


def test_the_least_score_is_one_of_calibrated_scores(model: Path, calibrated: Path, texts: Path) -> None:
    plain = objects(laconic("predict", model, texts, "--json", "--min-score", 0.7))
    tenth = objects(laconic("predict", calibrated, texts, "--json", "--min-score", 0.07))
    for one, other in zip(plain, tenth, strict=True):
        assert [found["label"] for found in one["predictions"]] == [found["label"] for found in other["predictions"]]
        assert [found["score"] / 10 for found in one["predictions"]] == pytest.approx(
            [found["score"] for found in other["predictions"]]
        )


def test_an_evaluation_shows_what_scores_are_worth(model: Path, calibrated: Path, tmp_path: Path) -> None:
    write_folder(CORPUS, tmp_path / "data")
    figures = []
    for one in (model, calibrated):
        shown = laconic("evaluate", one, tmp_path / "data", "--all", "--out", tmp_path / "figures.json")
        figures.append(json.loads((tmp_path / "figures.json").read_text())["metrics"])
        assert re.search(rf"│ ECE +│ +│ +│ +{figures[-1]['ECE@5']:.1f} │", shown)
    plain, tenth = figures
    assert tenth["raw ECE@5"] == plain["ECE@5"] != tenth["ECE@5"]
    assert re.search(rf"│ raw ECE +│ +│ +│ +{plain['ECE@5']:.1f} │", shown)
    assert "raw ECE@5" not in plain


def test_a_model_tells_what_its_scores_are(model: Path, calibrated: Path) -> None:
    told = "probabilities, calibrated on 1,234 texts"
    assert told in laconic("inspect", calibrated)
    assert told in (calibrated / "README.md").read_text()
    assert "not calibrated" in laconic("inspect", model)


def test_a_bad_line_stops_with_its_place_and_leaves_no_file(model: Path, texts: Path, tmp_path: Path) -> None:
    with texts.open("a") as file:
        file.write('{"text": 3}\n{"text": "last"}\n')
    (tmp_path / "old.csv").write_text("old")
    for out in ("new.csv", "old.csv"):
        complained = laconic("predict", model, texts, "--out", tmp_path / out, code=2)
        assert f'{texts}:{len(TEXTS) + 1}: "text" is 3, where a text is needed' in complained
        assert "--skip-bad" in complained
    assert {path.name for path in tmp_path.iterdir()} == {"texts.jsonl", "old.csv"}
    assert (tmp_path / "old.csv").read_text() == "old"


def test_bad_lines_can_be_passed_over_and_are_counted(model: Path) -> None:
    given = '{"text": "first"}\nno JSON\n{"id": 2}\n{"text": "last"}\n'
    shown, told = shown_and_told("predict", model, "-", "--format", "jsonl", "--json", "--skip-bad", stdin=given)
    assert [answer["text"] for answer in objects(shown)] == ["first", "last"]
    assert "note: 2 texts were skipped because of errors; the first: the standard input:2" in told
    assert "the first: the standard input:2: this is not JSON" in told
    assert shown_and_told("predict", model, "--skip-bad", stdin="text\n")[1] == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["texts.jsonl", "--out", "a.txt"], "--out must end in .jsonl"),
        (["texts.jsonl", "--out", "a.csv", "--json"], "--json does not go with --out a.csv, which is csv"),
        (["texts.jsonl", "--out", "texts.jsonl"], "this is the file that is read"),
        (["texts.jsonl", "--format", "xml"], "--format must be lines or jsonl"),
        (["texts.jsonl", "--column", "title"], 'texts.jsonl:1: the key "title" is missing'),
        (["nowhere.csv"], "nowhere.csv: there is no such file"),
        (["-", "--format", "parquet"], "the standard input: Parquet is read from its end"),
    ],
)
def test_a_mistake_is_one_message(
    arguments: list[str], message: str, model: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(texts.parent)
    before = texts.read_bytes()
    complained = laconic("predict", model, *arguments, code=2)
    assert message in complained.replace("\n", " ")
    assert "Traceback" not in complained
    assert {path.name: path.read_bytes() for path in texts.parent.iterdir()} == {"texts.jsonl": before}


def test_json_may_go_to_a_file_of_any_name(model: Path, texts: Path, tmp_path: Path) -> None:
    laconic("predict", model, texts, "--json", "--out", tmp_path / "answers")
    assert len(objects((tmp_path / "answers").read_text())) == len(TEXTS)


@pytest.mark.slow
def test_an_interrupt_leaves_the_old_file_and_nothing_else(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("old")
    running = process("predict", model, "--out", tmp_path / "a.csv", stdin=subprocess.PIPE)
    assert running.stdin is not None
    running.stdin.write(b"a text\n" * 5000)
    running.stdin.flush()
    while running.poll() is None and len(list(tmp_path.iterdir())) < 2:  # until it writes
        time.sleep(0.05)
    while running.poll() is None:  # once is not always enough: a callback of a compiled library may swallow it
        running.send_signal(signal.SIGINT)
        time.sleep(0.5)
    with suppress(BrokenPipeError):
        running.stdin.close()
    assert running.returncode in (130, -signal.SIGINT)  # a shell shows 130 for both
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.csv": "old"}


@pytest.mark.slow
def test_a_terminal_shows_how_far_it_is_and_nothing_else_does(model: Path, texts: Path, tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = ["predict", model, texts, "--out", tmp_path / "a.csv"]
    assert process(*command, stdout=end, stderr=end, env=environment).wait() == 0
    os.close(end)
    assert f"{len(TEXTS)} texts" in os.read(terminal, 1 << 16).decode()
    assert shown_and_told(*command) == ("", "")


def test_several_files_and_patterns_are_one_stream(model: Path, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("\n".join(TEXTS[:3]) + "\n")
    (tmp_path / "two.csv").write_text("text,shelf\n" + "".join(f"{text},7\n" for text in TEXTS[3:5]))
    shown = objects(laconic("predict", model, tmp_path / "*.txt", tmp_path / "two.csv", "-k", 1, "--json"))
    assert [one["text"] for one in shown] == TEXTS[:5]
    assert [Path(one["file"]).name for one in shown] == ["one.txt"] * 3 + ["two.csv"] * 2
    laconic("predict", model, tmp_path / "one.txt", tmp_path / "two.csv", "-k", 1, "--out", tmp_path / "out.csv")
    header, *rows = (tmp_path / "out.csv").read_text().splitlines()
    assert header == "text,file,shelf,label_1,score_1,known_words"
    assert len(rows) == 5
    assert "no file has such a name" in laconic("predict", model, tmp_path / "*.xyz", code=2)
    assert "does not go with files" in laconic("predict", model, "-", tmp_path / "one.txt", code=2)


def test_json_lines_come_from_the_standard_input(model: Path, texts: Path) -> None:
    shown = laconic("predict", model, "--format", "jsonl", "-k", 1, "--json", stdin=texts.read_text())
    assert [one["id"] for one in objects(shown)] == list(range(len(TEXTS)))


def test_plain_lines_that_look_like_records_are_noted(model: Path) -> None:
    note = "the first line looks like JSON, but is read as a plain text; --format jsonl reads records"
    _, told = shown_and_told("predict", model, "-", stdin='{"text": "red rose"}\n')
    assert note in " ".join(told.split())
    _, told = shown_and_told("predict", model, "-", stdin="red rose\n")
    assert note not in " ".join(told.split())
