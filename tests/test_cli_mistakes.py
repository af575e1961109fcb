"""What users get wrong, or find in their way: a message that says what to do, and no traceback."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from laconic import Laconic
from laconic.errors import ModelError, UserError
from laconic.storage.manifest import json_object
from laconic.system.files import check_writable, replacing, writing
from tests.test_cli import TEST, TRAIN, laconic, shown_and_told

NOWHERE = Path("/proc/x")  # where nobody can write, whoever they are
needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")


def records(path: Path, rows: list[tuple[str, list[str]]]) -> Path:
    path.write_text("".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in rows))
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "planted"
    folder.mkdir()
    records(folder / "train.jsonl", TRAIN)
    records(folder / "test.jsonl", TEST)
    return folder


@pytest.fixture(scope="module")
def model(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    laconic("train", data, "--method", "nearest", "--out", folder)
    return folder


# Root is told that there is no such folder, others that they may not write there.
NOT_WRITTEN = r": (cannot be written \(.*\)|writing is not permitted); nothing was changed there"


def complaint(*arguments: Any) -> str:
    told = shown_and_told(*arguments, code=2)[1]
    assert "Traceback" not in told
    return told


@pytest.mark.slow
@needs_proc
def test_what_cannot_be_written_is_an_error_for_people(data: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text('{"id": "colour", "text": "red"}\n')
    (tmp_path / "texts").write_text("a rose\n")
    for command in (
        ["train", data, "--method", "nearest", "--out"],
        ["pack", model, "--out"],
        ["add-labels", model, tmp_path / "new.jsonl", "--out"],
        ["remove-labels", model, "--label", "red", "--out"],
        ["update", model, data, "--out"],
        ["convert", data],
    ):
        assert re.search(f"/proc/x{NOT_WRITTEN}", complaint(*command, NOWHERE)), command[0]
    told = complaint("predict", model, tmp_path / "texts", "--out", "/proc/x.csv")
    assert re.search(rf"/proc/x\.csv{NOT_WRITTEN}", told)
    for verb in (["evaluate", model], ["compare", model, model], ["bench", model], ["score", tmp_path / "answers"]):
        (tmp_path / "answers").write_text('{"predictions": [{"label": "red", "score": 1}]}\n' * len(TEST))
        assert re.search(rf"/proc/x\.json{NOT_WRITTEN}", complaint(*verb, data, "--json", "/proc/x.json")), verb[0]
    for verb in (["evaluate", model], ["inspect"]):
        assert re.search(NOT_WRITTEN, complaint(*verb, data, "--plots", NOWHERE)), verb[0]


@needs_proc
def test_training_refuses_a_folder_that_cannot_be_written_before_it_reads_the_data() -> None:
    assert re.search(f"/proc/x{NOT_WRITTEN}", complaint("train", "nowhere.csv", "--out", NOWHERE))


def test_a_file_in_the_way_of_a_folder_is_an_error_for_people(data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "m", tmp_path / "file" / "m" / "n"):
        told = complaint("train", data, "--method", "nearest", "--out", path)
        assert f"{path}: a part of its path is a file" in told
    with pytest.raises(UserError, match="cannot be written"), writing(tmp_path / "file" / "x"):
        pass
    with pytest.raises(UserError, match="cannot be written"), replacing(tmp_path / "file" / "x"):
        pass


@needs_proc
def test_saving_from_python_is_refused_alike() -> None:
    model = Laconic("nearest", device="cpu").fit(["a", "b"], [["x"], ["y"]])
    with pytest.raises(UserError, match=f"/proc/x{NOT_WRITTEN}"):
        model.save(NOWHERE)


def test_a_look_at_a_folder_that_can_be_written_leaves_nothing_there(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "folder")
    check_writable(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_pipe_that_nobody_reads_is_no_mistake_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), writing(tmp_path / "file"):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def unreadable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is there, but may not be read; root may read all, so that permissions alone would not do."""
    original = Path.open

    def opened(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return original(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", opened)


@pytest.mark.parametrize("name", ["model.json", "manifest.json", "labels.txt"])
def test_a_model_that_may_not_be_read_is_an_error_for_people(
    name: str, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable(name, monkeypatch)
    for command in (["evaluate", model, data], ["inspect", model], ["remove-labels", model, "--label", "red"]):
        told = complaint(*command)
        assert f"{name}: cannot be read (" in told
        assert "ermission" in told
    with pytest.raises(UserError, match="cannot be read"):
        Laconic.load(model)


def test_a_packed_model_that_may_not_be_read_is_an_error_for_people(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable("packed.json", monkeypatch)
    assert "packed.json: cannot be read (" in complaint("predict", model / "packed")


def test_any_other_trouble_with_a_file_is_told_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/secret/shop.csv")

    monkeypatch.setattr("laconic.data.sources._place", refused)
    assert "error: /secret/shop.csv: Permission denied" in complaint("inspect", "shop.csv")


def test_a_folder_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "model.json").mkdir()
    with pytest.raises(ModelError, match="it is missing; copy the model again"):
        json_object(tmp_path / "model.json")


def test_pictures_that_need_training_texts_are_not_left_out_in_silence(data: Path, model: Path, tmp_path: Path) -> None:
    alone = records(tmp_path / "test.jsonl", TEST)
    (tmp_path / "texts").write_text("".join(f"{text}\n" for text, _ in TEST))
    laconic("predict", model, tmp_path / "texts", "--out", tmp_path / "answers.jsonl")
    told = shown_and_told("score", tmp_path / "answers.jsonl", alone, "--plots", tmp_path / "none")[1]
    assert "no contributions were drawn: they need the training split" in told
    assert [path.name for path in (tmp_path / "none").iterdir()] == ["precision-recall.png"]
    shown, told = shown_and_told("score", tmp_path / "answers.jsonl", data, "--plots", tmp_path / "some")
    assert "no contributions" not in told
    assert "contributions" in shown


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv", "a.csv.gz", "a.parquet"])
def test_every_file_that_predict_writes_can_be_scored(name: str, data: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("".join(f"{text}\n" for text, _ in TEST))
    laconic("predict", model, tmp_path / "texts", "--out", tmp_path / name, "-k", 3)
    laconic("score", tmp_path / name, data, "--json", tmp_path / "scored.json")
    laconic("evaluate", model / "packed", data, "--json", tmp_path / "evaluated.json")
    scored, evaluated = (json.loads((tmp_path / f"{of}.json").read_text()) for of in ("scored", "evaluated"))
    assert scored["metrics"] == pytest.approx(evaluated["metrics"])


def test_places_without_a_label_are_passed_over(data: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("".join(f"{text}\n" for text, _ in TEST))
    for name in ("few.csv", "few.jsonl"):
        laconic("predict", model, tmp_path / "texts", "--out", tmp_path / name, "-k", 3, "--min-score", 0.3)
        laconic("score", tmp_path / name, data, "--json", tmp_path / f"{name}.json")
    of_table, of_lines = (json.loads((tmp_path / f"few.{form}.json").read_text()) for form in ("csv", "jsonl"))
    assert of_table["metrics"] == of_lines["metrics"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("text,labels\na,b\n", "no columns label_1 and score_1"),
        ("text,label_1\na,b\n", "no columns label_1 and score_1"),
        ("text,label_1,score_1\na,b,high\n", ":2: score_1 is 'high', where a number is needed"),
        ("text,label_1,score_1\na,b,nan\n", ":2: score_1 is 'nan', where a number is needed"),
        ("text,label_1,score_1\na,b\n", ":2: 2 cells, where the first line names 3 columns"),
        ("text,label_1,score_1,label_2,score_2\na,b,1,b,0.5\n", ":2: a label is predicted twice"),
        ("text,label_1,score_1\na,b,1\n", "1 prediction, but the data has 3 texts"),
    ],
)
def test_a_table_of_predictions_that_is_wrong_is_refused(table: str, message: str, data: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(table)
    assert message in complaint("score", tmp_path / "a.csv", data)


def test_bench_without_data_names_the_data(model: Path) -> None:
    assert "for DATA: missing; name labelled data" in " ".join(complaint("bench", model).split())
    assert "Missing argument 'MODEL... DATA'" in complaint("bench")


HEAVY = ("torch", "sklearn", "numba", "pyarrow", "scipy", "matplotlib")
IMPORTED = f"""
import sys
from laconic.cli.main import main
sys.argv = ["laconic", *sys.argv[1:]]
try:
    main()
finally:
    print(*[name for name in {HEAVY!r} if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "magic"], "there is no method 'magic'"),
        (["--preset", "magic"], "there is no preset 'magic' for inceptionxml"),
        (["--method", "astec", "--preset", "magic"], "there is no preset 'magic' for astec"),
        (["--budget", "soon"], "soon"),
        (["--method", "astec", "--budget", "5m"], "--budget chooses a method"),
        (["--set", "epochs"], "a setting must look like key=value"),
        (["--shard-size", "large"], "a size must look like 16MB"),
    ],
)
def test_a_wrong_name_is_reported_before_anything_heavy_is_imported(
    options: list[str], message: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", IMPORTED, "train", "debian-related", "--out", str(tmp_path / "m"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout.split() == []
