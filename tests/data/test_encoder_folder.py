"""Folders of pre-trained encoders: what is read, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from laconic.data.encoder_folder import read_pretrained
from laconic.errors import ConfigError
from laconic.types import FIRST_WORD, PAD, UNKNOWN
from tests.tiny_transformer import PIECES, tiny_tensors, tiny_transformer, tokenizer_json


def test_sizes_pieces_and_words_are_read(tmp_path: Path) -> None:
    found = read_pretrained(tiny_transformer(tmp_path / "tiny"))
    assert (found.layers, found.heads, found.inner, found.dim, found.positions) == (2, 4, 48, 32, 40)
    assert tuple(found.words) == PIECES
    assert found.rules == "bert"
    table, words = tiny_tensors()["embeddings.word_embeddings.weight"].numpy(), found.weights["embedding.weight"]
    np.testing.assert_array_equal(words[FIRST_WORD:], table)
    np.testing.assert_array_equal(words[UNKNOWN], table[PIECES.index("[UNK]")])
    assert not words[PAD].any()


def test_halves_and_prefixed_names_are_read(tmp_path: Path) -> None:
    folder = tiny_transformer(tmp_path / "tiny")
    before = read_pretrained(folder)
    tensors = {f"bert.{name}": tensor.half() for name, tensor in load_file(folder / "model.safetensors").items()}
    other = shutil.copytree(folder, tmp_path / "other")  # weights may still be mapped to the first file
    save_file(tensors, other / "model.safetensors")
    after = read_pretrained(other)
    assert after.digest != before.digest
    for name, weights in before.weights.items():
        assert after.weights[name].dtype == np.float32
        np.testing.assert_allclose(after.weights[name], weights, atol=2e-3)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = tiny_transformer(tmp_path / "tiny")
    (folder / name).unlink()
    with pytest.raises(ConfigError, match=f"{name} is not there; laconic downloads nothing"):
        read_pretrained(folder)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "gpt2"}, "model_type must be 'bert', but is 'gpt2'"),
        ({"hidden_act": "relu"}, "hidden_act must be 'gelu', but is 'relu'"),
        ({"num_hidden_layers": 0}, "num_hidden_layers must be an integer from 1"),
        ({"hidden_size": "32"}, "hidden_size must be an integer from 1"),
        ({"num_attention_heads": 5}, "a multiple of num_attention_heads"),
        ({"num_hidden_layers": 3}, r"there is no tensor encoder\.layer\.2"),
    ],
)
def test_another_kind_of_transformer_is_refused(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_pretrained(tiny_transformer(tmp_path / "tiny", config=config))


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("model", {"type": "BPE", "vocab": {}}, "a WordPiece tokenizer .* but this one is BPE"),
        ("normalizer", None, "this one is WordPiece, none, BertPreTokenizer"),
        ("post_processor", {"type": "TemplateProcessing", "single": []}, "its post_processor must put one token"),
        ("model", {"type": "WordPiece", "vocab": {"[CLS]": 0, "[SEP]": 2}}, "numbers must be 0, 1, 2"),
        ("model", {"type": "WordPiece", "vocab": {"a": 0}}, "its post_processor must put one token"),
    ],
)
def test_another_tokenizer_is_refused(tmp_path: Path, part: str, value: Any, message: str) -> None:
    folder = tiny_transformer(tmp_path / "tiny")
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer_json(), part: value}))
    with pytest.raises(ConfigError, match=message):
        read_pretrained(folder)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    folder = tiny_transformer(tmp_path / "tiny")
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ConfigError, match=r"model\.safetensors: cannot be read"):
        read_pretrained(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json: cannot be read as JSON"):
        read_pretrained(folder)


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    folder, tensors = tiny_transformer(tmp_path / "tiny"), tiny_tensors()
    tensors["encoder.layer.1.output.dense.bias"][3] = float("nan")
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ConfigError, match=r"encoder\.layer\.1\.output\.dense\.bias has numbers that are not finite"):
        read_pretrained(folder)
