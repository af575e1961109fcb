"""Models written as ONNX graphs: the same answers, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from laconic.cli.main import app
from laconic.errors import ModelError
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.storage.model_folder import SavedModel, write_model
from laconic.training.run import Run
from tests.planted import planted_texts
from tests.tiny_transformer import tiny_transformer

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")
from laconic.export.onnx import compare, write_onnx

CORPUS = planted_texts(num_labels=12, num_texts=120)
TEXTS = list(CORPUS.split("test").texts or ())


def trained(method: str, **settings: Any) -> SavedModel:
    config = config_of(method, {"epochs": 2, "batch_size": 16, "validation": 0.0, **settings})
    return train_model(CORPUS, method, config, Run.unkept("cpu"))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SavedModel]:
    folder = tiny_transformer(tmp_path_factory.mktemp("encoders") / "tiny")
    return {
        "transformer": trained("inceptionxml", encoder=str(folder)),
        "inception": trained("inceptionxml", embedding=64),
    }


@pytest.mark.parametrize("name", ["transformer", pytest.param("inception", marks=pytest.mark.slow)])
def test_a_graph_has_the_best_labels_of_the_model(name: str, models: dict[str, SavedModel], tmp_path: Path) -> None:
    graph = write_onnx(models[name], tmp_path / "m.onnx")
    found = compare(tmp_path / "m.onnx", graph, models[name], TEXTS)
    assert found.texts == len(TEXTS)
    assert found.equal == len(TEXTS)
    assert found.largest < 1e-5


@pytest.mark.slow
def test_a_graph_of_the_encoder_has_its_vectors(models: dict[str, SavedModel], tmp_path: Path) -> None:
    model = models["transformer"]
    graph = write_onnx(model, tmp_path / "m.onnx", vectors=True)
    assert compare(tmp_path / "m.onnx", graph, model, TEXTS).equal == len(TEXTS)


@pytest.mark.slow
def test_a_graph_of_another_model_is_noticed(models: dict[str, SavedModel], tmp_path: Path) -> None:
    model = models["transformer"]
    other = {
        name: tensor + 0.3 * torch.randn_like(tensor) if tensor.is_floating_point() else tensor
        for name, tensor in model.tensors.items()
    }
    write_onnx(replace(model, tensors=other), tmp_path / "m.onnx")
    graph = write_onnx(model, tmp_path / "own.onnx")
    assert compare(tmp_path / "m.onnx", graph, model, TEXTS).equal < len(TEXTS)


def test_a_model_that_does_not_score_every_label_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="but this is nearest"):
        write_onnx(train_model(CORPUS, "nearest", config_of("nearest", {}), Run.unkept("cpu")), tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_the_command_reports_the_agreement(models: dict[str, SavedModel], tmp_path: Path) -> None:
    write_model(models["transformer"], tmp_path / "model")
    arguments = ["export", str(tmp_path / "model"), "--onnx", str(tmp_path / "m.onnx")]
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert re.search(r"The best five labels are the model's\s+for 12 of 12 texts", shown.output)
    assert (tmp_path / "m.onnx").exists()
