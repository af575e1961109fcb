"""The verb pack as a user types it, and what is asked of a model that was packed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from laconic import Laconic
from laconic.data.output import write_folder
from laconic.errors import ConfigError
from laconic.export import rankers as packing
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed.folder import is_packed, open_packed
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import read_model, write_model
from laconic.training.run import Run
from tests.planted import planted_texts, planted_vectors, words_of
from tests.test_cli import laconic, shown_and_told
from tests.test_rankers import FUSION, RERANKER, SETTINGS
from tests.variants import some_slow

CORPUS = planted_texts(with_label_texts=True)
TEXTS = list(CORPUS.split("test").texts or ())
LINES = "".join(text + "\n" for text in TEXTS)
MODELS: dict[str, list[str]] = {
    "nearest": [],
    "inceptionxml": ["encoder=bag", "epochs=4"],
    "inceptionxml+": ["encoder=bag", "epochs=10"],
    "astec": ["epochs=10", *(f"fusion.{key}={value}" for key, value in FUSION.items()), "validation=0.2"],
    "xml-cnn": ["epochs=2", *(f"reranker.{key}={value}" for key, value in RERANKER.items()), "reranker.epochs=3"],
}


@pytest.fixture(autouse=True)
def _without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed models answer where there is no GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "planted"
    write_folder(CORPUS, folder)
    return folder


@pytest.fixture(scope="module", params=some_slow(MODELS, 3))
def trained(request: pytest.FixtureRequest, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained and packed by one command; nothing may change it."""
    folder = tmp_path_factory.mktemp("models") / "model"
    told = train(request.param, data, folder)
    cost = re.search(
        r"packed: .* \(the model: .*\), in .* s\. Top-5 labels agree .* ([\d.]+) % \(60 texts of test\)", told
    )
    assert cost
    assert float(cost[1]) > 99
    return folder


@pytest.fixture(scope="module")
def nearest(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "nearest"
    train("nearest", data, folder)
    return folder


def train(method: str, data: Path, folder: Path, *more: str) -> str:
    own = [f"{key}={value}" for key, value in SETTINGS.get(method, {}).items() if not isinstance(value, dict)]
    settings = [word for setting in [*own, *MODELS[method]] for word in ("--set", setting)]
    return laconic("train", data, "--method", method, "--device", "cpu", *settings, *more, "--out", folder)


def answers(model: Path, *more: Any) -> list[list[dict[str, Any]]]:
    shown = laconic("predict", model, "--json", *more, stdin=LINES)
    return [json.loads(line)["predictions"] for line in shown.splitlines()]


def names(lists: list[list[dict[str, Any]]]) -> list[list[str]]:
    return [[one["label"] for one in answer] for answer in lists]


def metrics(model: Path, data: Path, path: Path, *more: Any) -> dict[str, float]:
    laconic("evaluate", model, data, "--json", path, *more)
    figures: dict[str, float] = json.loads(path.read_text())["metrics"]
    return figures


def unpacked(model: Path, place: Path) -> Path:
    """Return a copy of the model without its packed folder."""
    shutil.copytree(model, place / "unpacked", ignore=shutil.ignore_patterns("packed"))
    return place / "unpacked"


def no_predictor(*arguments: Any, **options: Any) -> Predictor:
    raise AssertionError("the model itself was opened")


def test_a_trained_model_answers_from_what_was_packed_of_it_as_it_would_itself(trained: Path, tmp_path: Path) -> None:
    expected = answers(unpacked(trained, tmp_path))
    with mock.patch.object(Predictor, "open", no_predictor):
        found = answers(trained)
        assert answers(trained / "packed") == answers(trained, "--threads", 2) == found
    for own, others in zip(found, expected, strict=True):
        assert [one["label"] for one in own][:2] == [one["label"] for one in others][:2]
        assert [one["score"] for one in own] == pytest.approx([one["score"] for one in others], abs=5e-3)


def test_a_packed_model_is_evaluated_as_the_model_is(trained: Path, data: Path, tmp_path: Path) -> None:
    model, packed, exact = (
        metrics(trained / folder, data, tmp_path / "figures.json", *more)
        for folder, more in ((".", ["--device", "cpu"]), ("packed", []), ("packed", ["--exact"]))
    )
    assert model.keys() == packed.keys() == exact.keys()
    for name in ("P@1", "nDCG@5", "PSP@5", "tail R@10", "ECE@5"):
        assert packed[name] == pytest.approx(model[name], abs=0.5)
        assert exact[name] == pytest.approx(model[name], abs=0.5)


def test_a_packed_folder_needs_no_other(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "packed", tmp_path / "alone")
    assert answers(tmp_path / "alone") == answers(trained)
    shown = laconic("inspect", tmp_path / "alone", "--verify")
    assert "% on 60 texts of test" in shown
    assert "All files are intact (sha256)." in shown
    facts = json.loads(laconic("inspect", tmp_path / "alone", "--json"))
    assert (facts["sizes"]["labels"], facts["packing"]["texts"]) == (12, 60)
    assert str(trained / "packed") in laconic("inspect", trained).replace("\n", "")


def test_settings_of_the_model_itself_are_asked_of_it(nearest: Path, tmp_path: Path) -> None:
    expected = answers(unpacked(nearest, tmp_path), "--set", "neighbours=1")
    assert answers(nearest, "--set", "neighbours=1") == expected != answers(nearest)


def test_packing_says_what_it_costs_only_where_there_is_data(nearest: Path, data: Path, tmp_path: Path) -> None:
    model = unpacked(nearest, tmp_path)
    assert f"Search width guessed; `laconic pack {model} --data TRAINING_DATA` tunes" in laconic("pack", model)
    assert answers(model) == answers(nearest)
    assert "packing" not in open_packed(model / "packed").facts
    told = laconic("pack", model, "--data", data, "--out", tmp_path / "elsewhere")
    assert re.search(r"for 100\.00 % \(60 texts of test\)\. P@5 ([\d.]+) \(the model: \1\)\.$", told.strip())
    assert open_packed(tmp_path / "elsewhere").facts["packing"]["found"] == 100


def test_a_packed_model_of_another_model_is_not_used(nearest: Path, data: Path, tmp_path: Path, caplog: Any) -> None:
    other = train_model(CORPUS, "nearest", config_of("nearest", {"neighbours": 1}), Run.unkept())
    write_model(other, tmp_path / "model")
    shutil.copytree(nearest / "packed", tmp_path / "model" / "packed")
    found = answers(tmp_path / "model", "-k", 3)
    assert "packed was packed of another model, so the model itself answers; pack it again" in caplog.text
    expected = Predictor(other, "cpu").predict(TEXTS, 3)
    assert found == [[one._asdict() for one in answer] for answer in expected]
    laconic("pack", tmp_path / "model")
    caplog.clear()
    assert names(answers(tmp_path / "model", "-k", 1)) == [[answer[0].label] for answer in expected]
    assert not caplog.text


def test_a_damaged_packed_model_is_not_used(nearest: Path, tmp_path: Path, caplog: Any) -> None:
    shutil.copytree(nearest, tmp_path / "model")
    for name in ("labels.utf8", "manifest.json"):
        (tmp_path / "model" / "packed" / name).write_bytes(b"{")
        assert answers(tmp_path / "model") == answers(unpacked(nearest, tmp_path / name))
        assert f"packed/{name}: " in caplog.text


def test_training_again_replaces_the_packed_model_with_the_model(nearest: Path, data: Path, tmp_path: Path) -> None:
    shutil.copytree(nearest, tmp_path / "model")
    for litter in (".packed.partial-1", ".packed.set-aside"):
        (tmp_path / "model" / litter).mkdir()  # as somebody's kill -9 leaves it
    train("nearest", data, tmp_path / "model", "--force")
    assert is_packed(tmp_path / "model" / "packed")
    assert not list((tmp_path / "model").glob(".packed.*"))
    train("nearest", data, tmp_path / "model", "--no-pack", "--force")
    assert not (tmp_path / "model" / "packed").exists()


def test_nothing_of_the_users_is_lost(nearest: Path, data: Path, tmp_path: Path) -> None:
    shutil.copytree(nearest, tmp_path / "model")
    (tmp_path / "model" / "packed" / "thesis.tex").write_text("years of work")
    for verb in (["train", data, "--method", "nearest", "--out"], ["pack"]):
        complained = laconic(*verb, tmp_path / "model", code=2)
        assert "it holds 'thesis.tex', which is not of a packed model and would be lost" in complained
    assert (tmp_path / "model" / "packed" / "thesis.tex").read_text() == "years of work"


def test_a_changed_model_is_packed_again_if_it_was_packed(nearest: Path, data: Path, tmp_path: Path) -> None:
    shutil.copytree(nearest, tmp_path / "model")
    (tmp_path / "new.jsonl").write_text(json.dumps({"id": "new", "text": " ".join(words_of(1))}) + "\n")
    for changes, gone in (
        (["remove-labels", tmp_path / "model", "--label", "L0"], "L0"),
        (["add-labels", tmp_path / "model", tmp_path / "new.jsonl"], "L0"),
        (["update", tmp_path / "model", data], "L0"),
    ):
        shown = laconic(*changes)
        assert f"{tmp_path / 'model' / 'packed'}: " in shown
        assert "Search width guessed" in shown
        packed = open_packed(tmp_path / "model" / "packed")
        assert list(packed.labels) == (tmp_path / "model" / "labels.txt").read_text().splitlines()
        assert gone not in packed.labels or changes[0] == "update"  # the texts of an update may have any label
    laconic("remove-labels", tmp_path / "model", "--label", "L1", "--out", tmp_path / "other")
    assert "L1" not in open_packed(tmp_path / "other" / "packed").labels
    assert "L1" in open_packed(tmp_path / "model" / "packed").labels


def test_packing_a_changed_model_can_be_left_out(nearest: Path, tmp_path: Path) -> None:
    shutil.copytree(nearest, tmp_path / "model")
    _, told = shown_and_told("remove-labels", tmp_path / "model", "--label", "L0", "--no-pack")
    assert f"the changed model is not packed; `laconic pack {tmp_path / 'model'}` packs it" in told
    assert not (tmp_path / "model" / "packed").exists()
    assert "L0" not in {name for own in names(answers(tmp_path / "model")) for name in own}
    assert shown_and_told("remove-labels", tmp_path / "model", "--label", "L1")[1] == ""  # nothing was packed
    assert not (tmp_path / "model" / "packed").exists()


def test_the_cpu_is_used_where_it_is_asked_for_and_there_is_a_gpu(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, pack = list[str](), packing.pack_ranker

    def recorded(ranker: Any, probes: Any, device: torch.device, *watch: Any) -> Any:
        seen.append(device.type)
        return pack(ranker, probes, device)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("laconic.export.pack.pack_ranker", recorded)
    train("nearest", data, tmp_path / "model")
    laconic("pack", tmp_path / "model", "--device", "cpu", "--data", data)
    Laconic.load(tmp_path / "model", device="cpu").pack(TEXTS)
    assert seen == ["cpu", "cpu", "cpu"]


def test_what_cannot_be_packed_is_trained_all_the_same(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise ConfigError("such a model cannot be packed")

    monkeypatch.setattr("laconic.export.pack.pack_ranker", refuse)
    _, told = shown_and_told("train", data, "--method", "nearest", "--out", tmp_path / "model")
    assert "note: the model was not packed: such a model cannot be packed" in told
    assert len(answers(tmp_path / "model")) == len(TEXTS)
    assert "such a model cannot be packed" in laconic("pack", tmp_path / "model", code=2)


def stop(*arguments: Any, **options: Any) -> None:
    raise KeyboardInterrupt


QUICK = ["--encoder", "bag", "--device", "cpu", "--validation", "0", "--test", "0", "--epochs", "2"]
QUICK += ["--set", "embedding=16"]


def test_an_interrupt_while_packing_leaves_the_run_and_the_model_that_was_there(
    data: Path, nearest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(nearest, tmp_path / "model")
    before = answers(folder)
    command = ["train", data, *QUICK, "--out", folder, "--force"]
    monkeypatch.setattr("laconic.packed.folder.write_manifest", stop)
    assert "interrupted; run the same command again to resume" in laconic(*command, code=130)
    assert is_packed(folder / "packed")
    assert answers(folder) == before
    monkeypatch.undo()
    assert "done before" in shown_and_told(*command)[1]
    assert read_model(folder, verify=True).facts["method"] == "inceptionxml"
    assert is_packed(folder / "packed")
    assert not (folder / "run").exists()


@pytest.mark.parametrize("verb", ["remove-labels", "update"])
def test_an_interrupt_while_packing_leaves_the_model_that_was_to_be_changed(
    verb: str, data: Path, nearest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(nearest, tmp_path / "model")
    before = answers(folder)
    monkeypatch.setattr("laconic.packed.folder.write_manifest", stop)
    more = ["--label", "L0"] if verb == "remove-labels" else [data]
    assert "interrupted; " in laconic(verb, folder, *more, code=130)
    assert answers(folder) == before
    assert is_packed(folder / "packed")


def test_features_are_packed_and_evaluated_but_have_no_texts_to_ask(tmp_path: Path) -> None:
    write_folder(planted_vectors(), tmp_path / "data")
    laconic("train", tmp_path / "data", "--method", "nearest", "--out", tmp_path / "model")
    model, packed = (
        metrics(folder, tmp_path / "data", tmp_path / "figures.json")
        for folder in (tmp_path / "model", tmp_path / "model" / "packed")
    )
    assert packed["P@5"] == pytest.approx(model["P@5"], abs=0.5)
    assert "trained on features, not on texts" in laconic("predict", tmp_path / "model", stdin="text\n", code=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pack", "nowhere"], "nowhere: there is no such model folder"),
        (["pack", "DATA"], "this is not a model folder: it has no manifest.json"),
        (["pack", "MODEL/packed"], "a folder of kind 'model' is needed here, but this one is of kind 'packed model'"),
        (["pack", "MODEL", "--out", "MODEL"], "which is not of a packed model and would be lost"),
        (["pack", "MODEL", "--data", "nowhere"], "nowhere: there is no such file or folder"),
        (["predict", "MODEL", "--beam", "0"], "Invalid value for '--beam'"),
        (["predict", "MODEL", "--threads", "0"], "Invalid value for '--threads'"),
        (["predict", "MODEL", "--beam", "3", "--exact"], "exact answers take no beam, but it is 3"),
        (["predict", "MODEL", "--beam", "3", "--set", "power=2"], "MODEL: --beam, .* are for what was packed"),
        (["evaluate", "MODEL", "DATA", "--exact"], "MODEL: --beam, --exact and --threads are for what was packed"),
        (["predict", "MODEL/packed", "--set", "power=2"], "with the settings it was packed with; pass the model"),
        (["predict", "MODEL/packed", "--device", "cuda"], "a packed model runs on a CPU"),
        (["predict", "MODEL", "--device", "abacus"], "there is no device 'abacus'"),
        (["sweep", "MODEL/packed", "DATA"], "a folder of kind 'model' is needed here"),
        (["remove-labels", "MODEL/packed", "--label", "L0"], "which is not of a model and would be lost"),
    ],
)
def test_a_mistake_is_one_message(
    arguments: list[str], message: str, nearest: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(nearest, "MODEL")
    (tmp_path / "DATA").symlink_to(data)
    before = {path: path.stat().st_mtime_ns for path in Path("MODEL").rglob("*")}
    complained = laconic(*arguments, code=2)
    assert re.search(message, " ".join(complained.replace("│", " ").split()))
    assert "Traceback" not in complained
    assert {path: path.stat().st_mtime_ns for path in Path("MODEL").rglob("*")} == before


def test_a_packed_model_answers_without_torch(nearest: Path) -> None:
    code = "import atexit, sys; from laconic.cli.main import main; atexit.register(lambda: print(*sys.modules)); main()"
    command = [sys.executable, "-c", code, "predict", str(nearest), "-k", "1", "--device", "cpu"]
    done = subprocess.run(command, input=TEXTS[0], capture_output=True, text=True, check=True)
    *_, modules = done.stdout.splitlines()
    assert "laconic.predict.load" in modules.split()
    assert "torch" not in modules.split()
