# ruff: noqa: F401, F811 - fixtures of another module are imported to be arguments here
"""What every verb shares: its help, names of options, JSON, shell completion, and how much it prints."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from laconic.cli import demo as cli_demo
from laconic.cli.main import app
from laconic.cli.verb import BUNDLED_NAMES
from laconic.data.catalogue import BUNDLED
from laconic.data.output import write_folder
from laconic.data.sources import read
from laconic.methods import auto
from tests.planted import planted_texts
from tests.test_cli import data, laconic, model, shown_and_told

GROUP = typer.main.get_command(app)
VERBS: dict[str, Any] = vars(GROUP)["commands"]
TRAIN_SMALL = ["--device", "cpu", "--no-pack", "--validation", "0", "--set", "embedding=16"]


def options(verb: Any) -> Iterator[Any]:
    yield from (param for param in verb.params if param.param_type_name == "option" and not param.hidden)


@pytest.mark.parametrize("name", VERBS)
def test_help_begins_with_a_sentence_and_ends_with_an_example_that_can_be_typed(name: str) -> None:
    verb = VERBS[name]
    first = verb.help.partition("\n")[0]
    assert re.match(r"[A-Z][a-z-]+ ", first), first  # a verb
    examples = re.findall(r"^\$ (.*)$", verb.epilog, re.MULTILINE)
    assert examples
    shown = laconic(name, "--help")
    for example in examples:
        words = shlex.split(example.rpartition("| ")[2])
        assert words[:2] == ["laconic", name]
        VERBS[name].make_context(name, words[2:])  # raises for options that there are not
        assert example in shown


@pytest.mark.parametrize("name", VERBS)
def test_every_option_is_in_a_group_and_says_what_it_does(name: str) -> None:
    for param in options(VERBS[name]):
        assert param.help, param.name
        assert param.help.endswith("."), param.help
        assert param.rich_help_panel, param.name
    assert "<bool>" not in laconic(name, "--help")


def test_flags_of_the_command_line_itself_show_no_type() -> None:
    assert "<bool>" not in laconic("--help")


@pytest.mark.parametrize("name", VERBS)
def test_one_thing_has_one_name_in_every_verb(name: str) -> None:
    named = {opt: param for param in options(VERBS[name]) for opt in param.opts}
    assert "--table" not in named
    assert "--json" not in named or named["--json"].is_flag
    assert "--column" not in named or named["--column"].metavar == "ROLE=NAME"


# JSON


def measures(model: Path, data: Path, tmp_path: Path) -> list[list[Any]]:
    texts = "a rose\nthe sea is blue\nred tulip\n"
    (tmp_path / "answers.jsonl").write_text(laconic("predict", model, "--json", stdin=texts))
    return [
        ["evaluate", model, data],
        ["compare", model, model, data],
        ["score", tmp_path / "answers.jsonl", data],
        ["bench", model, data, "--texts", 3, "--singly", 2],
    ]


def test_json_is_printed_alone_and_is_what_a_file_gets(model: Path, data: Path, tmp_path: Path) -> None:
    for number, command in enumerate(measures(model, data, tmp_path)):
        printed = json.loads(laconic(*command, "--json"))
        shown = laconic(*command, "--out", tmp_path / f"{number}.json")
        assert "┃" in shown
        assert json.loads((tmp_path / f"{number}.json").read_text()).keys() == printed.keys()


def test_a_file_after_json_is_written_as_before(model: Path, data: Path, tmp_path: Path) -> None:
    commands = measures(model, data, tmp_path)
    for number, command in enumerate(commands):
        assert "┃" in laconic(*command, "--json", tmp_path / f"{number}.json")
        assert json.loads((tmp_path / f"{number}.json").read_text())
    for number, command in enumerate(commands):  # whatever its name
        laconic(*command, "--json", tmp_path / f"figures{number}")
        laconic(*command, f"--json={tmp_path / f'again{number}'}")
        assert (
            json.loads((tmp_path / f"figures{number}").read_text()).keys()
            == json.loads((tmp_path / f"again{number}").read_text()).keys()
        )
    assert set(BUNDLED_NAMES) == set(BUNDLED)
    assert json.loads(laconic("evaluate", "--json", model, data))["texts"] == 3  # and here there is none too many


# Columns


def test_columns_are_named_alike_in_every_verb(model: Path, tmp_path: Path) -> None:
    shop = tmp_path / "shop.csv"
    shop.write_text("sku,product,kind\na1,blue sea,water\na2,red rose,flower\na3,red sea,water\n")
    for named in (["--column", "text=product"], ["--column", "product"], ["--table", "text=product"]):
        facts = json.loads(laconic("inspect", shop, "--json", *named, "--column", "labels=kind"))
        assert facts["table"]["used"]["all"] == {"text": "product", "labels": "kind"}
        laconic("predict", model, shop, *named, "-k", 1, "--out", tmp_path / "answers.csv")
        header, first, *_ = (tmp_path / "answers.csv").read_text().splitlines()
        assert header == "text,sku,kind,label_1,score_1,known_words"
        assert first.startswith("blue sea,a1,water,water,")
    assert "there is no setting 'colour'" in laconic("predict", model, shop, "--column", "colour=kind", code=2)


# Predict


def test_texts_can_be_given_on_the_command_line(model: Path) -> None:
    texts = ["photo of a rose", "deep sea"]
    answers = [
        json.loads(line)
        for line in laconic("predict", model, "--json", "-k", 1, "--text", texts[0], "--text", texts[1]).splitlines()
    ]
    assert [answer["text"] for answer in answers] == texts
    assert [answer["predictions"][0]["label"] for answer in answers] == ["flower", "water"]
    for more in (["texts.txt"], ["--format", "csv"], ["--column", "x"]):
        assert "--text takes the place of" in laconic("predict", model, *more, "--text", "rose", code=2)


def test_a_terminal_is_told_to_type_a_text_and_nothing_else_is(model: Path) -> None:
    import pty

    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "laconic", "predict", str(model), "-k", "1"]
    with subprocess.Popen(command, stdin=end, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        os.write(terminal, b"a rose\n\x04")
        shown, told = running.communicate()
    os.close(end)
    os.close(terminal)
    assert b"Type a text and press Enter; Ctrl-D ends." in told
    assert b"flower" in shown
    assert "Type a text" not in shown_and_told("predict", model, stdin="a rose\n")[1]


# Train


def test_a_model_folder_is_named_after_data_and_method_and_never_overwritten_in_silence(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    shown, told = shown_and_told("train", data, "--method", "nearest")
    assert "planted-nearest: nearest, 6 texts" in shown
    assert "Model folder: planted-nearest" in told
    assert "already trained" in laconic("train", data, "--method", "nearest")
    refused = laconic("train", data, "--method", "nearest", "--set", "neighbours=3", code=2)
    assert "--force replaces it, or choose another name (--out)" in " ".join(refused.split())
    (tmp_path / "planted-trees").mkdir()
    (tmp_path / "planted-trees" / "thesis.tex").write_text("years of work")
    assert "thesis.tex" in laconic("train", data, "--method", "trees", code=2)
    (tmp_path / "shop.v2.csv.gz").write_bytes(gzip.compress(b"text,labels\nred rose,a\nblue sea,b\n"))
    laconic("train", "shop.v2.csv.gz", "--no-pack")
    assert (tmp_path / "shop.v2-auto" / "model.json").exists()


def trained_config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "model.json").read_text())["config"]
    return config


OPTIONS = ["--epochs", "2", "--batch-size", "3", "--lr", "0.02", "--seed", "5"]
WANTED = {"epochs": 2, "batch_size": 3, "learning_rate": 0.02, "seed": 5}


def test_settings_of_training_have_options_of_their_own(data: Path, tmp_path: Path) -> None:
    command = ["train", data, "--method", "xml-cnn", "--out", tmp_path / "m", *TRAIN_SMALL]
    laconic(*command, *OPTIONS, "--set", "epochs=9")
    assert WANTED.items() <= trained_config(tmp_path / "m").items()
    laconic("train", data, "--method", "nearest", "--rerank", "--no-pack", "--out", tmp_path / "r", *OPTIONS)
    assert WANTED.items() <= trained_config(tmp_path / "r")["reranker"].items()


@pytest.mark.parametrize(
    ("method", "option", "name"),
    [("nearest", "--epochs", "epochs"), ("nearest", "--seed", "seed"), ("trees", "--lr", "learning_rate")],
)
def test_an_option_that_a_method_has_no_setting_for_is_refused(
    data: Path,
    tmp_path: Path,
    method: str,
    option: str,
    name: str,
) -> None:
    refused = laconic("train", data, "--method", method, option, 1, "--out", tmp_path / "m", code=2)
    assert f"{option}: {method} has no setting {name!r}; `laconic settings {method}`" in " ".join(refused.split())
    assert not (tmp_path / "m").exists()


def test_such_an_option_is_refused_for_a_method_that_was_chosen(data: Path, tmp_path: Path) -> None:
    refused = " ".join(laconic("train", data, "--epochs", 3, "--out", tmp_path / "m", code=2).split())
    assert "nearest has no setting 'epochs'" in refused
    assert "(nearest was chosen; name a method that has it)" in refused


def test_options_of_training_reach_the_learnt_ranker_of_a_combined_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "share_of_cores", lambda: 1.0)
    write_folder(planted_texts(num_texts=600), tmp_path / "data")
    command = ["train", tmp_path / "data", "--device", "cpu", "--no-pack", "--out", tmp_path / "m", "--budget", "1s"]
    laconic(*command, "--method", "auto", "--seed", 5, "--set", "fusion.trees=0")
    config = trained_config(tmp_path / "m")
    assert config["seed"] == 5
    assert config["fusion"]["trees"] == 0


def test_train_prints_nothing_or_more(data: Path, tmp_path: Path) -> None:
    command = ["train", data, "--method", "xml-cnn", "--epochs", 1, *TRAIN_SMALL, "--out"]
    assert shown_and_told(*command, tmp_path / "quiet", "--quiet") == ("", "")
    _, told = shown_and_told(*command, tmp_path / "verbose", "--verbose")
    assert '"embedding": 16' in told
    assert "settings of xml-cnn" not in shown_and_told(*command, tmp_path / "plain")[1]
    refused = laconic(*command, tmp_path / "both", "--quiet", "--verbose", code=2)
    assert "exclude each other" in refused
    refused = laconic("train", data, "--quiet", "--method", "xml-cnn", "--set", "epoch=3", "--out", "m", code=2)
    assert "there is no setting 'epoch'" in refused  # errors are printed all the same


def test_settings_of_an_update_are_called_that() -> None:
    shown = " ".join(laconic("update", "--help").split())
    assert "Override a setting of the update" in shown
    assert "setting of the method" not in shown


# Evaluate


def test_an_evaluation_shows_the_first_metrics_explained_and_the_rest_if_asked(
    model: Path,
    data: Path,
) -> None:
    shown, every = laconic("evaluate", model, data), laconic("evaluate", model, data, "--all")
    rows = re.findall(r"^│ ([A-Za-z ]+?) +│", shown, re.MULTILINE)
    assert rows == ["P", "nDCG", "PSP", "R", "tail R"]
    assert "@10" in shown
    assert "@20" not in shown
    assert {"C", "ECE", "PSnDCG", *rows} == set(re.findall(r"^│ ([A-Za-z ]+?) +│", every, re.MULTILINE))
    assert "@20" in every
    for name in ("PSP", "R", "tail R"):
        assert re.search(rf"^{name} +\w", shown, re.MULTILINE)
    for name in ("C", "ECE", "PSnDCG"):
        assert re.search(rf"^{name} +\w", every, re.MULTILINE)
        assert not re.search(rf"^{name} +\w", shown, re.MULTILINE)


# Completion


def completed(shell: str, line: str) -> list[str]:
    """Asks as a shell's script does, in a process of its own."""
    words = line.split(" ")
    environment = {"_LACONIC_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line}
    environment |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    command = [sys.executable, "-m", "laconic"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    return re.findall(r"[\w+-]+", done.stdout)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_verbs_options_and_methods_are_completed(shell: str) -> None:
    assert {"add-labels"} <= set(completed(shell, "laconic add"))
    assert {"--budget"} <= set(completed(shell, "laconic train --bud"))
    assert {"inceptionxml"} <= set(completed(shell, "laconic train shop.csv --method inc"))
    assert {"debian-related"} <= set(completed(shell, "laconic inspect deb"))


def test_bash_completes_with_the_script_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "laconic").write_text(f'#!/bin/sh\nexec {sys.executable} -m laconic "$@"\n')
    (tmp_path / "laconic").chmod(0o755)
    script = """
eval "$(_LACONIC_COMPLETE=source_bash laconic)"
COMP_WORDS=(laconic remove) COMP_CWORD=1
$(complete -p laconic | sed 's/.*-F \\([^ ]*\\).*/\\1/') laconic
echo "${COMPREPLY[@]}"
"""
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["remove-labels"]


# Demo


def test_the_demo_shows_a_combined_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "share_of_cores", lambda: 1.0)
    choice = cli_demo._choice(read(cli_demo.DATA))
    assert "fusion" in choice.settings
    assert choice.seconds <= 180


def test_the_demo_trains_and_predicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(planted_texts(num_texts=600, with_label_texts=True), tmp_path / "data")
    monkeypatch.setitem(BUNDLED, cli_demo.DATA, tmp_path / "data")
    monkeypatch.setattr(cli_demo, "_BUDGET", 0.5)
    shown = laconic("demo")
    for expected in ("Training the default model", "default model", "nearest texts", "GNOME desktop calendar", "PSP"):
        assert expected in shown
