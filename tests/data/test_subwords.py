"""Sub-words, against their definition written out plainly."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.data.subwords import grams_of, subwords_of
from laconic.data.text import Splitter, WordTable, word_table
from laconic.data.tokenizer import Tokenizer
from laconic.data.vocabulary import VocabularyConfig
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import write_model
from laconic.training.run import Run
from laconic.types import UNKNOWN
from tests.planted import planted_texts, words_of

BUCKETS = 32_768
ODD = st.text(st.characters(), max_size=12)  # lone surrogates, controls, marks and all
KNOWN = {  # gram: its hash; the numbers that models are trained on
    "<a>": 1385893847,
    "abc": 1099025070,
    "abcd": 3774705235,
    "<gr": 4136989765,
    "größ": 1112310233,
    "日本語": 481337432,
    "<c+": 2315083677,
    "\ud800a>": 3462678842,
    "a\U0001f600>": 297060554,
}


def plain_hash(gram: str) -> int:
    h = 0
    for character in gram:
        h = (h ^ ord(character)) * 2654435761 % 2**32
        h ^= h >> 15
    return h


def plain_buckets(word: str, buckets: int) -> list[int]:
    marked = f"<{word}>"
    grams = [marked[first : first + size] for first in range(len(marked)) for size in (3, 4)]
    return [plain_hash(gram) % buckets for place, gram in enumerate(grams) if len(gram) == 3 + place % 2]


def buckets_of(word: str, buckets: int = BUCKETS) -> list[int]:
    return grams_of([word], buckets).buckets.tolist()


def shared(word: str, other: str) -> float:
    """The share of a word's buckets that another word has too."""
    own, others = set(buckets_of(word)), set(buckets_of(other))
    return len(own & others) / len(own)


@pytest.mark.parametrize("gram", KNOWN, ids=ascii)
def test_a_hash_is_what_it_always_was(gram: str) -> None:
    assert plain_hash(gram) == KNOWN[gram]
    word = gram.removeprefix("<").removesuffix(">")
    assert KNOWN[gram] % BUCKETS in buckets_of(word)
    assert KNOWN[gram] % 1000 in buckets_of(word, 1000)


def test_the_grams_of_a_word_by_hand() -> None:
    grams = ["<ab", "<abc", "abc", "abc>", "bc>"]
    assert buckets_of("abc") == [plain_hash(gram) % BUCKETS for gram in grams]
    assert buckets_of("a") == [plain_hash("<a>") % BUCKETS]
    assert buckets_of("") == []


@given(words=st.lists(ODD, max_size=6), buckets=st.sampled_from([1, 2, 7, 1000, BUCKETS, 1 << 24]))
def test_the_grams_of_any_words_are_those_of_the_definition(words: list[str], buckets: int) -> None:
    starts, found = grams_of(words, buckets)
    assert starts.tolist() == np.cumsum([0, *(len(plain_buckets(word, buckets)) for word in words)]).tolist()
    assert found.tolist() == [bucket for word in words for bucket in plain_buckets(word, buckets)]


@given(texts=st.lists(st.lists(ODD.filter(bool), max_size=5), max_size=5), buckets=st.sampled_from([1, 5, BUCKETS]))
def test_a_text_has_the_buckets_of_its_words_each_once_with_their_counts(texts: list[list[str]], buckets: int) -> None:
    starts, found, counts = subwords_of(table_of(texts), buckets)
    assert len(starts) == len(texts) + 1
    for row, words in enumerate(texts):
        expected = Counter(bucket for word in words for bucket in plain_buckets(word, buckets))
        pairs = zip(found[starts[row] : starts[row + 1]], counts[starts[row] : starts[row + 1]], strict=True)
        assert list(pairs) == sorted(expected.items())


def table_of(texts: list[list[str]]) -> WordTable:
    words = sorted({word for text in texts for word in text})
    ids = [words.index(word) for text in texts for word in text]
    return WordTable(words, np.array(ids, dtype=np.int32), np.cumsum([0, *map(len, texts)]))


@pytest.mark.parametrize(
    ("right", "wrong"), [("extraordinary", "extrordinary"), ("headphones", "headfones"), ("keyboards", "keyboard")]
)
def test_a_misspelt_word_shares_most_buckets_and_another_word_hardly_any(right: str, wrong: str) -> None:
    assert shared(wrong, right) > 0.5
    assert shared("zucchini", right) < 0.1


@pytest.mark.parametrize("buckets", [1000, 4096, BUCKETS])
def test_grams_spread_over_the_buckets_as_evenly_as_by_chance(buckets: int) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz0123456789äößéèжщяшлюकतनم"
    grams = [a + b + c for a in letters for b in letters for c in letters]
    found = grams_of(grams, buckets).buckets.reshape(len(grams), 5)[:, 2]  # <ab <abc abc abc> bc>
    counts, expected = np.bincount(found, minlength=buckets), len(grams) / buckets
    deviation = ((counts - expected) ** 2 / expected).sum()  # chi-squared: as large as the buckets, ± √(2 buckets)
    assert deviation == pytest.approx(buckets, abs=6 * np.sqrt(2 * buckets))


@given(trained=st.lists(ODD, max_size=4), asked=st.lists(ODD, max_size=4), sublinear=st.booleans())
def test_any_text_becomes_a_row_of_length_one_or_of_nothing_known(
    trained: list[str], asked: list[str], sublinear: bool
) -> None:
    tokenizer = Tokenizer.of(trained, Splitter(), VocabularyConfig(subwords=50, sublinear=sublinear))
    rows = tokenizer.rows(asked)
    assert rows.shape == (len(asked), tokenizer.vocabulary.num_ids)
    rows.sum_duplicates()
    lengths = np.sqrt((rows.toarray() ** 2).sum(axis=1))
    assert np.minimum(abs(lengths - 1), lengths).max(initial=0) < 1e-5


def test_an_empty_text_has_no_sub_words() -> None:
    table = word_table(["", "pear", ""], Splitter())
    assert subwords_of(table, BUCKETS).starts.tolist() == [0, 0, 7, 7]
    assert subwords_of(word_table([], Splitter()), BUCKETS).starts.tolist() == [0]
    tokenizer = Tokenizer.of(["pear"], Splitter(), VocabularyConfig(subwords=10))
    assert tokenizer.tokens([""]).weights.tolist() == [[0]]


def test_a_text_of_misspelt_words_finds_its_label_by_their_sub_words(tmp_path: Path) -> None:
    corpus = planted_texts(with_label_texts=True)
    asked = {f"L{label}": " ".join(word[:-1] + "x" for word in words_of(label)) for label in range(12)}
    blind, seeing = (
        train_model(corpus, "nearest", config_of("nearest", {"vocabulary": settings}), Run.unkept())
        for settings in ({"sublinear": True}, {"sublinear": True, "subwords": BUCKETS})
    )
    vocabulary = seeing.vocabulary
    assert vocabulary is not None
    ids = Tokenizer(Splitter(), vocabulary).tokens(list(asked.values())).ids
    assert (ids[:, :3] == UNKNOWN).all()
    assert share_of_right_answers(Predictor(blind, "cpu"), asked) < 0.2
    assert share_of_right_answers(Predictor(seeing, "cpu"), asked) > 0.7
    write_model(seeing, tmp_path / "model")
    opened = Predictor.open(tmp_path / "model", device="cpu", verify=True)
    texts = list(asked.values())
    assert opened.predict(texts) == Predictor(seeing, "cpu").predict(texts)
    without = replace(vocabulary, subword_counts=np.zeros(0, dtype=np.int64))
    assert share_of_right_answers(Predictor(replace(seeing, vocabulary=without), "cpu"), asked) < 0.2


def share_of_right_answers(predictor: Predictor, asked: dict[str, str]) -> float:
    answers = predictor.predict(list(asked.values()), k=1)
    return float(np.mean([answer[0].label == label for answer, label in zip(answers, asked, strict=True)]))
