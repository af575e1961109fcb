"""A packed model with a transformer: ONNX Runtime runs it, torch is not needed, and answers are nearly the model's."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from laconic.data.corpus import Corpus
from laconic.data.tokenizer import Tokenizer, padded
from laconic.errors import ModelError
from laconic.export.pack import pack
from laconic.export.transformer import packed_transformer
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker
from laconic.methods.train import train_model
from laconic.models.encoders import TransformerEncoder
from laconic.models.rankers import FlatRanker
from laconic.packed.engine.texts import inputs_of
from laconic.packed.engine.transformer import Transformer
from laconic.packed.folder import open_packed, write_packed
from laconic.packed.tokenizer import Reader
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel
from laconic.training.run import Run
from tests.planted import planted_texts
from tests.tiny_transformer import tiny_transformer

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
CORPUS: Corpus = planted_texts(num_labels=12, num_texts=240, with_label_texts=True)
TEXTS = [*(CORPUS.split("test").texts or ()), "", "zzz é日 !"]
SMALL: dict[str, Any] = {"epochs": 6, "batch_size": 16, "validation": 0.3, "learning_rate": 0.02}


def learnt(settings: dict[str, Any]) -> SavedModel:
    return train_model(CORPUS, "inceptionxml", config_of("inceptionxml", SMALL | settings), Run.unkept())


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> SavedModel:
    folder = tiny_transformer(tmp_path_factory.mktemp("flat") / "tiny")
    return learnt({"encoder": str(folder), "transformer": {"learning_rate": 0.003}})


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> SavedModel:
    folder = tiny_transformer(tmp_path_factory.mktemp("fused") / "tiny")
    channel = {"folder": str(folder), "epochs": 6, "learning_rate": 0.003, "row_rate": 0.02, "warm_up": 1}
    fusion = {"width": 6, "neighbours": 8, "epochs": 10, "hidden": 8, "trees": 0, "encoder": channel}
    return learnt({"encoder": "bag", "embedding": 16, "fusion": fusion})


def encoder_of(model: SavedModel) -> TransformerEncoder:
    ranker = restore_ranker(model, torch.device("cpu"))
    assert isinstance(ranker, FlatRanker)
    assert isinstance(ranker.encoder, TransformerEncoder)
    return ranker.encoder


def test_an_exact_graph_gives_the_vectors_of_torch(flat: SavedModel) -> None:
    assert flat.vocabulary is not None
    encoder, rows = encoder_of(flat), Tokenizer(flat.splitter, flat.vocabulary).rows(TEXTS)
    found = packed_transformer(encoder, exact=True).encode(inputs_of(rows))
    with torch.no_grad():
        expected = encoder(padded(rows)).numpy()
    np.testing.assert_allclose(found, expected, atol=2e-5)
    narrow = packed_transformer(encoder).encode(inputs_of(rows))
    assert 0 < np.abs(narrow - expected).max() < 0.2 * np.abs(expected).max()


def test_texts_are_read_as_the_models_tokenizer_reads_them(flat: SavedModel) -> None:
    assert flat.vocabulary is not None
    rows = Tokenizer(flat.splitter, flat.vocabulary).rows(TEXTS)
    found = Reader(flat.splitter, flat.vocabulary).read(TEXTS)
    np.testing.assert_array_equal(found.ids, rows.indices)
    np.testing.assert_array_equal(found.starts, rows.indptr)
    np.testing.assert_allclose(found.weights, rows.data, rtol=1e-5)


@pytest.mark.parametrize("kind", ["flat", "fused"])
def test_a_packed_model_answers_nearly_as_the_model_does(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    model: SavedModel = request.getfixturevalue(kind)
    write_packed(pack(model, CORPUS, "cpu"), tmp_path / "packed")
    answers = PackedPredictor(open_packed(tmp_path / "packed")).predict(TEXTS, k=3)
    expected = Predictor(model, "cpu").predict(TEXTS, k=3)
    same = [own[0].label == other[0].label for own, other in zip(answers, expected, strict=True)]
    assert np.mean(same) > 0.85


def test_torch_is_not_imported(fused: SavedModel, tmp_path: Path) -> None:
    write_packed(pack(fused, None, "cpu"), tmp_path / "packed")
    code = (
        "import sys; from pathlib import Path; from laconic.predict.load import open_packed_predictor\n"
        f"found = open_packed_predictor(Path({str(tmp_path / 'packed')!r})).predict(['ba be'], k=2)\n"
        "assert len(found[0]) == 2; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_graph_that_does_not_fit_is_refused(flat: SavedModel) -> None:
    part = packed_transformer(encoder_of(flat))
    texts = inputs_of(Tokenizer(flat.splitter, flat.vocabulary).rows(TEXTS[:2]))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="not 7; pack it again"):
        replace(part, width=7).encode(texts)
    with pytest.raises(ModelError, match="cannot be opened"):
        replace(part, graph=part.graph[:100].copy()).encode(texts)
    with pytest.raises(ModelError, match="is outside of the packed model's 5 word vectors"):
        replace(part, tokens=5).encode(texts)
    assert isinstance(part, Transformer)
