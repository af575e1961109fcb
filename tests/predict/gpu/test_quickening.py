"""Every ranker that is known is optimised through and through, and answers as before."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from laconic.config import Settings
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker
from laconic.methods.train import train_model
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import random_tree
from laconic.models.encoders import Identity
from laconic.models.fusion.ranker import FusedRanker
from laconic.models.rankers import Ensemble, FlatRanker, Ranker, Reranker, ShortlistRanker
from laconic.models.shortlisters.clusters import Clusters
from laconic.predict.gpu import optimise as quickening
from laconic.predict.gpu import optimise_ranker
from laconic.predict.gpu.clusters import ClustersRanker
from laconic.predict.gpu.exact import ExactRanker
from laconic.predict.gpu.graphs import GraphRanker
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel
from laconic.training.run import Run
from laconic.types import Tokens
from tests.planted import planted_texts
from tests.variants import some_slow

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CORPUS = planted_texts(num_labels=30, with_label_texts=True)
SHORT: dict[str, Any] = {"epochs": 2, "length": 4, "batch_size": 32}
RERANKER: Settings = {"epochs": 1, "embedding": 16, "batch_size": 32, "encoder": "bag", "size": 8}
FUSION: Settings = {"width": 6, "hidden": 16, "epochs": 2, "neighbours": 8}
MODELS: dict[str, tuple[str, Settings, int]] = {  # a method, its settings, how many members
    "inceptionxml": ("inceptionxml", SHORT | {"embedding": 64, "validation": 0.0}, 1),
    "inceptionxml+": ("inceptionxml+", SHORT | {"embedding": 64, "clusters": 8, "top": 3, "validation": 0.0}, 1),
    "ensemble": ("xml-cnn", SHORT | {"embedding": 16, "validation": 0.0}, 2),
    "re-ranked": ("inceptionxml", SHORT | {"embedding": 64, "validation": 0.2, "reranker": RERANKER}, 1),
    "fused": ("xml-cnn", SHORT | {"embedding": 16, "validation": 0.2, "fusion": FUSION}, 1),
    "nearest": ("nearest", {}, 1),
}


@pytest.fixture(scope="module", params=some_slow(MODELS, 2))
def model(request: pytest.FixtureRequest) -> SavedModel:
    method, settings, members = MODELS[request.param]
    return train_model(CORPUS, method, config_of(method, settings), Run.unkept(), members)


@pytest.mark.parametrize("few", some_slow([1 << 14, 0], 2))
def test_a_quickened_ranker_answers_as_before(model: SavedModel, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(quickening, "_FEW", few)
    ranker = restore_ranker(model, torch.device("cpu"))
    quick, inputs = optimise_ranker(ranker), inputs_of(model)
    with torch.inference_mode():
        expected, found = ranker.rank(inputs, 5), quick.rank(inputs, 5)
        torch.testing.assert_close(quick.score(inputs, expected.labels), ranker.score(inputs, expected.labels))
    assert found.labels.tolist() == expected.labels.tolist()
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-4, atol=1e-5)


def inputs_of(model: SavedModel) -> Tokens:
    predictor = Predictor(model, "cpu")
    assert predictor.view.tokenizer is not None
    return predictor.view.tokenizer.tokens((CORPUS.split("test").texts or ())[:20])


def leaves(ranker: Ranker) -> list[Ranker]:
    """What answers in the end."""
    match ranker:
        case Ensemble():
            return [leaf for member in ranker.rankers() for leaf in leaves(member)]
        case Reranker() | FusedRanker():
            return leaves(ranker.base)
    return [ranker]


def test_whatever_is_over_a_ranker_the_ranker_is_quickened(model: SavedModel) -> None:
    before = leaves(restore_ranker(model, torch.device("cpu")))
    after = leaves(optimise_ranker(restore_ranker(model, torch.device("cpu"))))
    assert len(after) == len(before)
    known = model.facts["method"] != "nearest"
    assert all(isinstance(leaf, GraphRanker) == known for leaf in after)


def test_how_labels_are_scored_depends_on_how_many_there_are() -> None:
    for more, kind in {0: FlatRanker, 1: ExactRanker}.items():
        quick = optimise_ranker(FlatRanker(Identity(4), LinearClassifier(4, quickening._FEW + more)))
        assert isinstance(quick, GraphRanker)
        assert isinstance(quick.quick, kind)


def test_clusters_are_opened_where_they_lie() -> None:
    clusters = Clusters(LinearClassifier(4, 8), random_tree(30, 8, 0))
    quick = optimise_ranker(ShortlistRanker(Identity(4), clusters, LinearClassifier(4, 30), top=2))
    assert isinstance(quick, GraphRanker)
    assert isinstance(quick.quick, ClustersRanker)


def test_no_tensor_of_a_ranker_is_changed_or_copied(model: SavedModel) -> None:
    ranker = restore_ranker(model, torch.device("cpu"))
    before = {name: (tensor.data_ptr(), tensor.clone()) for name, tensor in ranker.state_dict().items()}
    optimise_ranker(ranker)
    after = ranker.state_dict()
    assert after.keys() == before.keys()
    for name, (place, tensor) in before.items():
        assert after[name].data_ptr() == place
        torch.testing.assert_close(after[name], tensor)


@on_gpu
def test_a_gpu_answers_as_a_cpu_does(model: SavedModel) -> None:
    texts = list(CORPUS.split("test").texts or ())
    cpu, gpu = Predictor(model, "cpu"), Predictor(model, "cuda")
    for some in (texts[:1], texts[1:2], texts[2:3], texts, texts, texts):
        for one, other in zip(cpu.predict(some, 5), gpu.predict(some, 5), strict=True):
            assert [score for _, score in one] == pytest.approx([score for _, score in other], rel=2e-2, abs=2e-3)
    assert cpu.evaluate(CORPUS, "test").metrics["P@1"] == pytest.approx(
        gpu.evaluate(CORPUS, "test").metrics["P@1"], abs=3
    )
