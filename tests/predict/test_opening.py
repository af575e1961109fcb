"""How a packed model is to answer, and who is asked: what was packed, or the model itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from laconic.errors import ConfigError
from laconic.export import tree as packing_trees
from laconic.export.pack import pack
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed.engine.composite import Averaged, Reranked
from laconic.packed.engine.fusion import Fused
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.search import Searched
from laconic.packed.folder import PackedModel, of_version, write_packed
from laconic.predict import load as opening
from laconic.predict.load import Speed, on_cpu, open_folder, open_model, packed_predictor
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.predictor import Predictor
from laconic.storage.manifest import version_of
from laconic.storage.model_folder import write_model
from laconic.system.machine import usable_cores
from laconic.training.run import Run
from tests.planted import planted_texts
from tests.test_rankers import FUSION, RERANKER, SETTINGS

CORPUS = planted_texts(with_label_texts=True)
TEXTS = list(CORPUS.split("test").texts or ())
QUICK = {**SETTINGS["xml-cnn"], "encoder": "bag", "epochs": 4, "validation": 0.2}
OVER = {"reranker": {**RERANKER, "epochs": 1}, "fusion": {**FUSION, "epochs": 2}}


@pytest.fixture(scope="module")
def packed() -> PackedModel:
    """Two members, each fused over a re-ranked tree of several clusters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing_trees, "_ALL", 4)
        patch.setattr(packing_trees, "_CLUSTER", 2)
        return pack(train_model(CORPUS, "xml-cnn", config_of("xml-cnn", QUICK | OVER), Run.unkept(), 2))


def trees(ranker: object) -> list[Searched]:
    """What is searched, under whatever is over it."""
    match ranker:
        case Averaged():
            return [tree for member in ranker.members for tree in trees(member)]
        case Fused() | Reranked():
            return trees(ranker.base)
    assert isinstance(ranker, Searched)
    return [ranker]


def test_a_dial_reaches_every_tree(packed: PackedModel) -> None:
    clusters = [tree.clusters.size for tree in trees(packed.ranker)]
    assert clusters == [4, 4]
    for beam in (1, 3):
        assert [tree.beam for tree in trees(packed_predictor(packed, Speed(beam=beam)).ranker)] == [beam, beam]
    assert [tree.beam for tree in trees(packed_predictor(packed, Speed(beam=99)).ranker)] == clusters
    assert [tree.beam for tree in trees(packed_predictor(packed, Speed(exact=True)).ranker)] == clusters
    assert packed_predictor(packed).ranker is packed.ranker


def test_exact_answers_are_those_of_every_cluster_and_a_small_beam_has_fewer_of_them(packed: PackedModel) -> None:
    alone = trees(packed.ranker)[0]
    found = {}
    for beam in (1, 4):
        ranked = PackedPredictor(PackedModel(**{**vars(packed), "ranker": alone.with_beam(beam)})).predict(TEXTS, 3)
        found[beam] = [[one.label for one in answer] for answer in ranked]
    exact = PackedPredictor(PackedModel(**{**vars(packed), "ranker": alone.exact()})).predict(TEXTS, 3)
    assert [[one.label for one in answer] for answer in exact] == found[4] != found[1]


def test_a_ranker_without_a_dial_is_itself() -> None:
    nearest = pack(train_model(CORPUS, "nearest", config_of("nearest", {}), Run.unkept())).ranker
    assert isinstance(nearest, PackedRanker)
    assert nearest.with_beam(3) is nearest.exact() is nearest


def test_many_texts_are_divided_among_all_cores_unless_it_is_said(packed: PackedModel) -> None:
    assert packed_predictor(packed).threads == usable_cores()
    assert packed_predictor(packed, Speed(threads=3)).threads == 3


@pytest.mark.parametrize("wrong", [{"beam": 0}, {"threads": 0}, {"beam": -1}])
def test_a_dial_is_one_or_more(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"(beam|threads) must be 1 or more, but is (0|-1)"):
        Speed(**wrong)


@pytest.fixture
def folder(packed: PackedModel, tmp_path: Path) -> Path:
    """A model with its packed model; that it is of another method is not looked at."""
    write_model(train_model(CORPUS, "nearest", config_of("nearest", {}), Run.unkept()), tmp_path / "model")
    write_packed(of_version(packed, version_of(tmp_path / "model")), tmp_path / "model" / "packed")
    return tmp_path / "model"


def test_on_a_cpu_what_was_packed_answers_and_otherwise_the_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(open_model(folder, device="cpu"), PackedPredictor)
    assert isinstance(open_model(folder / "packed"), PackedPredictor)
    assert isinstance(open_model(folder, device="cpu", settings={"neighbours": 3}), Predictor)
    assert isinstance(open_folder(folder, device="cpu"), Predictor)
    monkeypatch.setattr(opening, "on_cpu", lambda device: False)
    assert isinstance(open_model(folder), Predictor)


def test_torch_is_asked_where_there_may_be_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def on_gpu(name: str) -> object:
        import torch

        asked.append(name)
        return torch.device("cuda")

    monkeypatch.setattr("laconic.training.run.device_named", on_gpu)
    monkeypatch.setattr(opening, "_GPUS", (str(tmp_path / "none"),))
    assert on_cpu("cpu")
    assert on_cpu("auto")
    assert not asked
    monkeypatch.setattr(opening, "_GPUS", (str(tmp_path),))
    assert not on_cpu("auto")
    assert not on_cpu("cuda")
    assert asked == ["auto", "cuda"]
