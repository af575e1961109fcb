"""Word vectors as GloVe and fastText write them."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from laconic.data.text import Splitter, word_table
from laconic.data.vectors import (
    SPREAD,
    narrowed,
    permuted,
    random_start,
    read_vectors,
    spellings_of_feature,
    write_vectors,
)
from laconic.data.vocabulary import Vocabulary, VocabularyConfig
from laconic.errors import ConfigError, DataError
from laconic.types import FIRST_WORD, PAD, UNKNOWN
from tests.tiny_transformer import PIECES, tokenizer_json
from tests.variants import examples

VOCABULARY = Vocabulary.of(
    word_table(["pear fig", "pear apple", "pear fig kiwi"], Splitter()), VocabularyConfig()
)  # pear, fig, apple, kiwi
GLOVE = "fig 0.5 -1 2e-1\nthe 9 9 9\npear 1 2 3\n"
FASTTEXT = "3 3\n" + GLOVE.replace("\n", " \n")  # a header, and a blank at the end of each line


def written(folder: Path, data: bytes | str) -> Path:
    path = folder / "vectors.txt"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize("data", [GLOVE, FASTTEXT, GLOVE.rstrip("\n"), GLOVE.replace("\n", "\r\n")])
@pytest.mark.parametrize("pack", [str.encode, lambda data: gzip.compress(data.encode())])
def test_glove_and_fasttext_plain_or_packed_are_read_alike(data: str, pack, folder: Path) -> None:
    found = read_vectors(written(folder, pack(data)), VOCABULARY)
    assert found.found.tolist() == [True, True, False, False]
    np.testing.assert_allclose(found.vectors, [[1, 2, 3], [0.5, -1, 0.2], [0, 0, 0], [0, 0, 0]])


def test_coverage_is_the_share_of_words_and_of_their_uses(folder: Path) -> None:
    found = read_vectors(written(folder, GLOVE), VOCABULARY)
    assert found.coverage == 2 / 4
    assert found.weighted_coverage == pytest.approx((3 + 2) / (3 + 2 + 1 + 1))
    nothing = read_vectors(written(folder, "the 9 9 9\n"), VOCABULARY)
    assert (nothing.coverage, nothing.weighted_coverage) == (0, 0)


def test_coverage_of_no_words_is_zero(folder: Path) -> None:
    empty = Vocabulary.of(word_table([], Splitter()), VocabularyConfig())
    found = read_vectors(written(folder, GLOVE), empty)
    assert (found.coverage, found.weighted_coverage) == (0, 0)


def test_vectors_narrower_than_the_model_are_filled_up_at_random(folder: Path) -> None:
    start = read_vectors(written(folder, GLOVE), VOCABULARY).start(5, seed=1)
    rest = random_start(VOCABULARY, 5, seed=1)
    assert start.shape == (VOCABULARY.num_ids, 5)
    np.testing.assert_allclose(start[FIRST_WORD : FIRST_WORD + 2, :3], [[1, 2, 3], [0.5, -1, 0.2]])
    np.testing.assert_array_equal(start[FIRST_WORD : FIRST_WORD + 2, 3:], rest[FIRST_WORD : FIRST_WORD + 2, 3:])
    np.testing.assert_array_equal(start[FIRST_WORD + 2 :], rest[FIRST_WORD + 2 :])


def test_vectors_wider_than_the_model_are_narrowed_to_their_principal_components(folder: Path) -> None:
    start = read_vectors(written(folder, GLOVE), VOCABULARY).start(2, seed=1)
    found = start[FIRST_WORD : FIRST_WORD + 2]
    # Two points lie on one line, so that the first component has all of their distance.
    np.testing.assert_allclose(np.abs(found[0] - found[1]), [np.linalg.norm([0.5, 3, 2.8]), 0], atol=1e-5)
    np.testing.assert_array_equal(start[FIRST_WORD + 2 :], random_start(VOCABULARY, 2, seed=1)[FIRST_WORD + 2 :])


def test_narrowed_vectors_are_those_of_a_singular_value_decomposition() -> None:
    vectors = np.random.default_rng(0).normal(size=(30, 7)).astype(np.float32)
    left, sizes, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(np.abs(narrowed(vectors, 3)), np.abs(left * sizes)[:, :3], atol=1e-4)


def test_written_vectors_are_read_again(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(len(VOCABULARY.words), 4)).astype(np.float32)
    write_vectors(tmp_path / "words.vec", VOCABULARY.words, vectors)
    found = read_vectors(tmp_path / "words.vec", VOCABULARY)
    assert found.coverage == 1
    np.testing.assert_allclose(found.vectors, vectors, rtol=1e-4)


def test_a_random_start_is_the_seed_s_alone_with_padding_at_zero() -> None:
    start = random_start(VOCABULARY, 50, seed=3)
    np.testing.assert_array_equal(start, random_start(VOCABULARY, 50, seed=3))
    assert (start != random_start(VOCABULARY, 50, seed=4))[UNKNOWN:].any()
    assert (start[PAD] == 0).all()
    assert 0.9 * SPREAD < np.abs(start[UNKNOWN:]).max() <= SPREAD


def test_permuted_vectors_have_their_columns_in_another_order() -> None:
    start = random_start(VOCABULARY, 50, seed=3)
    other = permuted(start, seed=1)
    order = [int(np.flatnonzero((start == column[:, None]).all(axis=0))[0]) for column in other.T]
    assert sorted(order) == list(range(50)) != order
    np.testing.assert_array_equal(other, permuted(start, seed=1))
    assert (other != permuted(start, seed=2)).any()
    np.testing.assert_array_equal(start, random_start(VOCABULARY, 50, seed=3))


def test_of_two_lines_for_a_word_the_first_counts(folder: Path) -> None:
    found = read_vectors(written(folder, "fig 1 2\nfig 3 4\n"), VOCABULARY)
    assert found.vectors[1].tolist() == [1, 2]


def test_a_word_may_have_blanks_in_it(folder: Path) -> None:
    found = read_vectors(written(folder, "fig 1 2\n. . . 3 4\nto\u00a0do 5 6\nat name@domain.com 7 8\n"), VOCABULARY)
    assert found.vectors[1].tolist() == [1, 2]


def test_a_header_may_announce_vectors_of_one_number(folder: Path) -> None:
    path = written(folder, "2 1\nfig 7\npear 8\n")
    assert read_vectors(path, VOCABULARY).vectors[:2].tolist() == [[8], [7]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", r"vectors\.txt: the file is empty"),
        ("fig\n", r"vectors\.txt: a word and 1 numbers are needed, .*'fig'"),
        ("fig\t1\t2\n", r"separated by spaces, but the first such line is 'fig\\\\t1\\\\t2'"),
        ("fig 1 2\npear 3\n", r"vectors\.txt:2: 1 numbers, where the first vector has 2; cut off in the middle\?"),
        ("fig 1 2\npear 3 x\n", r":2: not a number \(.*'x'\); is this a file of word vectors"),
        ("fig 1 2\npear 3 nan\n", r":2: a number is infinite or NaN; take the line out"),
        ("fig 1 2\npear 3 1e39\n", r":2: a number is infinite or NaN"),
        ("3 2\nfig 1 2\npear 3 4\n", r"announces 3 vectors, but there are 2; is it cut off\?"),
        ("1 2\nfig 1 2\npear 3 4\n", r"announces 1 vectors, but there are 2"),
        ("2 3\nfig 1 2\npear 3 4\n", r"a word and 3 numbers are needed, .* first such line is 'fig 1 2'"),
        ("2 99999999999999\nfig 1 2\n", r"a word and 99,999,999,999,999 numbers are needed"),
        ("2 0\nfig\n", r"a word and 1 numbers are needed"),
        ("2 300\n", r"a word and 300 numbers are needed, .* first such line is ''"),
        (b"fig 1 2\np\xe9ar 3 4\n", r":2: byte 2 of the line is not UTF-8"),
        (gzip.compress(FASTTEXT.encode(), mtime=0)[:-12], r"vectors\.txt: the gzip data is cut off or damaged"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(data: bytes | str, message: str, folder: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_vectors(written(folder, data), VOCABULARY)


@examples(60)
@given(data=st.binary(max_size=60) | st.text("fig pear 0123456789.-e\n", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes, folder: Path) -> None:
    with suppress(DataError):
        found = read_vectors(written(folder, data), VOCABULARY)
        assert np.isfinite(found.vectors).all()


def named(*names: str) -> Vocabulary:
    return Vocabulary(words=names, text_counts=np.arange(1, len(names) + 1), num_texts=9)


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        ("caf\u00e9", "caf\u00e9"),  # latin-1, as the repository's files are read
        ("caf\u00c3\u00a9", "caf\u00e9"),  # the bytes were UTF-8
        ("\u00e2\u0096\u0081fig", "fig"),  # a piece that begins a word, in UTF-8
        ("\u0120fig", "fig"),
        ("Fig", "fig"),
    ],
)
def test_a_feature_is_found_however_its_name_is_written(name: str, spelling: str, folder: Path) -> None:
    found = read_vectors(written(folder, f"{spelling} 1 2\n"), named(name, "other"), spellings_of_feature)
    assert found.found.tolist() == [True, False]
    np.testing.assert_array_equal(found.vectors, [[1, 2], [0, 0]])


def test_a_piece_from_inside_a_word_is_no_word(folder: Path) -> None:
    assert not read_vectors(written(folder, "ing 1 2\n"), named("##ing"), spellings_of_feature).found.any()


def test_the_best_spelling_counts_whatever_the_order_of_lines(folder: Path) -> None:
    for lines in ("Fig 1\nfig 2\nFig 3\n", "fig 2\nFig 1\nFig 3\n"):
        found = read_vectors(written(folder, lines), named("Fig", "fig", "Fig"), spellings_of_feature)
        np.testing.assert_array_equal(found.vectors, [[1], [2], [1]])


def tiny_table(folder: Path, **more: Tensor) -> Tensor:
    """Write a folder of static vectors over the pieces of the tiny transformer, and return them."""
    folder.mkdir()
    table = torch.randn(len(PIECES), 6, generator=torch.Generator().manual_seed(0))
    save_file({"embeddings": table, **more}, folder / "model.safetensors")
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer_json(), "post_processor": None}))
    return table


WORDS = Vocabulary.of(word_table(["bace fodi", "xyz bace"], Splitter()), VocabularyConfig())


def test_a_word_of_a_folder_has_the_mean_vector_of_its_pieces(tmp_path: Path) -> None:
    table = tiny_table(tmp_path / "static")
    found = read_vectors(tmp_path / "static", WORDS)
    of = dict(zip(WORDS.words, found.vectors, strict=True))
    pieces = [PIECES.index("ba"), PIECES.index("##ce")]
    np.testing.assert_allclose(of["bace"], table[pieces].mean(0), rtol=1e-5)
    assert not found.found[list(WORDS.words).index("xyz")]


def test_weights_and_rows_of_a_folder_are_used(tmp_path: Path) -> None:
    weights, mapping = torch.arange(len(PIECES)) / 7, torch.arange(len(PIECES)).flip(0)
    table = tiny_table(tmp_path / "static", weights=weights, mapping=mapping)
    of = dict(zip(WORDS.words, read_vectors(tmp_path / "static", WORDS).vectors, strict=True))
    pieces = torch.tensor([PIECES.index("ba"), PIECES.index("##ce")])
    np.testing.assert_allclose(of["bace"], (table[mapping[pieces]] * weights[pieces, None]).mean(0), rtol=1e-5)


def test_another_tokenizer_is_read_by_the_tokenizers_library(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    table = tiny_table(tmp_path / "static")
    own = tokenizers.Tokenizer(tokenizers.models.WordLevel({"bace": 3, "[UNK]": 1}, unk_token="[UNK]"))
    own.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    own.save(str(tmp_path / "static" / "tokenizer.json"))
    found = read_vectors(tmp_path / "static", WORDS)
    of = dict(zip(WORDS.words, found.vectors, strict=True))
    np.testing.assert_allclose(of["bace"], table[3], rtol=1e-5)
    assert found.found.sum() == 1


def test_a_folder_without_one_matrix_is_refused(tmp_path: Path) -> None:
    tiny_table(tmp_path / "static", others=torch.zeros(2, 2))
    with pytest.raises(ConfigError, match="static vectors are one matrix of finite numbers, but it has 2"):
        read_vectors(tmp_path / "static", WORDS)


def test_rows_outside_the_matrix_are_refused(tmp_path: Path) -> None:
    tiny_table(tmp_path / "static", mapping=torch.tensor([99]))
    with pytest.raises(ConfigError, match="mapping must be row numbers from 0 to"):
        read_vectors(tmp_path / "static", WORDS)
