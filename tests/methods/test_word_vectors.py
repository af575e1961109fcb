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


def test_vectors_are_as_far_apart_as_the_transformers_own(tmp_path: Path) -> None:
    encoder, words = read_pretrained(tiny_transformer(tmp_path / "tiny")), words_of(CORPUS)
    found = distilled_vectors(encoder, words, 99, CPU)
    assert found.shape == (len(words.words), encoder.dim)
    module = TransformerEncoder(num_ids=len(encoder.words) + 2, length=16, embedding=32, layers=2, heads=4, inner=48)
    module.load(encoder.weights)
    tokenizer = Tokenizer.of_pretrained(words.words, Splitter(rules="bert", stop_words=False), encoder)
    with torch.no_grad():
        own = torch.cat([module.eval()(tokenizer.tokens([word])) for word in words.words])
    weights = 1e-3 / (1e-3 + words.text_counts / words.text_counts.sum())
    plain = torch.from_numpy(found / weights[:, None]).float()
    torch.testing.assert_close(torch.cdist(plain, plain), torch.cdist(own, own), atol=2e-3, rtol=1e-3)


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
    write_vectors(
        tmp_path / "v", words.words, distilled_vectors(read_pretrained(tiny_transformer(tmp_path / "t")), words, 5, CPU)
    )
    assert read_vectors(tmp_path / "v", words).coverage == 1
    assert np.isfinite(read_vectors(tmp_path / "v", words).vectors).all()


def test_features_have_no_words() -> None:
    with pytest.raises(DataError, match="it has features instead of texts"):
        words_of(planted_vectors())
