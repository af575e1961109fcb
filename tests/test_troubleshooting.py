"""Every message that the page of errors quotes is one that the code writes: provoked here, or found in the source."""

from __future__ import annotations

import ast
import gzip
import json
import re
import shutil
import socket
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from laconic import Laconic
from laconic.cli.main import app
from laconic.errors import missing_package
from laconic.serve.schemas import question_of
from laconic.serve.settings import Limits

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "troubleshooting.md"
HOLE = "…"
TABLE = "text,labels\nred rose,flower\nblue sea,water\n"
RECORDS = [["red rose", "blue sea"], [["flower"], ["water"]]]


def quoted() -> list[str]:
    """Return the messages in the page's lists."""
    return re.findall(r"^- `([^`]+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def pattern(message: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, message.split(HOLE))), re.DOTALL)


@cache
def written() -> list[str]:
    """Return every string of the source, with a hole wherever a value is filled in."""
    found = []
    for path in (ROOT / "src" / "laconic").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                found.append("".join(str(one.value) if isinstance(one, ast.Constant) else HOLE for one in node.values))
    return found


def is_written(message: str) -> bool:
    return any(pattern(message).fullmatch(one) for one in written())


@pytest.fixture(autouse=True)
def _logs_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are this process's, and other tests read them; `serve` would set them up for itself."""
    monkeypatch.setattr("logging.config.dictConfig", lambda settings: None)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with data that is right and wrong, and with models that are whole, damaged and not packed."""
    place = tmp_path_factory.mktemp("mistakes")
    files = {"right.csv": TABLE, "other.csv": "title,kind\na,b\n", "cells.csv": TABLE + "one,two,three\n"}
    files |= {"quote.csv": TABLE + '"open,flower\n', "unlabelled.csv": "text,labels\na,\nb,\n", "empty.csv": ""}
    files |= {"cut.jsonl": '{"text": \n', "blank.jsonl": '{"text": "a", "labels": ["b", " "]}\n', "cut.parquet": "PAR1"}
    files |= {"names.txt": "waters\n"}
    for name, text in files.items():
        (place / name).write_text(text)
    (place / "latin.csv").write_bytes(TABLE.encode() + b"caf\xe9,drink\n")
    (place / "cut.csv.gz").write_bytes(gzip.compress(TABLE.encode() * 100)[:-9])
    (place / "nothing").mkdir()
    for name in ("twice/train.csv", "twice/train.jsonl", "two/train.csv", "two/test.csv"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(TABLE)
    model = Laconic("nearest").fit(*RECORDS)
    model.save(place / "plain")
    model.pack(RECORDS[0]).save(place / "model")
    for name in ("damaged", "lacking", "shorter"):
        shutil.copytree(place / "model", place / name)
    (place / "damaged" / "labels.txt").write_text("flawer\nwater\n")
    (place / "shorter" / "labels.txt").write_text("flower\n")
    (place / "lacking" / "labels.txt").unlink()
    changed = Laconic.load(place / "plain").add_labels({"rose": "red rose"})
    changed.save(place / "changed")
    shutil.copytree(place / "model" / "packed", place / "changed" / "packed")
    return place


def complaint(*arguments: str) -> BaseException | None:
    return CliRunner().invoke(app, list(arguments)).exception


def _grouped() -> Laconic:
    return Laconic("nearest").fit(["a"], ["water"], label_attributes={"water": {"kind": "b"}})


def raised(call: Callable[[], object]) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one it is, its message says
        call()
    return caught.value


def asked(**question: object) -> BaseException:
    return raised(lambda: question_of(json.dumps(question).encode(), Limits()))


def trained(data: str, *options: str) -> BaseException | None:
    return complaint("train", data, "--method", "nearest", "--out", "made", *options)


def of_a_used_port() -> BaseException | None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        return complaint("serve", "model", "--port", str(one.getsockname()[1]))


PROVOKED: dict[str, Callable[[], BaseException | str | None]] = {
    "… needs …, which is not installed; …": lambda: missing_package("laconic train", ModuleNotFoundError(name="torch")),
    "…: there is no such file or folder": lambda: trained("nowhere.csv"),
    "…: no data set is recognised here (there is: …); expected are train.jsonl, train.csv, …": lambda: trained(
        "nothing"
    ),
    "…: no column …; the columns are: …. Name the one that holds …": lambda: trained("other.csv"),
    "…: …, where the first line names …; mend the row or its quotes": lambda: trained("cells.csv"),
    "…: not a whole row (…); double a quote inside quotes, or say that quotes mean nothing (--column quotes=false)": (
        lambda: trained("quote.csv")
    ),
    "…: byte … of the line is not UTF-8 (hex …); convert the file first, for example: iconv -f latin1 -t utf-8": (
        lambda: trained("latin.csv")
    ),
    "…: this is not JSON (…, character …) near …; every line must be one whole JSON object": lambda: trained(
        "cut.jsonl"
    ),
    "…: this is not a whole Parquet file (…); write it again": lambda: trained("cut.parquet"),
    "…: the gzip data is cut off or damaged (…); fetch or write the file again": lambda: trained("cut.csv.gz"),
    "…: the file is empty…": lambda: trained("empty.csv"),
    "…: both … and … are there; keep one of them": lambda: trained("twice"),
    "…: no text… has a label…": lambda: trained("unlabelled.csv"),
    "…: a label is …, which is no name; name it, or leave it out": lambda: trained("blank.jsonl"),
    "…: there is no split …; it has …": lambda: complaint("evaluate", "model", "two", "--split", "valid"),
    "there are …, but … of labels": lambda: raised(lambda: Laconic("nearest").fit(["a"], [["b"], ["c"]])),
    "there is no text at all; give at least one": lambda: raised(lambda: Laconic("nearest").fit([], [])),
    "texts[…] is …, where a string is needed": lambda: raised(lambda: Laconic("nearest").fit([None], [["b"]])),
    "there is no method …; known are: …": lambda: complaint("train", "right.csv", "--method", "nearst"),
    "there is no setting …; did you mean …?": lambda: trained("right.csv", "--set", "neighbors=3"),
    "there is no setting …; known are: …": lambda: trained("right.csv", "--set", "depth=3"),
    "there is no setting …; … lists those of a method": lambda: complaint(
        "train", "right.csv", "--method", "inceptionxml", "--set", "zzz=3"
    ),
    "budget chooses a method, but … is named; leave one of them out": lambda: raised(
        lambda: Laconic("trees", budget="5m").fit(*RECORDS)
    ),
    "preset … is for a named method; name one, such as …": lambda: raised(
        lambda: Laconic(preset="laptop").fit(*RECORDS)
    ),
    "labels is a matrix that holds …, where 0 and 1 are needed; give numbers of labels as lists": lambda: raised(
        lambda: Laconic("nearest").fit(["a"], np.array([[0, 3]]))
    ),
    "labels is a matrix of …, but classes has …; give one for each column": lambda: raised(
        lambda: Laconic("nearest", classes=["b"]).fit(["a"], np.eye(1, 2))
    ),
    "… must be …, but is …": lambda: trained("right.csv", "--set", "neighbours=-1"),
    "a setting must look like key=value, but is …": lambda: trained("right.csv", "--set", "neighbours"),
    "there is no preset … for …, nor such a file; …": lambda: trained("right.csv", "--preset", "large"),
    "…: there is a finished model, but …; --force replaces it, or choose another name (--out)": (
        lambda: complaint("train", "right.csv", "--method", "nearest", "--out", "model")
    ),
    "there is no tracker …; known are mlflow and wandb, with an experiment or project as in mlflow:NAME": (
        lambda: trained("right.csv", "--track", "comet")
    ),
    "…: there is no such model folder…": lambda: complaint("predict", "nowhere", "--text", "a"),
    "…: this is not a model folder: it has no …": lambda: complaint("predict", "nothing", "--text", "a"),
    "…: its content is not what was written (a hash differs); copy the model again": (
        lambda: complaint("inspect", "damaged", "--verify")
    ),
    "…: …, but the manifest says …; copy the model again": lambda: complaint("evaluate", "shorter", "right.csv"),
    "…: the manifest lists this file, but it is not there; copy the model again": (
        lambda: complaint("evaluate", "lacking", "right.csv")
    ),
    "…: no model is there, or it is being pushed: it has no …; check the address, or wait": (
        lambda: complaint("pull", "nothing", "pulled")
    ),
    "…: this location cannot be used (…); check its address, your access to it, and that the package of fsspec for it "
    "is installed": lambda: complaint("pull", "nosuch://place/model", "pulled"),
    "a packed model can only predict, not be saved or changed; load the model that it was packed from": (
        lambda: raised(lambda: Laconic.load("model/packed").save("copy"))
    ),
    "the scores of this model are not probabilities: call calibrate(texts, labels) …": (
        lambda: raised(lambda: Laconic.load("model").predict_proba(["a"]))
    ),
    "this Laconic is not fitted yet; call fit(texts, labels), or Laconic.load": lambda: raised(
        lambda: Laconic("nearest").predict("a")
    ),
    "the model has no labels …": lambda: complaint("remove-labels", "model", "names.txt"),
    "the model has … already; leave them out, or remove them first": (
        lambda: raised(lambda: Laconic.load("plain").add_labels({"water": "sea"}))
    ),
    "…: no word of their texts is known to the model, and there are no examples of them; give them texts in the "
    "model's words, or examples": lambda: raised(lambda: Laconic.load("plain").add_labels({"zebra": "stripes"})),
    "--keep-texts needs the data that the model was trained on; name it (--data)": (
        lambda: complaint("pack", "model", "--keep-texts")
    ),
    "… names labels that the model does not have: …": lambda: raised(
        lambda: Laconic.load("model").predict("a", allow=["waters"])
    ),
    "… must be a list of label names, but is one string: …": (
        lambda: raised(lambda: Laconic.load("model").predict("a", allow="water"))
    ),
    "where names the attribute …, which the labels of this model do not have…; they have: …": (
        lambda: raised(lambda: _grouped().predict("a", where={"kinds": "b"}))
    ),
    "where wants … to be …, but no label has this value…": (
        lambda: raised(lambda: _grouped().predict("a", where={"kind": "c"}))
    ),
    "where chooses labels by their attributes, but the labels of this model have none; …": (
        lambda: complaint("predict", "model", "--text", "a", "--where", "kind=b")
    ),
    "k must be 1 or more, but is …": lambda: raised(lambda: Laconic.load("model").predict("a", k=0)),
    "…; --skip-bad skips what cannot be read": lambda: complaint("predict", "model", "latin.csv", "--out", "a.csv"),
    "--out must end in .jsonl, .csv, .tsv or .parquet, .gz may follow; but it is …": (
        lambda: complaint("predict", "model", "right.csv", "--out", "a.xlsx")
    ),
    "only a packed model explains its labels; call pack(texts) first": lambda: raised(
        lambda: Laconic.load("plain").explain("a")
    ),
    "--explain is for a packed model, which answers on a CPU; …": (
        lambda: complaint("predict", "plain", "--text", "a", "--explain")
    ),
    "…: this model was not packed; …": lambda: complaint("serve", "plain", "--port", "0"),
    "…: it was packed of another model; …": lambda: complaint("serve", "changed", "--port", "0"),
    "… cannot be used (…); choose another --host or --port": of_a_used_port,
    "give either text or texts": lambda: asked(k=3),
    "k must be at most …": lambda: asked(text="a", k=10**6),
}


def test_the_page_quotes_messages_once_and_explains_them() -> None:
    messages = quoted()
    assert len(messages) == len(set(messages)) >= 50
    assert PROVOKED.keys() <= set(messages)
    remedies = re.findall(r"^- `[^`]+`\n\n    .*\*Remedy:\* .{10,}\n$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(remedies) == len(messages)


@pytest.mark.parametrize("message", [one for one in quoted() if one not in PROVOKED])
def test_a_message_that_is_not_provoked_is_in_the_source(message: str) -> None:
    assert is_written(message)


@pytest.mark.parametrize("message", PROVOKED)
def test_a_mistake_gives_the_message_on_the_page(message: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    told = str(PROVOKED[message]())
    assert pattern(message).fullmatch(told), told


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_gives_the_message_on_the_page(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    told = str(trained("right.csv", "--device", "cuda"))
    assert told in quoted()


def test_a_message_that_nobody_writes_is_found_out() -> None:
    assert not is_written("the moon is made of …, which is not cheese")
    assert not is_written("there is no such file or folder, alas")
