"""Texts of several fields with weights: read alike from tables, records, frames and requests, and kept with a model."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from laconic import Laconic
from laconic.data.fields import TextField, fields_given, joined_fields, parse_fields, spec_of
from laconic.data.formats.tabular import Columns
from laconic.data.sources import read
from laconic.errors import ConfigError, DataError
from laconic.predict.load import USUAL
from laconic.serve import responses
from laconic.serve.errors import Refusal
from laconic.serve.openapi import facts_of
from laconic.serve.responses import Asked
from laconic.serve.schemas import Question, question_of
from laconic.serve.settings import Limits, Serving
from laconic.serve.version import opened
from tests.planted import planted_texts
from tests.test_cli import laconic

SPEC = "title:2,subtitle"
CORPUS = planted_texts()


def records(split: str) -> list[dict[str, Any]]:
    """Every text cut into a title, its first word, and a subtitle, which a few lack."""
    own = CORPUS.split(split)
    found = []
    for row, text in enumerate(own.texts or ()):
        title, *rest = text.split()
        labels = [CORPUS.labels.names[at] for at in own.labels[[row]].indices]
        found.append({"title": title, "subtitle": " ".join(rest) if row % 9 else "", "shelf": row, "labels": labels})
    return found


def joined(record: dict[str, Any]) -> str:
    return " ".join([*f"{record['title']} {record['subtitle']}".split(), record["title"]])


TEXTS = [joined(record) for record in records("train")]


def write(folder: Path, form: str, split: str) -> Path:
    path, rows = folder / f"{split}.{form}", records(split)
    if form == "jsonl":
        rows = [{key: value for key, value in row.items() if value != ""} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "parquet":
        pyarrow.parquet.write_table(
            pyarrow.Table.from_pylist([row | {"subtitle": row["subtitle"] or None} for row in rows]), path
        )
    else:
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, rows[0])
            table.writeheader()
            table.writerows(row | {"labels": "|".join(row["labels"])} for row in rows)
    return path


FORMS = ["csv", "jsonl", "parquet"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fields")
    for form in FORMS:
        (folder / form).mkdir()
        for split in ("train", "test"):
            write(folder / form, form, split)
    return folder


@pytest.fixture(scope="module")
def model(data: Path) -> Path:
    laconic(
        "train", data / "csv", "--column", f"text={SPEC}", "--method", "nearest", "--out", data / "model", "--quiet"
    )
    return data / "model"


def test_fields_are_there_once_in_order_and_then_again() -> None:
    assert joined_fields(["a b", " ", "c"], [3, 5, 2]) == "a b c a b c a b"
    assert joined_fields(["", ""], [1, 2]) == ""


def test_fields_are_named_with_their_weights() -> None:
    assert parse_fields(" title:2 , dc:name,b") == (TextField("title", 2), TextField("dc:name"), TextField("b"))
    assert parse_fields("") == ()
    assert spec_of(parse_fields("a:1,b:3")) == "a,b:3"
    assert spec_of(parse_fields("a")) == ""
    assert fields_given(["a", "b"]) == fields_given({"a": 1, "b": 1}) == fields_given("a,b")


@pytest.mark.parametrize(
    ("spec", "message"),
    [("a:0,b", "from 1 to 10, but is 0"), ("a:11", "but is 11"), ("a,,b", "has no name"), ("a,A", "named twice")],
)
def test_wrong_fields_are_refused(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_fields(spec)
    with pytest.raises(ConfigError):
        Laconic("nearest", fields=7).fit(["a"], ["b"])


@pytest.mark.parametrize("form", FORMS)
def test_every_format_is_joined_alike(data: Path, form: str) -> None:
    corpus = read(data / form, Columns(text=SPEC))
    assert list(corpus.split("train").texts or ()) == TEXTS
    assert corpus.fields == SPEC
    alone = read(data / form / f"train.{form}", Columns(text="subtitle,title"))
    assert (alone.split("all").texts or ())[1] == "{subtitle} {title}".format(**records("train")[1])


def test_one_column_is_read_as_before(data: Path, tmp_path: Path) -> None:
    assert (read(data / "jsonl", Columns(text="title")).split("train").texts or ())[0] == records("train")[0]["title"]
    (tmp_path / "odd.csv").write_text('"title:2,subtitle",labels\na b,c\n')
    odd = read(tmp_path / "odd.csv", Columns(text=SPEC))
    assert (odd.split("all").texts, odd.fields) == (["a b"], "")


def test_a_missing_field_is_an_error_with_its_name(data: Path) -> None:
    with pytest.raises(DataError, match="no column 'subtitel'"):
        read(data / "csv", Columns(text="title,subtitel"))
    with pytest.raises(DataError, match='the key "headline" is missing'):
        read(data / "jsonl", Columns(text="headline,summary"))


@pytest.mark.parametrize("form", FORMS)
def test_a_model_reads_its_fields_in_any_data_without_being_told(
    data: Path, model: Path, form: str, tmp_path: Path
) -> None:
    assert json.loads((model / "model.json").read_text())["data"]["fields"] == SPEC
    told = json.loads(laconic("evaluate", model, data / form, "--json"))
    named = json.loads(
        laconic("evaluate", model / "packed", data / form, "--column", f"text={SPEC}", "--exact", "--json")
    )
    assert told["metrics"]["P@1"] == pytest.approx(named["metrics"]["P@1"])
    laconic("predict", model, data / form / f"test.{form}", "--out", tmp_path / "a.jsonl")
    answers = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [answer["text"] for answer in answers] == [joined(record) for record in records("test")]
    assert [answer["title"] for answer in answers] == [record["title"] for record in records("test")]


def test_plain_texts_and_other_columns_still_work(data: Path, model: Path, tmp_path: Path) -> None:
    assert "L" in laconic("predict", model, "--text", TEXTS[0])
    (tmp_path / "plain.csv").write_text("text\nsome words\n")
    assert "some words" in laconic("predict", model, tmp_path / "plain.csv")
    (tmp_path / "half.csv").write_text("title,labels\nsome words,L1\n")
    assert "the model was trained on title:2,subtitle" in laconic("predict", model, tmp_path / "half.csv", code=2)
    assert "some words" in laconic("predict", model, tmp_path / "half.csv", "--column", "title")
    assert "title:2,subtitle" in laconic("inspect", data / "csv", "--column", f"text={SPEC}")


def test_changes_of_a_model_keep_its_fields(data: Path, model: Path, tmp_path: Path) -> None:
    laconic("update", model, data / "jsonl" / "test.jsonl", "--epochs", 1, "--out", tmp_path / "more")
    laconic("remove-labels", tmp_path / "more", "--label", "L0")
    for folder in (tmp_path / "more", tmp_path / "more" / "packed"):
        assert Laconic.load(folder).fields == SPEC


def test_frames_and_dicts_are_joined_of_the_estimators_fields(data: Path, model: Path, tmp_path: Path) -> None:
    frame = pd.DataFrame(records("train"))
    given = Laconic("nearest", fields={"title": 2, "subtitle": 1}).fit(frame)
    plain = Laconic("nearest").fit(TEXTS, list(frame["labels"]))
    test = records("test")
    expected = plain.predict([joined(record) for record in test])
    assert given.predict(test) == given.predict(pd.DataFrame(test)) == expected
    given.save(tmp_path / "m")
    again = Laconic.load(tmp_path / "m")
    assert again.fields == SPEC
    assert again.predict(pyarrow.Table.from_pylist(test)) == expected
    assert (
        again.evaluate(pd.DataFrame(test))["P@1"]
        == plain.evaluate([joined(record) for record in test], list(pd.DataFrame(test)["labels"]))["P@1"]
    )
    assert given.predict(pd.DataFrame({"title": ["a"], "subtitle": [None]})) == plain.predict(["a a"])


def test_mistakes_in_python_are_named() -> None:
    with pytest.raises(DataError, match=r"name its keys, fields=\[...\]"):
        Laconic("nearest").fit([{"title": "a"}], ["b"])
    with pytest.raises(DataError, match="without the column 'subtitle' of the fields title,subtitle"):
        Laconic("nearest", fields=["title", "subtitle"]).fit(pd.DataFrame({"title": ["a"]}), ["b"])
    with pytest.raises(DataError, match="has none of the fields"):
        Laconic("nearest", fields=["title", "subtitle"]).fit([{"name": "a"}], ["b"])


def test_the_service_takes_objects_of_fields(model: Path) -> None:
    version, record = opened(model, USUAL, verify=True), records("test")[1]
    own = {"title": record["title"], "subtitle": record["subtitle"]}
    questions = [
        Question(text=own),
        Question(text=joined(record)),
        Question(texts=[{"subtitle": "a"}, "b"]),
        Question(text={"titel": "secret"}),
    ]
    one, same, two, wrong = responses.answered(version, [Asked(each, float("inf")) for each in questions], Limits())
    assert one == same
    assert isinstance(two, bytes)
    assert len(json.loads(two)["answers"]) == 2
    assert isinstance(wrong, Refusal)
    assert wrong.message == "unknown field of a text; this model reads title, subtitle"
    assert facts_of(version, Serving()).fields == ["title", "subtitle"]


def test_objects_of_fields_have_the_limits_of_texts() -> None:
    limits = Limits(characters=5)
    for text in ({"a": "abc", "b": "abc"}, {f"a{at}": "" for at in range(21)}, {"a": 1}):
        with pytest.raises(Refusal) as refused:
            question_of(json.dumps({"text": text}).encode(), limits)
        assert refused.value.status == 422


def test_a_model_of_plain_texts_refuses_objects(tmp_path: Path) -> None:
    Laconic("nearest").fit(["red rose"], ["flower"]).pack().save(tmp_path / "m")
    version = opened(tmp_path / "m", USUAL, verify=True)
    (answer,) = responses.answered(version, [Asked(Question(text={"title": "a"}), float("inf"))], Limits())
    assert isinstance(answer, Refusal)
    assert "plain texts" in answer.message
