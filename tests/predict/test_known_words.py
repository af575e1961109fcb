"""How many words of a text a model knows: the same from its packed form, and told in every answer."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from laconic import Laconic
from laconic.export.pack import pack
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.predictor import Predictor
from laconic.training.run import Run
from tests.planted import planted_texts, words_of
from tests.serve.small import packed, trained, write
from tests.test_cli import laconic

FIRST, SECOND = words_of(0)[:2]
COUNTS = {
    "": 0,
    "  ": 0,
    "xyzzy plugh": 0,
    "the of and": 0,  # stop words, which no model of this kind reads
    FIRST: 1,
    f"{FIRST} xyzzy {SECOND}": 2,
    f"{FIRST} {FIRST}": 2,
}


@pytest.mark.parametrize("subwords", [0, 64])
def test_a_model_and_its_packed_form_count_alike(subwords: int) -> None:
    config = config_of("nearest", {"vocabulary": {"subwords": subwords}})
    model = train_model(planted_texts(), "nearest", config, Run.unkept())
    for predictor in (Predictor(model, "cpu"), PackedPredictor(pack(model))):
        assert predictor.known_words([*COUNTS]) == [*COUNTS.values()]


def test_an_answer_is_a_prediction_with_its_count() -> None:
    for predictor in (Predictor(trained(), "cpu"), PackedPredictor(packed()), PackedPredictor(packed(), threads=2)):
        texts = [*COUNTS] * 10
        for more in ({}, {"allow": ["L0", "L1"]}, {"block": ["L0"]}):
            answers = predictor.answer(texts, 3, **more)
            assert [answer.predictions for answer in answers] == predictor.predict(texts, 3, **more)
            assert [answer.known_words for answer in answers] == [*COUNTS.values()] * 10


def test_the_estimator_counts_for_one_text_or_many() -> None:
    model = Laconic("nearest", device="cpu").fit(["red rose", "blue sea"], [["flower"], ["water"]])
    for one in (model, model.pack()):
        assert one.known_words("a red tulip") == 1
        assert one.known_words(["", "blue sea", "tulip"]) == [0, 2, 0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("models") / "model")


@pytest.mark.parametrize("part", ["packed", "."])
def test_every_line_of_json_has_the_count(part: str, folder: Path) -> None:
    lines = laconic("predict", folder / part, "--json", stdin="".join(f"{text}\n" for text in COUNTS)).splitlines()
    assert {(one := json.loads(line))["text"]: one["known_words"] for line in lines} == COUNTS


def test_people_are_told_where_no_word_is_known(folder: Path) -> None:
    shown = laconic("predict", folder, "-k", 1, stdin=f"{FIRST}\nxyzzy\n")
    known, unknown = shown.split("xyzzy")
    assert "no known words" not in known
    assert unknown.startswith("\n  no known words\n")


def test_tables_have_a_column_of_counts(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("".join(f"{text}\n" for text in COUNTS))
    for name in ("a.csv", "a.tsv", "a.parquet", "a.jsonl"):
        laconic("predict", folder, tmp_path / "texts", "--out", tmp_path / name, "-k", 2)
    with (tmp_path / "a.csv").open(newline="") as comma, (tmp_path / "a.tsv").open(newline="") as tab:
        for rows in (csv.DictReader(comma), csv.DictReader(tab, delimiter="\t")):
            assert [row["known_words"] for row in rows] == [*map(str, COUNTS.values())]
    assert pq.read_table(tmp_path / "a.parquet")["known_words"].to_pylist() == [*COUNTS.values()]
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert [json.loads(line)["known_words"] for line in lines] == [*COUNTS.values()]
