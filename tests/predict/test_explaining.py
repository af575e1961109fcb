"""What a text's words are worth to a label."""

import json

import numpy as np
import pytest

from laconic.data.formats.entries import Entry
from laconic.data.text import Splitter, word_table
from laconic.data.vocabulary import Vocabulary, VocabularyConfig
from laconic.packed.kept_texts import NearText
from laconic.packed.tokenizer import Reader
from laconic.predict.explain import Explained, WordContribution, word_contributions
from laconic.predict.output import Answered, json_line
from laconic.predict.prediction import Prediction

WORDS = ["red", "green", "blue"]


@pytest.fixture
def reader() -> Reader:
    splitter = Splitter(stop_words=False)
    return Reader(splitter, Vocabulary.of(word_table([" ".join(WORDS)], splitter), VocabularyConfig()))


def worth(reader: Reader, values):
    """A score that is the sum of what a text's words are worth to each label."""
    known = {int(reader.read([word]).ids[0]): place for place, word in enumerate(WORDS)}

    def score(texts, labels):
        ends = zip(texts.starts[:-1], texts.starts[1:], strict=True)
        rows = [[known[int(id)] for id in texts.ids[first:last] if int(id) in known] for first, last in ends]
        return np.array(
            [[sum(values[label][word] for word in row) for label in labels[0]] for row in rows], dtype=float
        )

    return score


def test_a_word_is_worth_what_its_label_loses_without_it(reader):
    values = {0: [0.5, 0.1, -0.2], 7: [0.0, 0.3, 0.4]}
    found = word_contributions(reader, worth(reader, values), "red green blue", np.array([0, 7]))
    assert found[0] == [("red", pytest.approx(0.5)), ("green", pytest.approx(0.1)), ("blue", pytest.approx(-0.2))]
    assert [word for word, _ in found[1]] == ["blue", "green", "red"]


def test_a_word_that_stands_twice_is_left_out_twice_and_told_once(reader):
    ((only,), *_) = [word_contributions(reader, worth(reader, {0: [0.5, 0, 0]}), "red red", np.array([0]))[0]]
    assert only == ("red", pytest.approx(1.0))


def test_a_text_without_words_has_nothing_to_tell(reader):
    assert word_contributions(reader, worth(reader, {0: [1, 1, 1]}), "  ", np.array([0])) == [[]]


def test_an_explained_answer_is_written_with_its_words_and_the_texts_near_it():
    told = [
        Explained("game", 0.5, [WordContribution("play", 0.25)], [NearText("plây", 0.75)]),
        Explained("toy", 0.25, [WordContribution("play", 0.125)]),
        Prediction("tool", 0.1),
    ]
    line = json.loads(json_line(Answered(Entry("play it", {}), told, 1)))
    assert line["predictions"] == [
        {
            "label": "game",
            "score": 0.5,
            "words": [{"word": "play", "share": 0.25}],
            "texts": [{"text": "plây", "similarity": 0.75}],
        },
        {"label": "toy", "score": 0.25, "words": [{"word": "play", "share": 0.125}]},
        {"label": "tool", "score": 0.1},
    ]


def test_of_a_long_text_the_first_words_are_explained(reader, caplog):
    asked = []

    def score(texts, labels):
        asked.append(len(texts.ids))
        return np.zeros(labels.shape)

    text = " ".join(f"word{number}" for number in range(20_000))
    with caplog.at_level("WARNING"):
        (found,) = word_contributions(reader, score, text, np.array([0]))
    assert [word for word, _ in found] == [f"word{number}" for number in range(5)]
    assert "20000 different words, of which the first 5 are explained" in caplog.text
    assert sum(asked) <= 120_000
