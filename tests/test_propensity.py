"""The two constants of propensities: where they come from, and that they are told."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laconic.analysis.peers.contest import Entry
from laconic.data.catalogue import Propensity, known_propensity, propensity_of
from laconic.data.corpus import Corpus
from laconic.data.output import write_folder
from tests.planted import planted_texts
from tests.test_cli import laconic, shown_and_told
from tests.variants import some_slow


def with_mistakes(corpus: Corpus) -> Corpus:
    """Every third test text has the labels of another one, so that answers are not perfect."""
    test = corpus.split("test")
    rows = np.arange(len(test))
    rows[::3] = np.roll(rows[::3], 1)
    return replace(corpus, splits={**corpus.splits, "test": replace(test, labels=test.labels[rows])})


CORPUS = with_mistakes(planted_texts(num_labels=30, num_texts=120))
AMAZON, OTHER = {"a": 0.6, "b": 2.6}, {"a": 0.9, "b": 3.0}


@pytest.mark.parametrize(
    "name",
    [
        "WikiLSHTC-325K",
        "Wiki-500K",
        "wiki_500k",
        "Wikipedia-500K",
        "wikititles-500k",
        "LF-WikiTitles-500K",
        "LF_Wikipedia_500K",
        "WikiTitles-500K/train.jsonl.gz",
        "data/Wiki-500K/trn.json.gz",
        "Wikipedia-500K.csv",
    ],
)
def test_wikipedia_and_its_kin_have_their_own_constants(name: str) -> None:
    assert known_propensity(name) == Propensity(a=0.5, b=0.4)


@pytest.mark.parametrize(
    "name",
    ["LF-WikiSeeAlsoTitles-320K", "WikiSeeAlso-350K", "Wiki10-31K", "EURLex-4K", "debian-related", "Delicious-200K"],
)
def test_known_data_may_have_the_usual_constants(name: str) -> None:
    assert known_propensity(name) == Propensity()


@pytest.mark.parametrize("name", ["shop.csv", "amazon/shop.csv", "Wiki-500K/shop.csv", "data", "train.csv"])
def test_other_data_are_not_known(name: str) -> None:
    assert known_propensity(name) is None
    assert propensity_of(name) == Propensity()


def test_a_folder_is_known_by_its_name_from_within_and_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "AmazonTitles-670K").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "AmazonTitles-670K")
    monkeypatch.chdir(tmp_path / "AmazonTitles-670K")
    for name in (".", tmp_path / "link", "train.csv"):
        assert propensity_of(str(name)) == Propensity(**AMAZON)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "shop"
    write_folder(CORPUS, folder)
    return folder


@pytest.fixture(scope="module")
def model(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained with constants that were given."""
    folder = tmp_path_factory.mktemp("models") / "given"
    told = train(data, folder, "--propensity", "0.6,2.6")
    assert "propensity" not in told.lower()
    return folder


@pytest.fixture(scope="module")
def usual(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "usual"
    told = " ".join(train(data, folder).split())
    assert "PSP uses A = 0.55 and B = 1.5, the constants for data that laconic does not know by name" in told
    assert "--propensity" in told
    return folder


def train(data: Path, folder: Path, *more: str) -> str:
    return shown_and_told("train", data, "--method", "nearest", "--out", folder, *more)[1]


def written(verb: str, *arguments: Any, to: Path) -> dict[str, Any]:
    laconic(verb, *arguments, "--json", to)
    found: dict[str, Any] = json.loads(to.read_text())
    return found


def psp(model: Path, data: Path, constants: dict[str, float], tmp_path: Path, *more: str) -> float:
    """PSP@5 by constants that are given."""
    given = f"{constants['a']},{constants['b']}"
    return float(
        written("evaluate", model, data, "--propensity", given, *more, to=tmp_path / "given.json")["metrics"]["PSP@5"]
    )


def test_constants_that_were_given_are_kept_in_the_model_and_its_card(model: Path) -> None:
    assert json.loads((model / "model.json").read_text())["propensity"] == AMAZON
    assert "A = 0.6, B = 2.6" in (model / "README.md").read_text()


def test_an_evaluation_takes_the_option_or_else_the_models_constants(
    model: Path, usual: Path, data: Path, tmp_path: Path
) -> None:
    found = {}
    for folder in (model, model / "packed"):
        for given, constants in (([], AMAZON), (["--propensity", "0.9,3"], OTHER)):
            report = written("evaluate", folder, data, *given, to=tmp_path / "figures.json")
            assert report["propensity"] == constants
            found[constants["a"]] = report["metrics"]["PSP@5"]
    assert found[0.6] != found[0.9]
    assert found[0.6] == pytest.approx(psp(usual, data, AMAZON, tmp_path))


def test_a_comparison_takes_the_option_or_else_the_first_models_constants(
    model: Path, usual: Path, data: Path, tmp_path: Path
) -> None:
    for given, constants in (([], AMAZON), (["--propensity", "0.9,3"], OTHER)):
        report = written("compare", model, usual, data, *given, to=tmp_path / "compared.json")
        assert report["propensity"] == constants
        assert report["figures"]["PSP@5"]["models"][0] == pytest.approx(psp(model, data, constants, tmp_path))
        noted = any("has other propensity constants" in note for note in report["notes"])
        assert noted == (not given)


@pytest.mark.slow
def test_a_contest_takes_the_option_or_else_the_first_models_constants(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laconic.cli.bench._places", lambda against: ["tests.peers.toy:TOY"] if against else [])
    monkeypatch.setattr(
        "laconic.analysis.peers.contest._of_peer", lambda *arguments: Entry(name="toy", how="", failure="none")
    )
    for given, constants in (([], AMAZON), (["--propensity", "0.9,3"], OTHER)):
        bench = [model, data, "--against", "toy", "--singly", 1, *given]
        report = written("bench", *bench, to=tmp_path / "bench.json")
        assert report["propensity"] == constants
        assert report["entries"][0]["figures"]["PSP@5"] == pytest.approx(psp(model, data, constants, tmp_path), abs=0.5)
    refused = laconic("bench", model, data, "--propensity", "0.9,3", code=2)
    assert "--propensity is for --against" in " ".join(refused.split())


@pytest.mark.slow
def test_a_sweep_takes_them_too(data: Path, tmp_path: Path) -> None:
    settings = [word for one in ("epochs=1", "embedding=16", "clusters=2", "top=1") for word in ("--set", one)]
    bag = ["--method", "inceptionxml+", "--encoder", "bag", "--validation", "0", "--device", "cpu", "--no-pack"]
    laconic("train", data, *bag, *settings, "--out", tmp_path / "m", "--propensity", "0.6,2.6")
    for given, constants in (([], AMAZON), (["--propensity", "0.9,3"], OTHER)):
        report = written("sweep", tmp_path / "m", data, "--top", 2, *given, to=tmp_path / "sweep.json")
        assert report["propensity"] == constants
        expected = psp(tmp_path / "m", data, constants, tmp_path, "--set", "answer_top=2")
        assert report["sweep"][0]["PSP@5"] == pytest.approx(expected)


def test_scores_of_predictions_go_by_the_option_or_else_by_the_datas_name(
    usual: Path, data: Path, tmp_path: Path
) -> None:
    texts = "".join(text + "\n" for text in CORPUS.split("test").texts or ())
    (tmp_path / "predictions.jsonl").write_text(laconic("predict", usual, "-k", 12, "--json", stdin=texts))
    scored = ["score", tmp_path / "predictions.jsonl", data]
    told = " ".join(shown_and_told(*scored, "--json", tmp_path / "scored.json")[1].split())
    assert "PSP uses A = 0.55 and B = 1.5" in told
    assert json.loads((tmp_path / "scored.json").read_text())["propensity"] == {"a": 0.55, "b": 1.5}
    assert written(*scored, "--propensity", "0.9,3", to=tmp_path / "scored.json")["propensity"] == OTHER
    write_folder(CORPUS, tmp_path / "AmazonTitles-670K")
    known = [
        "score",
        tmp_path / "predictions.jsonl",
        tmp_path / "AmazonTitles-670K",
        "--json",
        tmp_path / "scored.json",
    ]
    assert "PSP uses" not in shown_and_told(*known)[1]
    assert json.loads((tmp_path / "scored.json").read_text())["propensity"] == AMAZON


def test_other_constants_are_another_model(model: Path, data: Path) -> None:
    refused = " ".join(
        laconic("train", data, "--method", "nearest", "--out", model, "--propensity", "0.6,3", code=2).split()
    )
    assert "it has propensity.b = 2.6 (now 3.0)" in refused


@pytest.mark.parametrize("verb", ["train", "evaluate", "compare", "sweep", "bench", "score"])
@pytest.mark.parametrize("wrong", some_slow(["0.5", "a,b", "1,2,3", "-1,2", "nan,1"]))
def test_constants_that_are_none_are_a_mistake_of_every_verb(
    verb: str, wrong: str, model: Path, data: Path, tmp_path: Path
) -> None:
    arguments = {
        "train": [data, "--out", tmp_path / "m"],
        "compare": [model, model, data],
        "score": [tmp_path / "predictions.jsonl", data],
    }
    complained = laconic(verb, *arguments.get(verb, [model, data]), "--propensity", wrong, code=2)
    assert re.search(
        "--propensity must be two numbers, such as 0.55,1.5, but is|propensity constant [ab] must be", complained
    )
    assert not (tmp_path / "m").exists()
