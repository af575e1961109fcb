"""Pre-trained encoders under methods: trained, frozen, stored with the model, asked without their folder."""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from laconic.config import configure
from laconic.data.encoder_folder import read_pretrained
from laconic.errors import ConfigError, DataError, ModelError
from laconic.methods.registry import METHODS, config_of
from laconic.methods.restore import restore_ranker
from laconic.methods.train import Training, train_model
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel, read_model, write_model
from laconic.training.run import Run
from tests.planted import planted_texts, planted_vectors
from tests.tiny_transformer import tiny_transformer

METHODS_WITH_ENCODERS = ("inceptionxml", "inceptionxml+", "xml-cnn", "astec", "mach", "siamese")
FEW = {"mach": {"members": 2}}  # settings that make a method quick
CORPUS = planted_texts(num_labels=12, num_texts=240, with_label_texts=True)
QUICK = {"epochs": 12, "batch_size": 16, "validation": 0.0, "learning_rate": 0.02}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_transformer(tmp_path_factory.mktemp("encoders") / "tiny")


def trained(method: str, folder: Path, **settings: Any) -> SavedModel:
    transformer = {"learning_rate": 0.003} | settings.pop("transformer", {})
    settings = {**QUICK, **FEW.get(method, {}), **settings}
    config = config_of(method, {"encoder": str(folder), "transformer": transformer, **settings})
    return train_model(CORPUS, method, config, Run.unkept("cpu"))


def precision(model: SavedModel) -> float:
    test = CORPUS.split("test")
    best = Predictor(model, "cpu").predict(list(test.texts or ()), k=1)
    found = [model.label_names.index(one[0].label) for one in best]
    return float(np.mean([test.labels[row, label] for row, label in enumerate(found)]))


@pytest.mark.parametrize("method", METHODS_WITH_ENCODERS)
def test_a_pretrained_encoder_learns_what_is_planted(method: str, folder: Path) -> None:
    counts = CORPUS.split("train").labels.sum(axis=0)
    popular = float(CORPUS.split("test").labels[:, [int(np.argmax(counts))]].sum() / len(CORPUS.split("test")))
    assert precision(trained(method, folder)) > popular + 0.2


@pytest.mark.parametrize("method", METHODS_WITH_ENCODERS)
def test_a_model_answers_without_the_folder_it_came_from(method: str, tmp_path: Path) -> None:
    folder = tiny_transformer(tmp_path / "tiny")
    model = trained(method, folder, epochs=1)
    shutil.rmtree(folder)
    write_model(model, tmp_path / "model")
    texts = list(CORPUS.split("test").texts or ())
    assert Predictor(read_model(tmp_path / "model"), "cpu").predict(texts, k=3) == Predictor(model, "cpu").predict(
        texts, k=3
    )
    assert read_model(tmp_path / "model").facts["config"]["encoder"] == "transformer"


def test_no_socket_is_opened(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    write_model(trained("inceptionxml", folder, epochs=1), tmp_path / "model")
    assert Predictor(read_model(tmp_path / "model"), "cpu").predict(["bacedi"], k=1)


def test_a_frozen_encoder_keeps_its_weights_and_another_does_not(folder: Path) -> None:
    start = read_pretrained(folder).weights["layers.0.first.weight"]
    frozen = trained("inceptionxml", folder, transformer={"frozen": True})
    free = trained("inceptionxml", folder, epochs=2)
    name = "encoder.layers.0.first.weight"
    np.testing.assert_array_equal(frozen.tensors[name].numpy(), start)
    assert np.abs(free.tensors[name].numpy() - start).max() > 1e-4


def test_a_frozen_encoder_learns_on_vectors_what_it_answers_by(folder: Path) -> None:
    with_validation = trained("inceptionxml", folder, transformer={"frozen": True}, validation=0.2, epochs=3)
    epochs = with_validation.facts["training"]["epochs"]
    assert len(epochs) == 3
    assert precision(trained("inceptionxml", folder, transformer={"frozen": True})) > 0.4


def test_the_encoder_moves_by_its_own_learning_rate(folder: Path) -> None:
    start = read_pretrained(folder).weights["layers.1.second.weight"]

    def moved(rate: float) -> float:
        model = trained("inceptionxml", folder, transformer={"learning_rate": rate}, epochs=1)
        return float(np.abs(model.tensors["encoder.layers.1.second.weight"].numpy() - start).mean())

    assert moved(1e-6) < moved(1e-3) / 100


def test_a_warm_up_trains_the_encoder_by_its_own_rate(folder: Path) -> None:
    start = read_pretrained(folder).weights["layers.1.second.weight"]
    settings = {"transformer": {"learning_rate": 1e-7, "frozen": True}, "warm_up": {"epochs": 2, "batch_size": 32}}
    model = trained("inceptionxml", folder, **settings, row_start=4.0, epochs=1)
    moved = np.abs(model.tensors["encoder.layers.1.second.weight"].numpy() - start).max()
    assert 0 < moved < 1e-4


def test_fewer_layers_are_the_first_ones(folder: Path) -> None:
    model = trained("inceptionxml", folder, transformer={"layers": 1, "frozen": True}, epochs=1)
    assert model.facts["config"]["transformer"]["layers"] == 1
    assert not any(name.startswith("encoder.layers.1.") for name in model.tensors)
    start = read_pretrained(folder).weights["layers.0.second.weight"]
    np.testing.assert_array_equal(model.tensors["encoder.layers.0.second.weight"].numpy(), start)


def test_runs_of_two_encoders_are_not_the_same(folder: Path, tmp_path: Path) -> None:
    other = tiny_transformer(tmp_path / "tiny", seed=1)
    facts = [
        Training.of(CORPUS, "inceptionxml", config_of("inceptionxml", {"encoder": str(one)})).facts
        for one in (folder, other)
    ]
    assert {**facts[0], "encoder": ""} == {**facts[1], "encoder": ""}
    assert facts[0]["encoder"] != facts[1]["encoder"]


def test_a_folder_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"or the folder of a pre-trained transformer .* but is 'no/where'"):
        config_of("inceptionxml", {"encoder": "no/where"})


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.safetensors, config\.json, tokenizer\.json are not there"):
        Training.of(CORPUS, "inceptionxml", config_of("inceptionxml", {"encoder": str(tmp_path)}))


@pytest.mark.parametrize("method", ["decaf", "trees"])
def test_methods_whose_encoder_cannot_be_chosen_say_so(method: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match="there is no setting 'encoder'"):
        config_of(method, {"encoder": str(folder)})


def test_decaf_says_what_to_do_instead(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"sums of the vectors of the labels' words.*distill-vectors"):
        config_of("decaf", {"encoder": str(folder)})


def test_astec_over_vectors_as_they_are_keeps_the_encoder(folder: Path) -> None:
    start = read_pretrained(folder).weights["layers.0.first.weight"]
    model = trained("astec", folder, surrogate={"groups": "none"}, epochs=2)
    np.testing.assert_array_equal(model.tensors["encoder.layers.0.first.weight"].numpy(), start)
    with pytest.raises(ConfigError, match=r"surrogate\.groups=none leaves the encoder as it is"):
        config_of("astec", {"encoder": str(folder), "transformer": {"frozen": True}})


@pytest.mark.parametrize(
    "settings", [{"text": {"stop_words": False}}, {"vocabulary": {"size": 5}}, {"vectors": "some.txt"}]
)
def test_settings_of_words_are_refused(folder: Path, settings: dict[str, Any]) -> None:
    config = config_of("inceptionxml", {"encoder": str(folder), **settings})
    with pytest.raises(ConfigError, match="leave the settings text, vocabulary and vectors out"):
        Training.of(CORPUS, "inceptionxml", config)


def test_the_name_of_a_stored_encoder_trains_nothing() -> None:
    config = configure(METHODS["inceptionxml"].config, {"encoder": "transformer"})
    with pytest.raises(ConfigError, match="name the folder"):
        Training.of(CORPUS, "inceptionxml", config)


def test_features_are_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="reads texts, but planted has features"):
        Training.of(planted_vectors(), "inceptionxml", config_of("inceptionxml", {"encoder": str(folder)}))


def test_siamese_takes_a_folder_and_trains_it(folder: Path) -> None:
    with pytest.raises(ConfigError, match="folder of a pre-trained transformer for siamese, but is 'bag'"):
        config_of("siamese", {"encoder": "bag"})
    with pytest.raises(ConfigError, match="nothing to learn"):
        config_of("siamese", {"encoder": str(folder), "transformer": {"frozen": True}})


def test_tensors_of_other_sizes_are_refused(folder: Path) -> None:
    model = trained("inceptionxml", folder, epochs=1)
    wrong = {**model.tensors, "encoder.positions": torch.zeros(3, 5)}
    with pytest.raises(ModelError, match="tensors are not those of inceptionxml"):
        restore_ranker(replace(model, tensors=wrong), torch.device("cpu"))
