"""Starts from label texts: encoders warmed up by contrast with them, and rows that start from their vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from laconic.data.corpus import Labels
from laconic.data.dataset import Dataset
from laconic.data.prepare import prepare
from laconic.errors import ConfigError, DataError
from laconic.methods.common import encoded
from laconic.methods.config import NeuralConfig, WarmUp
from laconic.methods.decaf.config import Config as DecafConfig
from laconic.methods.registry import METHODS, config_of
from laconic.methods.train import train_model
from laconic.methods.warm_up import before_rows, start_rows, warm_up
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import BagEncoder, Encoder, InceptionEncoder, SumEncoder, UnitVectors
from laconic.models.layers import Residual
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel
from laconic.training.run import Run
from laconic.training.tasks_siamese import Contrast
from laconic.types import NO_LABEL, Batch, Tokens
from tests.planted import planted_texts, planted_vectors
from tests.test_ensembles import Watched, kept, same

CPU = torch.device("cpu")
TEXTLESS = 5  # a label without a text
ALL = planted_texts(num_labels=12, num_texts=240, with_label_texts=True)
CORPUS = replace(
    ALL,
    labels=Labels(
        names=ALL.labels.names,
        texts=["" if label == TEXTLESS else text for label, text in enumerate(ALL.labels.texts or ())],
    ),
)
DATA: Dataset = prepare(CORPUS, NeuralConfig().text, NeuralConfig().vocabulary).data
CONFIG = NeuralConfig(epochs=1, batch_size=16, length=6, learning_rate=0.02)
SMALL: dict[str, dict[str, Any]] = {
    "inceptionxml": {"epochs": 2, "batch_size": 32, "embedding": 64, "prior": True},
    "inceptionxml+": {"epochs": 2, "batch_size": 32, "embedding": 64, "prior": True, "bias": True, "clusters": 4},
    "xml-cnn": {"epochs": 2, "batch_size": 32, "embedding": 16},
    "astec": {"surrogate": {"epochs": 2}, "extreme": {"epochs": 1}, "batch_size": 32, "embedding": 16},
    "decaf": {"epochs": 3, "batch_size": 32, "embedding": 16},
}


def started(method: str) -> dict[str, Any]:
    """Return settings of a method that starts from label texts in every way it can."""
    return SMALL[method] | {"warm_up": {"epochs": 3}} | ({} if method == "decaf" else {"row_start": 4.0})


def learnt(method: str, run: Run | None = None) -> SavedModel:
    return train_model(CORPUS, method, config_of(method, started(method)), run or Run.unkept())


ENCODERS: dict[str, Any] = {
    "bag": lambda: BagEncoder(num_ids=DATA.inputs.shape[1], length=6, embedding=16, dropout=0.0),
    "sum": lambda: SumEncoder(num_ids=DATA.inputs.shape[1], length=6, embedding=16),
    "inception": lambda: InceptionEncoder(num_ids=DATA.inputs.shape[1], length=6, embedding=64, dropout=0.1),
}


def made(name: str, seed: int = 0) -> Encoder:
    torch.manual_seed(seed)
    encoder: Encoder = ENCODERS[name]()
    return encoder


@pytest.mark.parametrize("name", ["bag", "sum", "inception"])
def test_loss_and_gradients_are_those_of_cosines_in_a_plain_loop(name: str) -> None:
    one, other = made(name).eval(), made(name).eval()
    ids = torch.tensor([[2, 0], [4, 5], [5, 0], [0, 0], [3, 4]])  # label 3 has no text
    label_texts = Tokens(ids, (ids != 0).float())
    task = Contrast(UnitVectors(one), label_texts, torch.zeros(5), temperature=0.1).eval()
    texts = Tokens(torch.tensor([[2, 4, 2], [5, 3, 4], [6, 7, 0]]), torch.rand(3, 3))
    positives = torch.tensor([[1, NO_LABEL], [2, 4], [3, NO_LABEL]])
    torch.manual_seed(5)
    loss = task(Batch(texts, positives, None, None), torch.zeros(()))
    loss.backward()
    torch.manual_seed(5)
    drawn = task._draw(positives, 1).flatten().tolist()
    vectors, labels = other(texts), other(label_texts)
    cosines = (vectors @ labels.T) / (vectors.norm(dim=1)[:, None] * labels.norm(dim=1).clamp(min=1e-12))
    losses = []
    for text, label in enumerate(drawn):
        if label != 3:
            against = sorted({*drawn} - {3, *positives[text].tolist()})
            losses.append(-functional.log_softmax(cosines[text, [label, *against]] / 0.1, dim=0)[0])
    expected = torch.stack(losses).sum() / 3
    expected.backward()  # type: ignore[no-untyped-call] # torch gives it no types
    torch.testing.assert_close(loss, expected)
    for parameter, twin in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, twin.grad, rtol=1e-3, atol=1e-5)


def test_word_tables_are_found_inside_any_encoder() -> None:
    tokens = Tokens(torch.ones(2, 1, dtype=torch.int32), torch.ones(2, 1))
    task = Contrast(UnitVectors(made("bag")), tokens, torch.zeros(2), temperature=0.1)
    assert task.tables == {"encoder.encoder.embedding.weight"} <= {name for name, _ in task.named_parameters()}


def first_labels(encoder: Encoder) -> float:
    """Return how often the label text with the largest cosine is a true label's, of texts whose labels have texts."""
    assert DATA.label_inputs is not None
    unit = UnitVectors(encoder).eval()
    cosines = encoded(unit, DATA.inputs, CPU) @ encoded(unit, DATA.label_inputs, CPU).T
    cosines[:, TEXTLESS] = -1
    return float(DATA.labels.toarray()[np.arange(len(DATA)), cosines.argmax(1).numpy()].mean())


@pytest.mark.parametrize("name", ["bag", "sum", "inception"])
def test_a_warmed_up_encoder_puts_texts_nearest_to_their_labels(name: str) -> None:
    encoder = made(name)
    before = first_labels(encoder)
    settings = WarmUp(epochs=20, batch_size=32)
    warm_up("warm-up", encoder, DATA, settings, CONFIG, Run.unkept())
    assert first_labels(encoder) > max(0.9, before)


def test_the_layer_before_the_rows_is_warmed_up_too() -> None:
    encoder = made("bag")
    transform = Residual(16, 8, dropout=0.0)
    classifier = LinearClassifier(8, DATA.num_labels, transform=transform)
    rows, layer = classifier.weight.clone(), transform.linear.weight.clone()
    warm_up("warm-up", before_rows(encoder, classifier), DATA, WarmUp(epochs=1, batch_size=32), CONFIG, Run.unkept())
    assert torch.equal(classifier.weight, rows)
    assert not torch.equal(transform.linear.weight, layer)


def test_rows_start_in_the_direction_of_their_label_s_text() -> None:
    """Labels without a text keep their rows, and all keep their biases."""
    assert DATA.label_inputs is not None
    encoder = made("bag").eval()
    classifier = LinearClassifier(16, DATA.num_labels, transform=nn.Linear(16, 16)).eval()
    before = classifier.weight.detach().clone()
    start_rows(classifier, encoder, DATA, 5.0, CPU)
    named = [label for label in range(12) if label != TEXTLESS]
    with torch.no_grad():
        vectors = classifier.transform(encoded(encoder, DATA.label_inputs, CPU))[named]
        length = classifier.transform(encoded(encoder, DATA.inputs, CPU)).norm(dim=1).mean()
    centred = vectors - sum(vectors) / len(named)
    for label, vector in zip(named, centred, strict=True):
        row = classifier.weight[label].detach()
        torch.testing.assert_close(row @ vector / vector.norm() * length, torch.tensor(5.0))
        torch.testing.assert_close(row.norm() * length, torch.tensor(5.0))
    assert torch.equal(classifier.weight[TEXTLESS], before[TEXTLESS])
    assert classifier.bias is not None
    assert not classifier.bias.any()


def test_rows_stay_as_they_are_where_the_score_is_0() -> None:
    classifier = LinearClassifier(16, DATA.num_labels)
    before = classifier.weight.detach().clone()
    start_rows(classifier, made("bag"), replace(DATA, label_inputs=None), 0.0, CPU)
    assert torch.equal(classifier.weight, before)


@pytest.mark.parametrize("method", SMALL)
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(method: str, tmp_path: Path) -> None:
    watcher = Watched()
    whole = learnt(method, kept(tmp_path / "whole", watcher))
    for stop in (2, watcher.steps - 3):  # in the warm-up, and in the last stage
        with pytest.raises(KeyboardInterrupt):
            learnt(method, kept(tmp_path / "stopped", Watched(stop)))
    assert same(learnt(method, kept(tmp_path / "stopped", Watched())), whole)
    stages = {path.name for path in (tmp_path / "whole").glob("*warm-up.safetensors")}
    assert stages == {
        "train-warm-up.safetensors" if method in ("inceptionxml", "inceptionxml+", "xml-cnn") else "warm-up.safetensors"
    }


@pytest.mark.parametrize("method", SMALL)
def test_a_model_with_both_starts_differs_from_one_without_and_answers(method: str) -> None:
    model, plain = learnt(method), train_model(CORPUS, method, config_of(method, SMALL[method]), Run.unkept())
    assert not torch.equal(model.tensors["classifier.weight"], plain.tensors["classifier.weight"])
    assert len(Predictor(model, "cpu").predict(list(CORPUS.split("test").texts or ()), k=3)) == 60


@pytest.mark.parametrize("method", SMALL)
def test_labels_without_texts_are_refused_before_anything_is_trained(method: str, tmp_path: Path) -> None:
    ways: list[dict[str, Any]] = [{"warm_up": {"epochs": 1}}, *([] if method == "decaf" else [{"row_start": 1.0}])]
    for way in ways:
        name = "row_start" if "row_start" in way else "warm_up.epochs"
        with pytest.raises(DataError, match=f"{name} needs labels with texts, but this data has none; leave {name} at"):
            train_model(planted_texts(), method, config_of(method, SMALL[method] | way), kept(tmp_path, Watched()))
    assert not list(tmp_path.glob("*.safetensors"))


def test_dense_features_are_refused() -> None:
    settings = {"encoder": "dense", "row_start": 1.0, "epochs": 1}
    with pytest.raises(DataError, match="row_start needs labels with texts"):
        train_model(planted_vectors(), "inceptionxml", config_of("inceptionxml", settings), Run.unkept())


def test_label_texts_are_read_only_where_settings_ask_for_them() -> None:
    for method in ("inceptionxml", "inceptionxml+", "xml-cnn", "astec"):
        reads = METHODS[method].reads_label_texts
        assert not reads(config_of(method, {}))
        assert reads(config_of(method, {"warm_up": {"epochs": 1}}))
        assert reads(config_of(method, {"row_start": 1.0}))
    assert METHODS["decaf"].reads_label_texts(config_of("decaf", {"label_text": False, "warm_up": {"epochs": 1}}))


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="batch_size must be 0"):
        WarmUp(epochs=1, batch_size=1)
    with pytest.raises(ConfigError, match=r"given_vectors keeps word vectors fixed, but warm_up\.epochs trains them"):
        DecafConfig(given_vectors=True, vectors="some.vec", warm_up=WarmUp(epochs=1))
    with pytest.raises(ConfigError, match=r"groups=none keeps word vectors fixed, but warm_up\.epochs trains them"):
        config_of("astec", {"surrogate": {"groups": "none"}, "vectors": "some.vec", "warm_up": {"epochs": 1}})


class Planned(Watched):
    """Keeps the estimate of costs, and stops at the first step."""

    def __init__(self) -> None:
        super().__init__(1)

    def planned(self, memory: int, seconds: float) -> None:
        self.memory, self.estimate = memory, seconds


def estimated(method: str, epochs: int) -> tuple[int, float]:
    watcher = Planned()
    config = config_of(method, SMALL[method] | {"warm_up": {"epochs": epochs}})
    with pytest.raises(KeyboardInterrupt):
        train_model(CORPUS, method, config, Run(None, watcher=watcher, device=CPU))
    return watcher.memory, watcher.estimate


@pytest.mark.parametrize("method", SMALL)
def test_the_estimate_of_costs_counts_the_warm_up(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laconic.training.run.memory_held", lambda: 0)
    (memory, plain), (with_warm_up, short), (_, long) = (estimated(method, epochs) for epochs in (0, 2, 4))
    assert memory <= with_warm_up
    assert short > plain
    assert long - plain == pytest.approx(2 * (short - plain))
