"""Words as pieces of a pre-trained encoder: what a text of words becomes, as rows and in the encoder itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from laconic.data.encoder_folder import Pretrained, read_pretrained
from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer, padded
from laconic.data.vocabulary import VocabularyConfig
from laconic.data.word_pieces import WordPieces
from laconic.models.encoders import PieceEncoder, TransformerEncoder
from laconic.types import FIRST_WORD, PAD, Tokens
from tests.planted import words_of
from tests.tiny_transformer import PIECES, tiny_transformer

TEXTS = [" ".join(words_of(14)), " ".join(words_of(2)), "", f"{words_of(13)[0]} qqq {words_of(1)[0]}"]
NUM_PIECES = FIRST_WORD + len(PIECES)


def both(folder: Path) -> tuple[Pretrained, Tokenizer, Tokenizer]:
    """Return the encoder, a tokenizer of words and one of the encoder's pieces."""
    encoder = read_pretrained(tiny_transformer(folder / "tiny"))
    splitter = Splitter(rules=encoder.rules, stop_words=False)
    words = Tokenizer.of(TEXTS, Splitter(stop_words=False), VocabularyConfig())
    return encoder, words, Tokenizer.of_pretrained(TEXTS, splitter, encoder)


def test_rows_of_words_become_the_rows_of_the_encoders_own_tokenizer(tmp_path: Path) -> None:
    encoder, words, pieces = both(tmp_path)
    found = WordPieces.of(words.vocabulary.words, encoder).cut(words.rows(TEXTS), NUM_PIECES)
    expected = pieces.rows(TEXTS)
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.data != 0, expected.data != 0)


def test_unknown_words_have_no_piece(tmp_path: Path) -> None:
    encoder, words, _ = both(tmp_path)
    table, known = WordPieces.of(words.vocabulary.words, encoder), " ".join(words_of(2))
    rows = words.rows([known, f"{known} neverseen"])
    found = table.cut(rows, NUM_PIECES)
    np.testing.assert_array_equal(found[[0]].indices, found[[1]].indices)


def test_the_encoder_reads_words_as_the_transformer_reads_their_pieces(tmp_path: Path) -> None:
    encoder, words, pieces = both(tmp_path)
    sizes = {"layers": encoder.layers, "heads": encoder.heads, "inner": encoder.inner}
    transformer = TransformerEncoder(num_ids=NUM_PIECES, length=20, embedding=encoder.dim, **sizes).eval()
    transformer.load(encoder.weights)
    table = WordPieces.of(words.vocabulary.words, encoder)
    over_words = PieceEncoder(transformer, *(torch.from_numpy(part) for part in table)).eval()
    rows = padded(words.rows(TEXTS))
    torch.testing.assert_close(over_words(rows), transformer(padded(pieces.rows(TEXTS))))
    wider = Tokens(*(torch.nn.functional.pad(part, (0, 3), value=PAD) for part in rows))
    torch.testing.assert_close(over_words(wider), over_words(rows))
    assert over_words(Tokens(rows.ids[:0], rows.weights[:0])).shape == (0, encoder.dim)
