"""Words to ids, and their weights, against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from laconic.data.text import Splitter, word_table
from laconic.data.vocabulary import Vocabulary, VocabularyConfig, bags
from laconic.errors import ConfigError
from laconic.types import FIRST_WORD, UNKNOWN
from tests.planted import bags_in_full

BY_BLANKS = Splitter(stop_words=False, pattern=r"\S+")
WORDS = st.sampled_from("a b c d e f c++ größe x' z.z".split())
TEXTS = st.lists(st.lists(WORDS, max_size=8).map(" ".join), min_size=1, max_size=8)


def vocabulary_of(texts: list[str], **options: int | bool) -> Vocabulary:
    return Vocabulary.of(word_table(texts, BY_BLANKS), VocabularyConfig(**options))


@given(training=TEXTS, others=TEXTS, sublinear=st.booleans(), min_count=st.integers(1, 3))
def test_weights_equal_those_of_scikit_learn(
    training: list[str], others: list[str], sublinear: bool, min_count: int
) -> None:
    vocabulary = vocabulary_of(training, sublinear=sublinear, min_count=min_count)
    assume(vocabulary.words)  # scikit-learn refuses to have none
    reference = TfidfVectorizer(
        token_pattern=r"\S+", lowercase=False, sublinear_tf=sublinear, min_df=min_count, dtype=np.float64
    ).fit(training)
    assert set(reference.vocabulary_) == set(vocabulary.words)
    for texts in (training, others):  # the others have unknown words
        expected = np.zeros((len(texts), vocabulary.num_ids))
        expected[:, [vocabulary.ids[word] for word in reference.get_feature_names_out()]] = reference.transform(
            texts
        ).toarray()
        ours = bags(vocabulary.tokens(word_table(texts, BY_BLANKS)))
        np.testing.assert_allclose(ours.toarray(), expected, atol=1e-6)


@given(training=TEXTS, others=TEXTS, sublinear=st.booleans())
def test_the_weights_of_a_row_add_up_word_by_word_to_its_bag(
    training: list[str], others: list[str], sublinear: bool
) -> None:
    vocabulary = vocabulary_of(training, sublinear=sublinear)
    rows = vocabulary.tokens(word_table(others, BY_BLANKS))
    bag = bags(rows)
    np.testing.assert_allclose(bag.toarray(), bags_in_full(rows, vocabulary.num_ids), atol=1e-6)
    assert bag.has_canonical_format
    assert (bag.data > 0).all()
    lengths = np.sqrt((bag.toarray() ** 2).sum(axis=1))
    has_known_words = [any(word in vocabulary.ids for word in text.split()) for text in others]
    np.testing.assert_allclose(lengths, has_known_words, atol=1e-6)


@given(training=TEXTS, others=TEXTS)
def test_token_rows_keep_the_reading_order_and_the_place_of_unknown_words(
    training: list[str], others: list[str]
) -> None:
    vocabulary = vocabulary_of(training)
    rows = vocabulary.tokens(word_table(others, BY_BLANKS))
    known = dict(enumerate(vocabulary.words, FIRST_WORD))
    for row, text in enumerate(others):
        ids = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
        weights = rows.data[rows.indptr[row] : rows.indptr[row + 1]]
        assert [known.get(id, "?") for id in ids] == [
            word if word in vocabulary.words else "?" for word in text.split()
        ]
        assert ((ids == UNKNOWN) == (weights == 0)).all()


def test_bags_leave_the_rows_as_they_were() -> None:
    vocabulary = vocabulary_of(["b a b"])
    rows = vocabulary.tokens(word_table(["b a b ?"], BY_BLANKS))
    ids = rows.indices.copy()
    bags(rows)
    np.testing.assert_array_equal(rows.indices, ids)


def test_counting_leaves_the_table_as_it_was() -> None:
    table = word_table(["c b a c b"], BY_BLANKS)._replace(ids=np.array([2, 1, 0, 2, 1], dtype=np.int32))
    Vocabulary.of(table, VocabularyConfig())
    np.testing.assert_array_equal(table.ids, [2, 1, 0, 2, 1])


def test_words_are_ordered_by_the_texts_that_have_them_then_by_spelling() -> None:
    vocabulary = vocabulary_of(["pear fig fig fig", "pear apple", "pear fig", "date"])
    assert list(vocabulary.words) == ["pear", "fig", "apple", "date"]
    assert vocabulary.text_counts.tolist() == [3, 2, 1, 1]  # a text counts once, however often it has the word
    assert vocabulary.num_texts == 4
    assert vocabulary.ids["pear"] == FIRST_WORD


def test_rare_words_and_words_beyond_the_size_are_unknown() -> None:
    texts = ["pear fig", "pear fig", "pear apple", "date"]
    assert list(vocabulary_of(texts, min_count=2).words) == ["pear", "fig"]
    assert list(vocabulary_of(texts, size=3).words) == ["pear", "fig", "apple"]
    assert list(vocabulary_of(texts, min_count=2, size=1).words) == ["pear"]
    assert list(vocabulary_of(texts, min_count=9).words) == []


def test_a_word_weighs_by_hand_what_it_should() -> None:
    vocabulary = vocabulary_of(["pear fig", "pear"])
    # ln((1 + texts) / (1 + texts with the word)) + 1; padding and unknown words weigh nothing
    np.testing.assert_allclose(vocabulary.word_weights, [0, 0, 1, np.log(3 / 2) + 1], rtol=1e-6)


def test_without_any_words_every_word_is_unknown() -> None:
    vocabulary = vocabulary_of(["", " "])
    rows = vocabulary.tokens(word_table(["pear", ""], BY_BLANKS))
    assert (rows.indices.tolist(), rows.data.tolist(), rows.shape) == ([UNKNOWN], [0], (2, FIRST_WORD))


@pytest.mark.parametrize(("option", "value"), [("min_count", 0), ("size", -1)])
def test_an_option_outside_its_range_is_refused(option: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"vocabulary\.{option} must be .* or more, but is {value}"):
        VocabularyConfig(**{option: value})
