import numpy as np
import pytest
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus, Labels, Split
from laconic.data.describe import describe


def corpus(train, test, labels):
    def split(rows):
        matrix = np.zeros((len(rows), len(labels)), dtype=np.float32)
        for row, (_, names) in enumerate(rows):
            matrix[row, [labels.index(name) for name in names]] = 1
        return Split(labels=csr_array(matrix), texts=[text for text, _ in rows])

    texts = ["a colour", "", "  "]
    return Corpus(
        splits={"train": split(train), "test": split(test)}, labels=Labels(names=labels, texts=texts), source="x"
    )


@pytest.fixture(scope="module")
def facts():
    return describe(
        corpus(
            train=[("red rose", "ab"), ("Red  ROSE", "a"), ("one two three four five", "a"), ("", "")],
            test=[("red rose", "b"), ("nine " * 9, "c"), ("nine", "c")],
            labels=["a", "b", "c"],
        ),
        length=3,
    )


def test_the_columns_of_the_papers_table(facts):
    train = facts.splits["train"]
    assert (train.texts, facts.splits["test"].texts, facts.labels.labels) == (4, 3, 3)
    assert train.words.vocabulary == 7  # red rose one two three four five
    assert train.labels_per_text == 1.0  # 4 pairs, 4 texts
    assert facts.labels.texts_per_label == pytest.approx(4 / 3)
    assert facts.labels.texts_per_label_all == pytest.approx(7 / 3)  # the paper counts test pairs too
    assert train.words.at_most_4 == 0.75
    assert train.words.at_most_8 == 1.0
    assert facts.splits["test"].words.at_most_8 == pytest.approx(2 / 3)


def test_texts_longer_than_the_sequence_are_cut(facts):
    assert facts.splits["train"].words.cut == 0.25


def test_duplicates_are_found_within_and_between_splits_whatever_their_case_and_spaces(facts):
    assert facts.splits["train"].repeated_texts == 1
    assert facts.splits["train"].also_in_training == 0
    assert facts.splits["test"].also_in_training == 1


def test_empty_texts_and_texts_without_labels_are_counted(facts):
    assert (facts.splits["train"].empty_texts, facts.splits["train"].without_labels) == (1, 1)


def test_empty_texts_are_no_duplicates_of_each_other():
    rows = [("", "a"), (" ", "a"), ("rose", "a"), ("Rose", "a")]
    splits = describe(corpus(train=rows, test=[("", "a"), ("ROSE", "a")], labels=["a"])).splits
    assert (splits["train"].empty_texts, splits["train"].repeated_texts) == (2, 1)
    assert splits["test"].also_in_training == 1


def test_labels_that_differ_in_case_or_spaces_alone_are_named():
    labels = ["Wheat", "rye", "wheat", "WHEAT ", "oats"]
    facts = describe(corpus(train=[("a", ["Wheat", "wheat"])], test=[], labels=labels)).labels
    assert facts.alike == 2
    assert facts.alike_examples == [["Wheat", "wheat"], ["Wheat", "WHEAT "]]


def test_labels_that_training_never_saw_are_counted_with_their_occurrences(facts):
    assert (facts.labels.unseen_in_training, facts.labels.unseen_occurrences) == (1, 2)
    assert facts.labels.without_training_text == 1


def test_label_frequencies(facts):
    assert facts.labels.frequency_quantiles["0%"] == 0  # c
    assert facts.labels.frequency_quantiles["50%"] == 1  # b
    assert facts.labels.frequency_quantiles["100%"] == 3  # a


def test_only_label_texts_that_say_something_count(facts):
    assert facts.labels.with_text == 1
