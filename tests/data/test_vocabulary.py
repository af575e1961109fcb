"""Words to ids, and their weights, against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer

from laconic.data.subwords import grams_of
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


@given(
    training=TEXTS,
    others=TEXTS,
    sublinear=st.booleans(),
    min_count=st.integers(1, 3),
    buckets=st.sampled_from([5, 999]),
)
def test_sub_words_weigh_in_as_scikit_learn_would_weigh_them_as_words(
    training: list[str], others: list[str], sublinear: bool, min_count: int, buckets: int
) -> None:
    def analyzer(text: str) -> list[str]:
        known = [word for word in text.split() if word in vocabulary.ids]
        return [*known, *(f"<{bucket}>" for word in text.split() for bucket in grams_of([word], buckets).buckets)]

    vocabulary = vocabulary_of(training, sublinear=sublinear, min_count=min_count, subwords=buckets)
    assume(any(text.strip() for text in training))  # scikit-learn refuses to have no words
    reference = TfidfVectorizer(analyzer=analyzer, sublinear_tf=sublinear, dtype=np.float64).fit(training)
    columns = vocabulary.ids | {f"<{bucket}>": vocabulary.num_ids - buckets + bucket for bucket in range(buckets)}
    for texts in (training, others):
        expected = np.zeros((len(texts), vocabulary.num_ids))
        expected[:, [columns[name] for name in reference.get_feature_names_out()]] = reference.transform(
            texts
        ).toarray()
        ours = bags(vocabulary.tokens(word_table(texts, BY_BLANKS)))
        np.testing.assert_allclose(ours.toarray(), expected, atol=1e-6)


@given(training=TEXTS, others=TEXTS, sublinear=st.booleans())
def test_words_keep_their_ids_and_come_first_in_reading_order_before_their_sub_words(
    training: list[str], others: list[str], sublinear: bool
) -> None:
    plain, with_subwords = (vocabulary_of(training, sublinear=sublinear, subwords=buckets) for buckets in (0, 99))
    assert with_subwords.words == plain.words
    assert with_subwords.num_ids == plain.num_ids + 99
    words, rows = (one.tokens(word_table(others, BY_BLANKS)) for one in (plain, with_subwords))
    for row, text in enumerate(others):
        ids = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
        length = len(text.split())
        assert ids[:length].tolist() == words.indices[words.indptr[row] : words.indptr[row + 1]].tolist()
        assert (ids[length:] >= plain.num_ids).all()
        assert ids[length:].tolist() == sorted(set(ids[length:].tolist()))


def test_an_unknown_word_still_has_its_sub_words() -> None:
    vocabulary = vocabulary_of(["strawberry jam"], subwords=32_768)
    rows = vocabulary.tokens(word_table(["strawbery"], BY_BLANKS))
    assert rows.indices[0] == UNKNOWN
    assert (rows.data > 0).sum() == 14  # of 17; the second r is missed by ery, bery and ery>
    np.testing.assert_allclose((rows.data**2).sum(), 1, rtol=1e-6)


def test_a_bucket_that_no_training_text_had_weighs_nothing() -> None:
    vocabulary = vocabulary_of(["fig"], subwords=32_768)
    assert (vocabulary.subword_counts.sum(), (vocabulary.subword_weights > 0).sum()) == (5, 5)
    rows = vocabulary.tokens(word_table(["zucchini"], BY_BLANKS))
    assert rows.data.tolist() == [0] * 16


@given(training=TEXTS, others=TEXTS, sublinear=st.booleans())
def test_without_sub_words_rows_are_what_they_were_before_there_were_any(
    training: list[str], others: list[str], sublinear: bool
) -> None:
    vocabulary, table = vocabulary_of(training, sublinear=sublinear), word_table(others, BY_BLANKS)
    ids = [vocabulary.ids.get(word, UNKNOWN) for text in others for word in text.split()]
    counts = np.array([text.split().count(word) for text in others for word in text.split()], dtype=np.float32)
    rows = csr_array((vocabulary.word_weights[ids], ids, table.starts), shape=(len(others), vocabulary.num_ids))
    if sublinear:
        rows.data *= (1 + np.log(counts)) / counts
    summed = bags(rows)
    norms = np.sqrt(summed.multiply(summed).sum(axis=1))
    rows.data /= np.repeat(np.where(norms == 0, 1, norms), table.lengths)
    ours = vocabulary.tokens(table)
    for part, expected in ((ours.data, rows.data), (ours.indices, rows.indices), (ours.indptr, rows.indptr)):
        np.testing.assert_array_equal(part, expected)


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
    table = word_table(["c b a c b", "a"], BY_BLANKS)._replace(ids=np.array([2, 1, 0, 2, 1, 0], dtype=np.int32))
    Vocabulary.of(table, VocabularyConfig())
    np.testing.assert_array_equal(table.ids, [2, 1, 0, 2, 1, 0])
    np.testing.assert_array_equal(table.starts, [0, 5, 6])


def test_a_sub_word_counts_once_in_a_text_however_often_words_repeat_it() -> None:
    vocabulary = vocabulary_of(["fig fig figs", "fig"], subwords=32_768)
    counts = vocabulary.subword_counts[grams_of(["figs"], 32_768).buckets]
    assert counts.tolist() == [2, 2, 2, 1, 1, 1, 1]  # <fi <fig fig figs igs igs> gs>


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


@pytest.mark.parametrize("subwords", [-1, 2**24 + 1])
def test_a_number_of_buckets_outside_its_range_is_refused(subwords: int) -> None:
    with pytest.raises(ConfigError, match=rf"vocabulary\.subwords must be 0 to 16,777,216, but is {subwords:,}"):
        VocabularyConfig(subwords=subwords)
