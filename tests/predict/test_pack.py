"""A model is packed with what it takes to answer, and what that costs is measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Int

from laconic.data.corpus import Corpus
from laconic.export import pack as module
from laconic.export.pack import pack
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.texts import Inputs, Ranked, size_of
from laconic.predict import packing_cost
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.packing_cost import Cost, measured, split_to_measure
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel
from laconic.training.run import Run
from tests.planted import planted_texts

CORPUS = planted_texts()
TEXTS = list(CORPUS.split("test").texts or ())
QUICK = {"encoder": "bag", "epochs": 3, "embedding": 16, "batch_size": 16}


@pytest.fixture(scope="module")
def model() -> SavedModel:
    return train_model(CORPUS, "inceptionxml", config_of("inceptionxml", QUICK), Run.unkept())


def named(corpus: Corpus, **names: str) -> Corpus:
    """The corpus's splits under other names."""
    return replace(corpus, splits={name: corpus.split(split) for name, split in names.items()})


def test_scores_are_calibrated_as_the_models_are(model: SavedModel) -> None:
    curve = {"how": "platt", "texts": 60, "scores": [0.0, 1.0], "probabilities": [0.25, 0.5]}
    calibrated = replace(model, facts={**model.facts, "calibration": curve})
    plain, other = (PackedPredictor(pack(one)).predict(TEXTS) for one in (model, calibrated))
    for answer, changed in zip(plain, other, strict=True):
        assert [label for label, _ in changed] == [label for label, _ in answer]
        expected = [0.25 + score / 4 for _, score in answer]
        assert [score for _, score in changed] == pytest.approx(expected)
    figures = [
        one.evaluate(CORPUS, "test").metrics
        for one in (PackedPredictor(pack(calibrated)), Predictor(calibrated, "cpu"))
    ]
    assert figures[0] == pytest.approx(figures[1], abs=1e-2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Second(PackedRanker):
    """Ranks as another does, but leaves the first label of every other text out."""

    ranker: PackedRanker

    @property
    def num_labels(self) -> int:
        return self.ranker.num_labels

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        ranked = self.ranker.rank(inputs, k + 1)
        start = np.arange(size_of(inputs)) % 2
        return Ranked(*(np.stack([row[at : at + k] for row, at in zip(part, start, strict=True)]) for part in ranked))

    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Any:
        return self.ranker.score(inputs, labels)

    def with_beam(self, beam: int) -> "Second":
        return self

    def exact(self) -> "Second":
        return self


def test_what_is_lost_is_counted(model: SavedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing_cost, "usable_cores", lambda: 1)
    whole = pack(model)
    packed, cost = measured(whole, model, CORPUS, "test")
    assert cost.precision is not None
    assert (cost.split, cost.texts, cost.found) == ("test", 60, 100.0)
    assert cost.precision.after == cost.precision.before
    assert cost.precision.before == pytest.approx(Predictor(model, "cpu").evaluate(CORPUS, "test").metrics["P@5"])
    assert packed.facts["packing"] == cost.facts()
    assert Cost.of_facts(cost.facts()) == cost
    spoilt = measured(replace(whole, ranker=Second(ranker=whole.ranker)), model, CORPUS, "test")[1]
    assert spoilt.found == pytest.approx(100 - 100 / 5 / 2)
    assert spoilt.precision is not None
    assert spoilt.precision.after < spoilt.precision.before == cost.precision.before


def test_a_part_of_many_texts_is_enough(model: SavedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing_cost, "_JUDGED", 7)
    assert measured(pack(model), model, CORPUS, "test")[1].texts == 7


def test_pairs_that_are_left_out_are_not_judged(model: SavedModel) -> None:
    split = CORPUS.split("test")
    left_out = replace(split, leave_out=split.labels.astype(bool))
    corpus = replace(CORPUS, splits={"test": left_out})
    cost = measured(pack(model), model, corpus, "test")[1]
    assert cost.precision == (0, 0)


@pytest.mark.parametrize("told", [True, False])
def test_training_texts_are_judged_by_agreement_alone(model: SavedModel, told: bool) -> None:
    asked = model if told else replace(model, sketch=None)
    for name in ("train", "all"):
        cost = measured(pack(model), asked, named(CORPUS, **{name: "train"}), name)[1]
        assert (cost.split, cost.precision) == ("training texts", None)
        assert cost.facts().keys() == {"split", "texts", "found"}
        assert Cost.of_facts(cost.facts()) == cost


@pytest.mark.parametrize("name", ["train", "all"])
def test_dials_are_set_by_training_texts(model: SavedModel, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def record(ranker: Any, probes: Any, device: torch.device, *watch: Any) -> Any:
        seen.append(None if probes is None else size_of(probes))
        return packed(ranker, probes, device)

    packed = module.pack_ranker
    monkeypatch.setattr(module, "pack_ranker", record)
    monkeypatch.setattr(module, "_TUNING_TEXTS", 50)
    pack(model)
    pack(model, named(CORPUS, test="test"))
    pack(model, named(CORPUS, **{name: "train"}))
    assert seen == [None, None, 50]


def test_packing_is_done_on_the_device_that_is_asked_for(model: SavedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[str]()

    def record(ranker: Any, probes: Any, device: torch.device, *watch: Any) -> Any:
        seen.append(device.type)
        return packed(ranker, probes, torch.device("cpu"))

    packed = module.pack_ranker
    monkeypatch.setattr(module, "pack_ranker", record)
    for gpu in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        pack(model, CORPUS)
        pack(model, CORPUS, "cpu")
    assert seen == ["cpu", "cpu", "cuda", "cpu"]


def test_the_split_to_judge_is_the_one_that_training_has_seen_least_of() -> None:
    for names in (["train", "valid", "test"], ["train", "valid"], ["train"], ["all"]):
        assert split_to_measure(named(CORPUS, **dict.fromkeys(names, "test"))) == names[-1]
    assert split_to_measure(replace(CORPUS, splits={})) == ""


def test_ranked_texts_are_counted_while_the_cost_is_measured(model: SavedModel) -> None:
    seen = list[tuple[int, int]]()
    measured(pack(model), model, CORPUS, "test", "cpu", lambda done, texts: seen.append((done, texts)))
    assert {texts for _, texts in seen} == {2 * len(TEXTS)} == {sum(done for done, _ in seen)}
