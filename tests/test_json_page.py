# ruff: noqa: F401, F811 - fixtures of another module are imported to be arguments here
"""The page on JSON names the keys that each verb prints, and says of --json what is true of every verb."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from laconic.cli.main import app
from tests.pages import ROOT
from tests.test_cli import clustered, data, laconic, model, shown_and_told

PAGE = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
VERBS: dict[str, Any] = vars(typer.main.get_command(app))["commands"]


def named_keys(section: str) -> set[str]:
    """Return the keys in the first column of a section's table."""
    body = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|", body, re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


def options(verb: str) -> dict[str, Any]:
    return {name: param for param in VERBS[verb].params for name in param.opts}


@pytest.fixture
def arguments(model: Path, clustered: Path, data: Path, tmp_path: Path) -> dict[str, list[Any]]:
    """The shortest command of each verb that prints JSON."""
    answers = tmp_path / "answers.jsonl"
    laconic("predict", model, data / "test.jsonl", "--out", answers)
    return {
        "predict": [model, "--text", "a rose"],
        "evaluate": [model, data],
        "score": [answers, data],
        "compare": [model, clustered, data, "--device", "cpu"],
        "sweep": [clustered, data, "--at", 1, "--device", "cpu"],
        "bench": [model, data],
        "inspect": [data],
        "settings": ["trees", "beam"],
    }


def test_every_verb_that_prints_json_is_on_the_page(arguments: dict[str, list[Any]]) -> None:
    with_flag = {name for name in VERBS if "--json" in options(name)}
    assert with_flag == set(arguments)
    table = PAGE.partition("\n## ")[0]
    rows = [row.split(" | ") for row in re.findall(r"^\| (`.*) \|$", table, re.MULTILINE)]
    assert {verb for row in rows for verb in re.findall(r"`(\w+)`", row[0])} == with_flag
    for row in rows:
        for verb in re.findall(r"`(\w+)`", row[0]):
            assert ("--out" in options(verb)) == (row[2] != "no such option"), verb
            assert options(verb)["--json"].is_flag


@pytest.mark.parametrize("verb", ["predict", "evaluate", "score", "compare", "sweep", "bench", "inspect", "settings"])
def test_the_keys_of_the_page_are_those_that_are_printed(verb: str, arguments: dict[str, list[Any]]) -> None:
    printed = json.loads(laconic(verb, *arguments[verb], "--json"))
    found = printed[0] if verb == "settings" else printed
    assert named_keys(verb) == set(found)


@pytest.mark.parametrize("verb", ["evaluate", "score", "compare", "sweep", "bench"])
def test_out_writes_what_json_prints(verb: str, arguments: dict[str, list[Any]], tmp_path: Path) -> None:
    path, older = tmp_path / "results.json", tmp_path / "older.json"
    assert laconic(verb, *arguments[verb], "--json", "--out", path) == path.read_text()
    laconic(verb, *arguments[verb], "--json", older)  # the spelling before --json was a flag
    assert set(json.loads(older.read_text())) == named_keys(verb)


def test_nothing_but_json_is_printed(arguments: dict[str, list[Any]], tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("text,labels\na rose,flower;red\nthe sea,water;blue\n")
    shown, told = shown_and_told("evaluate", arguments["evaluate"][0], table, "--split", "all", "--json")
    assert json.loads(shown)["texts"] == 2
    assert "labels are separated by" in told
