"""From a corpus to inputs."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus, Labels, Split, pair_matrix
from laconic.data.prepare import Prepared, input_rows, label_texts, prepare, with_vectors
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import DataError
from laconic.types import FIRST_WORD
from tests.planted import planted_texts, planted_vectors


def features_of(rows: list[list[float]]) -> csr_array:
    return csr_array(np.array(rows, dtype=np.float32))


def corpus_of_features(features: csr_array, labels: Labels | None = None) -> Corpus:
    truth = features_of([[1, 0]] * features.shape[0])
    return Corpus(
        splits={"train": Split(labels=truth, features=features)},
        labels=labels or Labels(names=["a", "b"]),
        source="features",
    )


def test_the_vocabulary_is_that_of_training_texts_and_label_texts() -> None:
    corpus = planted_texts(num_labels=3, num_texts=20)
    unseen = replace(corpus.split("test"), texts=["onlyintest"] * len(corpus.split("test")))
    labels = replace(corpus.labels, texts=["onlyinlabels", "", ""])
    prepared = prepare(
        replace(corpus, splits=corpus.splits | {"test": unseen}, labels=labels), Splitter(), VocabularyConfig()
    )
    assert prepared.tokenizer is not None
    words = set(prepared.tokenizer.vocabulary.words)
    assert "onlyinlabels" in words
    assert "onlyintest" not in words
    assert {word for text in corpus.split("train").texts or () for word in text.split()} <= words


def test_every_text_and_every_label_has_its_row() -> None:
    corpus = planted_texts(num_labels=5, num_texts=30, with_label_texts=True)
    train = replace(corpus.split("train"), weights=np.arange(30, dtype=np.float32))
    data, tokenizer = prepare(replace(corpus, splits={"train": train}), Splitter(), VocabularyConfig())
    assert tokenizer is not None
    assert data.inputs.shape == (30, tokenizer.vocabulary.num_ids)
    assert data.label_inputs is not None
    assert data.label_inputs.shape == (5, tokenizer.vocabulary.num_ids)
    assert data.weights is train.weights
    np.testing.assert_array_equal(data.label_counts, (train.labels.toarray() > 0).sum(axis=0))
    test_rows = input_rows(corpus.split("test"), tokenizer)
    assert test_rows.shape == (len(corpus.split("test")), tokenizer.vocabulary.num_ids)


@pytest.mark.parametrize(
    ("labels", "texts"),
    [
        (Labels(names=["red fruit", "sky"]), ["red fruit", "sky"]),
        (Labels(names=["red", "sky"], texts=["an apple", ""]), ["red an apple", "sky "]),
        (Labels(names=["B0001", "B0002"], texts=["an apple", "blue"]), ["an apple", "blue"]),
        (Labels(names=["17", "http://x.org/sky", "Q42"]), None),
        (Labels(names=["17", "18", "sky"], texts=["a", "b", "c"]), ["a", "b", "c"]),  # most names are codes
        (Labels(names=["Ёлка", "日本語"]), ["Ёлка", "日本語"]),
    ],
)
def test_a_name_that_says_something_is_part_of_the_label_s_text(labels: Labels, texts: list[str] | None) -> None:
    assert label_texts(labels) == texts


def test_sparse_features_become_tokens_of_length_one() -> None:
    features = features_of([[3, 0, 4], [0, 0, 0], [0, -2, 0]])
    data, tokenizer = prepare(
        corpus_of_features(features, Labels(names=["a", "b"], features=features[:2])), Splitter(), VocabularyConfig()
    )
    assert tokenizer is None
    assert isinstance(data.inputs, csr_array)
    assert data.inputs.shape == (3, 3 + FIRST_WORD)
    expected = [[0.6, 0, 0.8], [0, 0, 0], [0, -1, 0]]
    np.testing.assert_allclose(data.inputs.toarray()[:, FIRST_WORD:], expected, rtol=1e-6)
    assert data.label_inputs is not None
    np.testing.assert_allclose(data.label_inputs.toarray()[:, FIRST_WORD:], expected[:2], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e30])
def test_features_of_any_size_have_length_one(scale: float) -> None:
    data = prepare(corpus_of_features(features_of([[3 * scale, 4 * scale]])), Splitter(), VocabularyConfig()).data
    assert isinstance(data.inputs, csr_array)
    np.testing.assert_allclose(data.inputs.toarray()[0, FIRST_WORD:], [0.6, 0.8], rtol=1e-2)


def test_dense_features_stay_as_they_are() -> None:
    corpus = planted_vectors()
    data, tokenizer = prepare(corpus, Splitter(), VocabularyConfig())
    assert tokenizer is None
    assert data.inputs is corpus.split("train").features
    assert data.label_inputs is None


def test_data_without_what_the_model_reads_is_refused() -> None:
    texts, vectors = planted_texts(num_texts=12), planted_vectors(num_texts=12)
    tokenizer = prepare(texts, Splitter(), VocabularyConfig()).tokenizer
    with pytest.raises(DataError, match="the model reads texts, but this data has none"):
        input_rows(vectors.split("train"), tokenizer)
    with pytest.raises(DataError, match="features are needed here, but this data has none"):
        input_rows(texts.split("train"), None)


def test_one_file_is_prepared_whole() -> None:
    corpus = planted_texts(num_texts=12)
    single = replace(corpus, splits={"all": corpus.split("train")})
    assert len(prepare(single, Splitter(), VocabularyConfig()).data) == 12


def test_a_pair_to_leave_out_is_not_taught_even_where_it_is_true() -> None:
    corpus = planted_texts(num_labels=3, num_texts=20)
    split = corpus.split("train")
    first = pair_matrix([(0, int(split.labels[[0]].indices[0])), (1, 0), (1, 1), (1, 2)], split.labels.shape)
    left_out = replace(corpus, splits=corpus.splits | {"train": replace(split, leave_out=first)})
    data = prepare(left_out, Splitter(), VocabularyConfig()).data
    assert not data.labels.multiply(first).nnz
    assert data.labels[2:].nnz == split.labels[2:].nnz
    assert data.labels.nnz < split.labels.nnz


def of_features(names: list[str] | None) -> tuple[Prepared, Corpus]:
    corpus = replace(corpus_of_features(features_of([[1, 2, 0], [0, 3, 4]])), feature_names=names)
    return prepare(corpus, Splitter(), VocabularyConfig()), corpus


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    (tmp_path / "vectors.txt").write_text("fig 5 6\nthe 9 9\npear 7 8\n")
    return tmp_path / "vectors.txt"


def test_vectors_start_the_features_that_are_named_like_words(vectors: Path, caplog: pytest.LogCaptureFixture) -> None:
    prepared, corpus = of_features(["pear", "fig", "x1"])
    with caplog.at_level(logging.INFO):
        found = with_vectors(prepared, corpus, vectors).word_vectors
    assert found is not None
    start = found.start(2, seed=0)
    assert start.shape == (prepared.data.inputs.shape[1], 2)  # a row for each token that the features became
    np.testing.assert_array_equal(start[FIRST_WORD : FIRST_WORD + 2], [[7, 8], [5, 6]])
    assert "vectors.txt: 66.7 % of the features have a vector, 75.0 % of their occurrences" in caplog.text


def test_vectors_for_features_without_names_are_refused(vectors: Path) -> None:
    with pytest.raises(DataError, match=r"needs the names of the feature columns, but features has none: put Xf\.txt"):
        with_vectors(*of_features(None), vectors)
    with pytest.raises(DataError, match="features names 2 features, but has 3"):
        with_vectors(*of_features(["pear", "fig"]), vectors)
    corpus = replace(planted_vectors(), feature_names=["pear"])
    with pytest.raises(DataError, match="planted has dense features"):
        with_vectors(prepare(corpus, Splitter(), VocabularyConfig()), corpus, vectors)
