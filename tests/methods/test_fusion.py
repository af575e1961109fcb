"""Fusion over any method: what nearest texts and labels' own texts know is weighed with what the method has learnt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from laconic.analysis.sweep import setting_of
from laconic.data.corpus import Corpus, Labels
from laconic.data.prepare import prepare
from laconic.errors import ConfigError
from laconic.methods.config import FusionConfig as Config
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_config, restore_ranker, with_settings
from laconic.methods.train import train_model
from laconic.methods.wrappers import fusion
from laconic.models.fusion import NUMBERS
from laconic.models.fusion.ranker import FusedRanker
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel, read_model, write_model
from laconic.training.run import Run
from laconic.update.model import add_labels, remove_labels, update
from laconic.update.rankers import Config as Changes
from tests.planted import planted_texts, words_of
from tests.test_ensembles import Watched, kept, same
from tests.variants import some_slow

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {
    "epochs": 8,
    "batch_size": 16,
    "embedding": 16,
    "length": 6,
    "learning_rate": 0.02,
    "validation": 0.3,
    "encoder": "bag",
    "fusion": {"width": 6, "neighbours": 8, "epochs": 40, "hidden": 16},
}
STEPS = 8 * 14  # of the base: epochs × batches
HIDDEN = 11  # a label that training never sees


def without(corpus: Corpus, label: int) -> Corpus:
    """Training texts that have the label are gone; the label and its text are not."""
    split = corpus.split("train")
    keep = np.flatnonzero(split.labels.toarray()[:, label] == 0)
    texts = [list(split.texts or ())[row] for row in keep]
    return replace(corpus, splits={**corpus.splits, "train": replace(split, texts=texts, labels=split.labels[keep])})


CORPUS = without(planted_texts(num_labels=12, num_texts=320, with_label_texts=True), HIDDEN)


def learnt(run: Run | None = None, **own: Any) -> SavedModel:
    settings = SMALL | {"fusion": SMALL["fusion"] | own}
    return train_model(CORPUS, "inceptionxml", config_of("inceptionxml", settings), run or Run.unkept())


@pytest.fixture(scope="module")
def model() -> SavedModel:
    return learnt()


def test_a_label_without_training_texts_is_found_by_its_own(model: SavedModel) -> None:
    text = " ".join(words_of(HIDDEN))
    assert Predictor(model, "cpu").predict([text], k=1)[0][0].label == f"L{HIDDEN}"
    alone = train_model(
        CORPUS,
        "inceptionxml",
        config_of("inceptionxml", {name: value for name, value in SMALL.items() if name != "fusion"}),
        Run.unkept(),
    )
    assert Predictor(alone, "cpu").predict([text], k=1)[0][0].label != f"L{HIDDEN}"


def test_scores_are_probabilities(model: SavedModel) -> None:
    """All of them together are about as many as labels are true."""
    test = CORPUS.split("test")
    answers = Predictor(model, "cpu").predict(list(test.texts or ()), k=12)
    scores = [answer.score for several in answers for answer in several]
    assert min(scores) >= 0
    assert max(scores) <= 1
    assert sum(scores) == pytest.approx(test.labels.nnz, rel=0.25)


def test_a_model_is_read_as_it_was_written(model: SavedModel, tmp_path: Path) -> None:
    write_model(model, tmp_path / "model")
    again = Predictor(read_model(tmp_path / "model"), "cpu")
    texts = list(CORPUS.split("test").texts or ())[:9]
    assert again.predict(texts, k=5) == Predictor(model, "cpu").predict(texts, k=5)


def test_the_dial_leans_to_rare_labels(model: SavedModel) -> None:
    texts = list(CORPUS.split("test").texts or ())
    frequency = dict(zip(model.labels.names, model.label_counts, strict=True))

    def mean(tail: float) -> float:
        turned = Predictor(with_settings(model, {"tail": tail}), "cpu")
        return float(np.mean([frequency[answer.label] for answers in turned.predict(texts, k=3) for answer in answers]))

    assert mean(2.0) < mean(0.0) < mean(-2.0)
    setting = setting_of(restore_ranker(model, CPU))
    assert setting.name == "tail"
    assert isinstance(setting.at(0.3), FusedRanker)


def test_texts_must_be_held_out() -> None:
    with pytest.raises(ConfigError, match="fusion needs held-out texts"):
        train_model(CORPUS, "astec", config_of("astec", {"validation": 0.0, "fusion": {}}), Run.unkept())
    with pytest.raises(ConfigError, match="a method that trains"):
        train_model(CORPUS, "nearest", config_of("nearest", {"fusion": {}}), Run.unkept())
    with pytest.raises(ConfigError, match=r"a fraction of 0.001 of \d+ texts is none; raise validation"):
        train_model(CORPUS, "astec", config_of("astec", {"validation": 0.001, "fusion": {}}), Run.unkept())
    with pytest.raises(ConfigError, match="refit"):
        train_model(CORPUS, "inceptionxml", config_of("inceptionxml", {"refit": True, "fusion": {}}), Run.unkept())


@pytest.mark.parametrize("wrong", [{"width": 0}, {"epochs": -1}, {"power": 0.0}, {"tail": 11.0}, {"hidden": 0}])
def test_settings_have_bounds(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be"):
        Config(**wrong)


def test_held_out_texts_vote_in_the_end(model: SavedModel) -> None:
    assert model.tensors["nearest.votes.starts"].numel() - 1 == len(CORPUS.split("train"))
    assert model.facts["fusion"]["texts"] == round(0.3 * len(CORPUS.split("train")))


@pytest.mark.parametrize("stop", some_slow([5, STEPS - 1, STEPS, STEPS + 7]))
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(model: SavedModel, tmp_path: Path, stop: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        learnt(kept(tmp_path, Watched(stop)))
    watcher = Watched()
    assert same(learnt(kept(tmp_path, watcher)), model)
    assert watcher.steps > 0


def test_pairs_that_are_left_out_are_no_candidates(model: SavedModel) -> None:
    """Neither true nor false: the combiner does not see them, and sees all others as before."""
    ranker, config = restore_ranker(model, CPU), restore_config(model)
    assert isinstance(ranker, FusedRanker)
    data = prepare(CORPUS, config.text, config.vocabulary).data.rows(np.arange(20))
    found = fusion._evidence(ranker, data, CPU, 1.0)
    left_out = fusion._evidence(ranker, replace(data, leave_out=data.labels != 0), CPU, 1.0)
    assert found["true"].any()
    assert not left_out["true"].any()
    assert not left_out["numbers"][found["true"]].any()
    assert torch.equal(left_out["numbers"][~found["true"]], found["numbers"][~found["true"]])


def test_every_second_text_is_learnt_from_without_its_twins(model: SavedModel) -> None:
    ranker, config = restore_ranker(model, CPU), restore_config(model)
    assert isinstance(ranker, FusedRanker)
    data = prepare(CORPUS, config.text, config.vocabulary).data.rows(np.arange(20))  # each has itself for a twin
    numbers, near = fusion._evidence(ranker, data, CPU, 0.7)["numbers"], NUMBERS.index("nearest text")
    assert (numbers[::2, 0, near] <= 0.7).all()
    assert (numbers[1::2, 0, near] > 0.99).all()


def test_labels_join_and_leave_a_fused_model(model: SavedModel) -> None:
    new = Labels(names=["new"], texts=["bogus word " + " ".join(words_of(3)[:1])])
    grown = add_labels(model, new)
    assert len(grown.labels) == 13
    answers = Predictor(grown, "cpu").predict([" ".join(words_of(3)[:1])], k=13)[0]
    assert "new" in {answer.label for answer in answers[:4]}
    back = remove_labels(grown, ["new"])
    texts = list(CORPUS.split("test").texts or ())[:9]
    assert [[one.label for one in answers] for answers in Predictor(back, "cpu").predict(texts, k=3)] == [
        [one.label for one in answers] for answers in Predictor(model, "cpu").predict(texts, k=3)
    ]


def test_a_fused_model_learns_on(model: SavedModel) -> None:
    taught = update(model, CORPUS, Changes(epochs=1), Run.unkept())
    assert taught.label_counts.sum() == 2 * model.label_counts.sum()
    votes = "nearest.votes.starts"
    assert taught.tensors[votes].numel() - 1 == 2 * (model.tensors[votes].numel() - 1)
    frequent = torch.from_numpy(np.log1p(taught.label_counts)).float()
    torch.testing.assert_close(taught.tensors["frequency"], frequent)
    assert Predictor(taught, "cpu").evaluate(CORPUS, "test").metrics["P@1"] > 50
