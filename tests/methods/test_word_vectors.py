"""Static vectors distilled from a transformer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from laconic.cli.main import app
from laconic.data.encoder_folder import read_pretrained
from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer
from laconic.data.vectors import read_vectors, write_vectors
from laconic.errors import DataError
from laconic.methods.word_vectors import distilled_vectors, words_of
from laconic.models.encoders import TransformerEncoder
from tests.planted import planted_texts, planted_vectors
from tests.tiny_transformer import tiny_transformer

CPU = torch.device("cpu")
CORPUS = planted_texts(num_labels=4, num_texts=40, with_label_texts=True)


def test_vectors_are_the_transformers_own_whitened(tmp_path: Path) -> None:
    encoder, words = read_pretrained(tiny_transformer(tmp_path / "tiny")), words_of(CORPUS).words
    found = distilled_vectors(encoder, words, 4, CPU)
    assert found.shape == (len(words), 4)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 3, rtol=1e-5)
    module = TransformerEncoder(num_ids=len(encoder.words) + 2, length=16, embedding=32, layers=2, heads=4, inner=48)
    module.load(encoder.weights)
    tokenizer = Tokenizer.of_pretrained(words, Splitter(rules="bert", stop_words=False), encoder)
    with torch.no_grad():
        own = torch.cat([module.eval()(tokenizer.tokens([word])) for word in words]).numpy()
    left = np.linalg.svd(own - own.mean(axis=0), full_matrices=False)[0][:, :4]  # columns of one length: white already
    expected = left / np.linalg.norm(left, axis=1, keepdims=True)
    np.testing.assert_allclose(found @ found.T / 9, expected @ expected.T, atol=1e-3)


def test_a_component_without_variance_is_no_number_too_large(tmp_path: Path) -> None:
    encoder = read_pretrained(tiny_transformer(tmp_path / "tiny"))
    found = distilled_vectors(encoder, words_of(CORPUS).words[:3], 99, CPU)  # three words vary in two directions
    assert found.shape == (3, encoder.dim)
    np.testing.assert_allclose(np.linalg.norm(found[:, :2], axis=1), 3, rtol=1e-2)


def test_the_command_writes_what_training_starts_from(tmp_path: Path) -> None:
    tiny_transformer(tmp_path / "tiny")
    (tmp_path / "data.csv").write_text("text,labels\nbace fodi,a\ndiba ce,b\nbace ce,a\n")
    arguments = [
        "distill-vectors",
        tmp_path / "tiny",
        "--words",
        tmp_path / "data.csv",
        "--out",
        tmp_path / "words.vec",
    ]
    shown = CliRunner().invoke(app, [*map(str, arguments), "--dim", "3", "--device", "cpu"], catch_exceptions=False)
    assert "words, vectors of 3 numbers" in shown.output
    (line, *_), words = (tmp_path / "words.vec").read_text().splitlines(), 4
    assert line == f"{words} 3"


def test_all_words_of_the_data_have_a_vector(tmp_path: Path) -> None:
    words = words_of(CORPUS)
    encoder = read_pretrained(tiny_transformer(tmp_path / "t"))
    write_vectors(tmp_path / "v", words.words, distilled_vectors(encoder, words.words, 5, CPU))
    assert read_vectors(tmp_path / "v", words).coverage == 1
    assert np.isfinite(read_vectors(tmp_path / "v", words).vectors).all()


def test_features_have_no_words() -> None:
    with pytest.raises(DataError, match="it has features instead of texts"):
        words_of(planted_vectors())
