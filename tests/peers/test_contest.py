"""Planted peers beside a model of ours: the same texts, the same judging, and nobody's failure is anybody else's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from laconic.analysis import bench as benching
from laconic.analysis import latency as timing
from laconic.analysis.bench import Config
from laconic.analysis.peers.contest import Entry, contest
from laconic.analysis.peers.exam import FIGURES, Exam
from laconic.analysis.peers.libraries import LIBRARIES
from laconic.data.corpus import Corpus, pair_matrix
from laconic.data.output import write_folder
from laconic.errors import DataError
from laconic.export.pack import pack
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed.folder import of_version, open_packed, write_packed
from laconic.predict.load import packed_predictor
from laconic.storage.manifest import PACKED, version_of
from laconic.storage.model_folder import write_model
from laconic.training.run import Run
from tests.peers.toy import TOY
from tests.planted import planted_texts, planted_vectors
from tests.test_benching import Here
from tests.test_cli import laconic

TOYS = [f"tests.peers.toy:{name}" for name in ("KILLED", "TOY", "RAISING", "ASTRAY")]


def _leaving_out(corpus: Corpus) -> Corpus:
    """A true label of every second test text counts neither for nor against anybody."""
    split = corpus.split("test")
    pairs = [(row, int(split.labels[[row]].indices[0])) for row in range(0, len(split), 2)]
    judged = replace(split, leave_out=pair_matrix(pairs, split.labels.shape))
    return replace(corpus, splits={**corpus.splits, "test": judged})


CORPUS = _leaving_out(planted_texts(num_labels=30, num_texts=160))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own model is timed in this process; a peer has its own all the same, and finds the planted ones there."""
    monkeypatch.setattr(benching, "OwnProcess", Here)
    monkeypatch.setattr(timing, "_WARM_UP", 0)
    monkeypatch.setattr(timing, "_LEAST_SECONDS", 1e-4)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "nearest"
    trained = train_model(CORPUS, "nearest", config_of("nearest", {}), Run.unkept())
    facts = {**trained.facts, "command": "laconic train planted", "seconds": 12.5}
    write_model(replace(trained, facts=facts), folder)
    write_packed(of_version(pack(trained), version_of(folder)), folder / PACKED)
    return folder


def entries_of(model: Path, places: Sequence[str], corpus: Corpus = CORPUS) -> list[Entry]:
    return contest([model], places, corpus, "test", Config(singly=2))


@pytest.mark.slow
def test_a_peer_is_judged_by_what_it_answers_and_one_that_fails_stops_nobody(model: Path, tmp_path: Path) -> None:
    own, killed, toy, raising, astray = entries_of(model, TOYS)
    assert [entry.name for entry in (own, killed, toy)] == [f"{model} (nearest)", "killed", "toy"]
    exam = Exam.of(CORPUS, "test", 1000)
    TOY.train(exam.examples, tmp_path, 1)  # the same in this process
    assert toy.figures == exam.figures(TOY.open(tmp_path)(exam.texts, exam.places).labels)
    assert toy.figures["P@5"] > 15  # of 20 or so that could be had
    assert toy.size == (tmp_path / "shares.json").stat().st_size
    assert toy.failure == ""
    assert toy.p50 is not None
    assert toy.seconds is not None
    assert "SIGKILL, perhaps for want of memory" in killed.failure
    assert raising.failure == "ended with code 1: ValueError: the toy is broken"
    assert "1000000" in astray.failure
    assert [entry.figures for entry in (killed, raising, astray)] == [{}, {}, {}]


def test_our_own_model_has_the_figures_of_evaluate_and_the_facts_of_its_folder(model: Path) -> None:
    [own] = entries_of(model, [])
    metrics = packed_predictor(open_packed(model / PACKED)).evaluate(CORPUS, "test").metrics
    assert own.figures == pytest.approx({name: metrics[name] for name in FIGURES})
    assert (own.how, own.seconds) == ("laconic train planted", 12.5)
    assert own.size == sum(path.stat().st_size for path in (model / PACKED).iterdir())
    [alone] = entries_of(model / PACKED, [])
    assert alone.figures == own.figures
    assert (alone.how, alone.seconds) == ("a packed model that was trained by nearest", None)


def test_a_model_that_the_verb_trained_knows_by_what_and_how_long(tmp_path: Path) -> None:
    write_folder(CORPUS, tmp_path / "data")
    laconic("train", tmp_path / "data", "--out", tmp_path / "model", "--method", "nearest")
    [own] = entries_of(tmp_path / "model", [])
    assert own.how == f"laconic train {tmp_path}/data --out {tmp_path}/model --method nearest"
    assert own.seconds is not None


def test_every_model_and_peer_is_announced_in_its_turn(model: Path) -> None:
    turns: list[tuple[str, int, int]] = []
    contest([model], TOYS[:1], CORPUS, "test", Config(singly=1), lambda *turn: turns.append(turn))
    assert turns == [(str(model), 0, 2), ("killed", 1, 2)]


def test_features_are_refused(model: Path) -> None:
    with pytest.raises(DataError, match="planted: peers learn from raw texts, but this data has features alone"):
        entries_of(model, [], planted_vectors())


@pytest.mark.slow
def test_the_verb_shows_one_table_and_writes_it(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIBRARIES, "toy", tuple(TOYS[:2]))
    write_folder(CORPUS, tmp_path / "data")
    files = {"--json": tmp_path / "figures.json", "--markdown": tmp_path / "table.md"}
    arguments = [part for option in files.items() for part in option]
    shown = laconic("bench", model, model / PACKED, tmp_path / "data", "--against", "toy", "--singly", 2, *arguments)
    assert all(name in shown for name in (*FIGURES[:-1], "R@10", "train", "disk", "40 texts", "toy", "killed: failed"))
    assert "toy: toy.train(words | labels)" in shown
    assert "killed failed: ended by SIGKILL" in shown
    written = json.loads(files["--json"].read_text())
    assert [entry["name"].split("/")[-1] for entry in written["entries"]][1:] == ["packed (nearest)", "killed", "toy"]
    assert written["entries"][3]["figures"].keys() == set(FIGURES)
    lines = files["--markdown"].read_text().splitlines()
    assert next(line for line in lines if line.startswith("| toy |")).count("|") == len(FIGURES) + 5
    assert any(line.startswith("Made by `laconic bench ") for line in lines)


def test_models_are_compared_with_each_other_alone(model: Path, tmp_path: Path) -> None:
    write_folder(CORPUS, tmp_path / "data")
    found = tmp_path / "found.json"
    laconic("bench", model, model, tmp_path / "data", "--against", "none", "--singly", 2, "--json", found)
    written = json.loads(found.read_text())
    assert [entry["name"] for entry in written["entries"]] == [f"{model} (nearest)"] * 2


def test_options_that_do_not_go_together_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    for arguments, said in {
        ("one", "two", "data"): "without --against one model is timed, but there are 2 models",
        ("one", "data", "--markdown", "file"): "--markdown is for the table of --against",
        ("one", "data", "--against", "nobody,toy"): "there is no peer 'nobody'; known are: omikuji, pecos, napkinxc",
    }.items():
        assert said in laconic("bench", *arguments, code=2)


def test_a_picture_is_of_a_dial_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIBRARIES, "toy", tuple(TOYS[1:2]))
    said = laconic("bench", "one", "data", "--against", "toy", "--picture", "file", code=2)
    assert "--picture is for one model alone" in said
