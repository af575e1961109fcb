"""What InceptionXML does with a machine's memory, and with rows narrower than its encoder."""

from __future__ import annotations

import pytest
import torch

from laconic.errors import TrainingError
from laconic.export.rankers import pack_ranker
from laconic.methods import inceptionxml
from laconic.methods.costs import Shape, report_inception_costs, training_memory
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker
from laconic.methods.train import train_model
from laconic.training.run import Run
from tests.planted import planted_texts

CPU = torch.device("cpu")
SHAPE = Shape(words=10, labels=20_000, length=4, dim=8)


def with_free(monkeypatch: pytest.MonkeyPatch, memory: int) -> Run:
    monkeypatch.setattr("laconic.training.run._free_memory", lambda device: memory)
    return Run.unkept()


def test_labels_are_taken_fewer_at_a_time_until_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    config = inceptionxml.Config(batch_size=64)
    needed = training_memory(SHAPE, batch=64, chunk=5000)
    found = inceptionxml._with_chunk(config, SHAPE, with_free(monkeypatch, needed))
    assert found.chunk == 5000
    assert inceptionxml._with_chunk(config, SHAPE, with_free(monkeypatch, 1 << 50)) is config


def test_what_does_not_fit_at_all_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    config = inceptionxml._with_chunk(inceptionxml.Config(batch_size=64), SHAPE, run := with_free(monkeypatch, 10_000))
    assert config.chunk == inceptionxml._SMALLEST_CHUNK
    with pytest.raises(TrainingError, match="are free"):
        report_inception_costs(run, config, lambda one: SHAPE, 100, chunk=config.chunk, small_batch=128)


def test_rows_may_be_narrower_than_the_encoder() -> None:
    corpus = planted_texts(num_labels=8, num_texts=160)
    settings = {"epochs": 12, "batch_size": 16, "embedding": 16, "hidden": 12, "length": 6, "learning_rate": 0.02}
    model = train_model(corpus, "inceptionxml", config_of("inceptionxml", settings), Run.unkept())
    assert model.tensors["classifier.weight"].shape == (8, 12)
    assert pack_ranker(restore_ranker(model, CPU)).num_labels == 8
