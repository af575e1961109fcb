"""The verbs as a user types them: a process each, its output, its exit code."""

import io
import json
import re
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

import pytest

from laconic.cli import main
from laconic.errors import DataError

TRAIN = [
    ("red rose in the garden", ["flower", "red"]),
    ("white rose", ["flower"]),
    ("yellow tulip in a vase", ["flower"]),
    ("blue sea", ["water"]),
    ("deep blue ocean", ["water"]),
    ("red sea", ["water", "red"]),
]
TEST = [("a rose", ["flower"]), ("the sea is blue", ["water"]), ("red tulip", ["flower", "red"])]


def laconic(*arguments, stdin="", code=0):
    """Runs a verb in this process, which is quicker than a new one; returns what it shows, or its error's message."""
    shown, complained = io.StringIO(), io.StringIO()
    with (
        redirect_stdout(shown),
        redirect_stderr(complained),
        mock.patch("sys.argv", ["laconic", *map(str, arguments)]),
        mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
        mock.patch.dict("os.environ", {"COLUMNS": "200", "NO_COLOR": "1"}),
        pytest.raises(SystemExit) as stopped,
    ):
        main()
        sys.exit(0)
    assert stopped.value.code in (code, None), complained.getvalue()
    return complained.getvalue() if code else shown.getvalue()


def process(*arguments, **options):
    """A verb in a process of its own, for what only a process can show."""
    return subprocess.Popen([sys.executable, "-m", "laconic", *map(str, arguments)], **options)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "planted"
    folder.mkdir()
    for name, rows in (("train", TRAIN), ("test", TEST)):
        records = (json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in rows)
        (folder / f"{name}.jsonl").write_text("".join(records))
    return folder


@pytest.fixture(scope="module")
def model(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    shown = laconic("train", data, "--method", "nearest", "--out", folder)
    assert "6 texts, 3 labels" in shown
    return folder


def test_train_evaluate_and_predict_are_one_path(data, model, tmp_path):
    shown = laconic("evaluate", model, data, "--json", tmp_path / "figures.json")
    assert "PSP" in shown
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["metrics"]["P@1"] == 100.0
    assert figures["texts"] == 3
    answers = [
        json.loads(line) for line in laconic("predict", model, "-k", 2, "--json", stdin="a rose\nsea\n").splitlines()
    ]
    assert [answer["text"] for answer in answers] == ["a rose", "sea"]
    assert [answer["predictions"][0]["label"] for answer in answers] == ["flower", "water"]
    assert all(len(answer["predictions"]) == 2 for answer in answers)


def test_predict_reads_a_file_and_answers_every_line_in_order(model, tmp_path):
    (tmp_path / "texts").write_text("rose\n\nblue ocean\n")
    answers = [json.loads(line) for line in laconic("predict", model, tmp_path / "texts", "--json").splitlines()]
    assert [answer["text"] for answer in answers] == ["rose", "", "blue ocean"]


def test_predict_without_json_shows_names_and_scores(model):
    shown = laconic("predict", model, "-k", 1, stdin="rose\n")
    assert re.fullmatch(r"rose\n  \d\.\d{3}  flower\n", shown)


def test_predictions_score_the_same_as_the_model_that_made_them(data, model, tmp_path):
    texts = "".join(text + "\n" for text, _ in TEST)
    (tmp_path / "predictions.jsonl").write_text(laconic("predict", model, "-k", 3, "--json", stdin=texts))
    laconic("score", tmp_path / "predictions.jsonl", data, "--json", tmp_path / "scored.json")
    laconic("evaluate", model, data, "--json", tmp_path / "evaluated.json")
    scored, evaluated = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("scored", "evaluated"))
    assert scored["metrics"] == evaluated["metrics"]


def test_settings_reach_the_method(data, tmp_path):
    laconic(
        "train",
        data,
        "--method",
        "nearest",
        "--out",
        tmp_path / "m",
        "--set",
        "neighbours=1",
        "--set",
        "text.stop_words=false",
    )
    config = json.loads((tmp_path / "m" / "model.json").read_text())["config"]
    assert (config["neighbours"], config["text"]["stop_words"]) == (1, False)


def test_inspect_prints_json_that_can_be_read(data):
    facts = json.loads(laconic("inspect", data, "--json"))
    assert facts["splits"]["train"]["texts"] == 6
    assert facts["labels"]["labels"] == 3


def test_inspect_draws_pictures(data, tmp_path):
    laconic("inspect", data, "--plots", tmp_path / "pictures")
    names = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert names == ["label-frequencies.png", "sequence-lengths.png"]


def test_convert_then_inspect_finds_the_same(data, tmp_path):
    laconic("convert", data, tmp_path / "converted")
    one, other = (json.loads(laconic("inspect", folder, "--json")) for folder in (data, tmp_path / "converted"))
    del one["source"], other["source"]
    assert one == other


def test_a_table_is_read_by_the_columns_that_are_named(tmp_path):
    (tmp_path / "shop.csv").write_text("product,kind\nred rose,flower/red\nblue sea,water\n")
    table = ["--table", "text=product", "--table", "labels=kind", "--table", "separator=/"]
    facts = json.loads(laconic("inspect", tmp_path / "shop.csv", "--json", *table))
    assert facts["labels"]["labels"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "nowhere"], "nowhere: there is no such file or folder"),
        (
            ["train", "debian-related", "--method", "magic", "--out", "m"],
            "there is no method 'magic'; known are: nearest",
        ),
        (
            ["train", "debian-related", "--method", "nearest", "--out", "m", "--set", "neighbors=3"],
            "there is no setting 'neighbors'; known are: neighbours",
        ),
        (["predict", "nowhere"], "nowhere: there is no such model folder"),
        (["evaluate", "nowhere", "debian-related"], "nowhere: there is no such model folder"),
    ],
)
def test_a_users_mistake_is_one_message_without_a_traceback(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = laconic(*arguments, code=2)
    assert message in shown
    assert "Traceback" not in shown
    assert not list(tmp_path.iterdir())


def test_debug_shows_the_traceback():
    with (
        pytest.raises(DataError, match="nowhere"),
        mock.patch("sys.argv", ["laconic", "--debug", "inspect", "nowhere"]),
    ):
        main()


def test_an_unknown_verb_exits_with_2():
    laconic("frobnicate", code=2)


def test_an_interrupt_exits_with_130(model):
    running = process("predict", model, "-k", 1, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    time.sleep(2)  # by then it most likely waits for a text; any other moment must do as well
    running.send_signal(signal.SIGINT)
    running.communicate()
    assert running.returncode in (
        130,
        -signal.SIGINT,
    )  # the latter while Python still starts; a shell shows 130 for both


def test_an_interrupted_training_says_how_to_go_on_and_does(data, tmp_path):
    command = ["train", data, "--out", tmp_path / "m", "--validation", "0", "--device", "cpu"]
    settings = ["--set", "epochs=2000", "--set", "embedding=16", "--set", "length=4"]
    running = process(*command, *settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in running.stderr:
        if b"epoch 3/" in line:
            break
    running.send_signal(signal.SIGINT)
    _, complained = running.communicate()
    assert running.returncode == 130
    assert b"stopped; the same command goes on from here" in complained
    assert (tmp_path / "m" / "run" / "train.safetensors").exists()
    assert "begun here" in laconic(*command, "--set", "epochs=5", code=2).replace("\n", " ")


def test_brackets_in_a_path_are_no_markup(data, tmp_path):
    folder = tmp_path / "a[bold]b[/c]"
    assert "a[bold]b[/c]" in laconic("train", data, "--method", "nearest", "--out", folder)


def test_a_mistake_in_a_process_of_its_own_exits_with_2():
    running = process("inspect", "nowhere", stderr=subprocess.PIPE)
    _, complained = running.communicate()
    assert running.returncode == 2
    assert b"error: nowhere: there is no such file or folder" in complained


def test_a_reader_that_leaves_early_is_no_error(model):
    command = (
        f"yes rose | head -5000 | {sys.executable} -m laconic predict {model} --json | head -1; echo ${{PIPESTATUS[2]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout.splitlines()[0])["text"] == "rose"
