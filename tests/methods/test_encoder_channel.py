"""A pre-trained transformer as a channel of fusion: trained beside the method, stored, asked without its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from laconic.data.corpus import Labels
from laconic.data.tokenizer import Tokenizer
from laconic.errors import ConfigError, DataError, ModelError
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker
from laconic.methods.train import train_model
from laconic.models.fusion import numbers_of
from laconic.models.fusion.ranker import FusedRanker
from laconic.models.rankers import FlatRanker
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel, read_model, write_model
from laconic.training.run import Run
from laconic.update.model import add_labels, remove_labels, update
from laconic.update.rankers import Config as Changes
from tests.planted import planted_texts, planted_vectors, words_of
from tests.tiny_transformer import tiny_transformer

CPU = torch.device("cpu")
CORPUS = planted_texts(num_labels=12, num_texts=240, with_label_texts=True)
CHANNEL = {"epochs": 12, "learning_rate": 0.003, "row_rate": 0.02, "batch_size": 16, "warm_up": 1}
SMALL: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 16,
    "embedding": 16,
    "validation": 0.3,
    "encoder": "bag",
    "fusion": {"width": 6, "neighbours": 8, "epochs": 10, "hidden": 8, "trees": 0},
}


def learnt(folder: str, run: Run | None = None, **own: Any) -> SavedModel:
    settings = SMALL | {"fusion": SMALL["fusion"] | {"encoder": CHANNEL | {"folder": folder} | own}}
    return train_model(CORPUS, "inceptionxml", config_of("inceptionxml", settings), run or Run.unkept())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SavedModel:
    return learnt(str(tiny_transformer(tmp_path_factory.mktemp("channel") / "tiny")))


def transformer_of(model: SavedModel) -> FlatRanker:
    ranker = fused(model).transformer
    assert isinstance(ranker, FlatRanker)
    return ranker


def fused(model: SavedModel) -> FusedRanker:
    ranker = restore_ranker(model, CPU)
    assert isinstance(ranker, FusedRanker)
    return ranker


def test_the_channel_learns_what_is_planted_and_joins_the_network(model: SavedModel) -> None:
    ranker, test = fused(model), CORPUS.split("test")
    assert ranker.transformer is not None
    assert ranker.combiner.numbers == numbers_of(2)
    assert model.vocabulary is not None
    rows = Tokenizer(model.splitter, model.vocabulary).tokens(list(test.texts or ()))
    best = ranker.transformer.rank(rows, 1).labels[:, 0].numpy()
    found = test.labels.toarray()[range(len(best)), best].mean()
    assert found > test.labels.toarray().mean(axis=0).max() + 0.2
    torch.testing.assert_close(
        ranker.transformer.score(rows, ranker.transformer.rank(rows, 3).labels), ranker.transformer.rank(rows, 3).scores
    )


def test_a_model_is_read_as_it_was_written_and_names_no_folder(model: SavedModel, tmp_path: Path) -> None:
    write_model(model, tmp_path / "model")
    again, texts = read_model(tmp_path / "model"), list(CORPUS.split("test").texts or ())[:9]
    assert Predictor(again, "cpu").predict(texts, k=5) == Predictor(model, "cpu").predict(texts, k=5)
    assert again.facts["config"]["fusion"]["encoder"]["folder"] == "transformer"


def test_labels_and_words_come_and_go(model: SavedModel) -> None:
    fewer = remove_labels(model, ["L3"])
    assert transformer_of(fewer).num_labels == 11
    text = " ".join([*words_of(5)[:2], "unheard", "words"])
    more = add_labels(fewer, Labels(names=["new"], texts=[text]))
    assert transformer_of(more).num_labels == 12
    corpus = replace(CORPUS, splits={"train": CORPUS.split("train").rows(np.arange(12))})
    unheard = replace(corpus.split("train"), texts=[f"{one} unheard" for one in corpus.split("train").texts or ()])
    taught = update(model, replace(corpus, splits={"train": unheard}), Changes(epochs=1), Run.unkept())
    known, grown = transformer_of(model).num_ids, transformer_of(taught).num_ids
    assert grown == known + 1
    assert Predictor(taught, "cpu").predict([text, "unheard"], k=3)


def test_a_resumed_run_gives_the_same_model(tmp_path: Path, model: SavedModel) -> None:
    folder = str(tiny_transformer(tmp_path / "tiny"))
    kept = Run(tmp_path / "run", watcher=Run.unkept().watcher, device=CPU)
    once = learnt(folder, kept)
    again = learnt(folder, Run(tmp_path / "run", watcher=kept.watcher, device=CPU))
    for name, tensor in once.tensors.items():
        torch.testing.assert_close(again.tensors[name], tensor, rtol=0, atol=0)


def test_mistakes_are_explained(model: SavedModel, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a pre-trained encoder is a folder with"):
        learnt(str(tmp_path / "nowhere"))
    vectors = planted_vectors(num_labels=4, num_texts=60)
    folder = str(tiny_transformer(tmp_path / "tiny"))
    own = {"validation": 0.3, "encoder": "dense", "fusion": {"encoder": {"folder": folder}}}
    with pytest.raises((ConfigError, DataError), match=r"reads texts, but .* features; leave"):
        train_model(vectors, "inceptionxml", config_of("inceptionxml", own), Run.unkept())
    damaged = dict(model.tensors)
    damaged["transformer.encoder.pieces"] = damaged["transformer.encoder.pieces"] + 10_000
    with pytest.raises(ModelError, match="table of word pieces"):
        restore_ranker(SavedModel(**{**vars(model), "tensors": damaged}), CPU)
