"""From a text to its words."""

from __future__ import annotations

import re
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.data.stems import stemmer_of
from laconic.data.text import STOP_WORDS, Pieces, Splitter, clean, word_table
from laconic.errors import ConfigError

ANY_TEXT = st.text(max_size=40)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The QUICK brown fox", ["quick", "brown", "fox"]),  # lower-cased first: "The" is a stop word too
        ("snake_case_name", ["snake", "case", "name"]),
        ("C++, C# and F#!", ["c++", "c#", "f#"]),
        ("U.S.A. news e.g. Node.js", ["usa", "news", "eg", "nodejs"]),
        ("version 2.10. 3D 128GB 1.5mm", ["version", "2.10", "3", "d", "128", "gb", "1.5", "mm"]),
        ("the cat's students' books", ["cat", "students", "books"]),
        ("we've they'll I'd don't", ["d"]),
        ("rock 'n' roll", ["rock", "n", "roll"]),
        ("O’Hara O‘Hara O`Hara O´Hara OʼHara O＇Hara", ["o'hara"] * 6),
        ("Größe façade naïve Ёлка", ["größe", "façade", "naïve", "ёлка"]),
        ("हिन्दी में", ["हिन्दी", "में"]),  # vowel signs are marks, not letters
        ("日本語 テキスト", ["日本語", "テキスト"]),
        ("ﬁne ① １２", ["fine", "1", "12"]),  # compatibility forms are the plain ones
        ("Cafe\u0301", ["café"]),
        ("LEGO™ Duplo®", ["lego", "duplo"]),
        ("I ❤️ NY ☂️", ["ny"]),  # an emoji leaves nothing, not even its variation selector
        ("soft\u00adhyphen می\u200cخواهم zero\u200bwidth", ["softhyphen", "میخواهم", "zero", "width"]),
        ("a ¨ b", ["b"]),  # a spacing accent is a sign; normalised it would be a mark
    ],
)
def test_cleaning(text: str, words: list[str]) -> None:
    assert Splitter().words(text) == words


def test_a_text_of_stop_words_keeps_them() -> None:
    assert Splitter().words("To be or not to be") == ["to", "be", "or", "not", "to", "be"]


def test_a_text_of_signs_keeps_its_raw_words() -> None:
    assert Splitter().words("!!! ???") == ["!!!", "???"]


@pytest.mark.parametrize("text", ["", "   ", "\t\n\u2003"])
def test_a_blank_text_has_no_word(text: str) -> None:
    assert Splitter().words(text) == []


def test_stop_words_stay_where_they_are_asked_to() -> None:
    assert Splitter(stop_words=False).words("The end of it") == ["the", "end", "of", "it"]


def test_every_stop_word_is_a_word_that_cleaning_can_leave() -> None:
    # Otherwise it would never be dropped. A contraction comes out whole ("don't") or in parts that are stop words.
    assert [word for word in STOP_WORDS if clean(word) != [word]] == []


def test_a_pattern_cuts_the_lower_cased_text() -> None:
    splitter = Splitter(pattern=r"(?u)\b\w\w+\b")
    assert splitter.words("The C-3PO's of A_b") == ["3po", "a_b"]
    assert splitter.words("? !") == ["?", "!"]  # no match: the raw words


def test_a_match_with_blanks_in_it_is_several_words() -> None:
    assert Splitter(pattern=r"new york|\w+").words("in New York now") == ["new", "york", "now"]


@pytest.mark.parametrize("pattern", ["(", "[a", "a{99999999999999999999}", "(" * 5000])
def test_a_pattern_that_is_no_regular_expression_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"text\.pattern must be a regular expression, but '"):
        Splitter(pattern=pattern)


@given(text=ANY_TEXT, stop_words=st.booleans(), pattern=st.sampled_from(["", r"\w+", r"\S+", "."]))
def test_words_are_lower_case_without_blanks_and_there_is_one_unless_the_text_is_blank(
    text: str, stop_words: bool, pattern: str
) -> None:
    words = Splitter(stop_words=stop_words, pattern=pattern).words(text)
    assert bool(words) == bool(text.split())
    for word in words:
        assert word.split() == [word]
        assert word == word.lower()


@given(text=ANY_TEXT)
def test_a_cleaned_word_has_a_letter_or_a_digit_and_no_other_sign_than_four(text: str) -> None:
    for word in clean(text):
        assert re.search(r"\w", word)
        assert not re.search(r"[!\"$%&()*,/:;<=>?@\[\\\]^_`{|}~-]", word)


@given(texts=st.lists(st.text("ab c.,THE", max_size=12), max_size=6))
def test_a_table_holds_the_words_of_every_text_in_their_order(texts: list[str]) -> None:
    splitter = Splitter()
    table = word_table(texts, splitter)
    rows = [[table.words[id] for id in table.ids[a:b]] for a, b in pairwise(table.starts)]
    assert rows == [splitter.words(text) for text in texts]
    assert len(set(table.words)) == len(table.words)
    np.testing.assert_array_equal(table.lengths, [len(row) for row in rows])


def test_words_are_stemmed_by_the_rules_of_their_language() -> None:
    pytest.importorskip("snowballstemmer")
    assert Splitter(language="fi").words("talossa talot taloissa") == ["talo", "talo", "talo"]
    assert Splitter(language="de").words("Häuser Haus") == ["haus", "haus"]
    assert Splitter(language="en").words("the running runs") == ["run", "run"]
    assert Splitter().words("running runs") == ["running", "runs"]


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"text\.language must be .*fi.*, but is 'xx'"):
        Splitter(language="xx")


def test_stemming_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    stemmer_of.cache_clear()
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    with pytest.raises(ConfigError, match=r"text\.language=sv needs snowballstemmer.*\[languages\]"):
        Splitter(language="sv").words("bil")


_SPACED = st.text(st.sampled_from("aAsßΣς.'’`+#-_ \t\x1c\x85\u00a0\u3000\u200b\u00ad´™é\u0301ﬁ12d日한"), max_size=20)
_SPLITTERS = [
    Splitter(),
    Splitter(stop_words=False),
    Splitter(language="fi"),
    Splitter(pattern=r"\w+"),
    Splitter(rules="bert"),
]


@pytest.mark.parametrize("splitter", _SPLITTERS, ids=str)
@given(texts=st.lists(st.one_of(_SPACED, st.sampled_from(["To be", "the cat's", "!!! ???", ""])), max_size=8))
def test_a_table_has_the_words_of_each_text_though_it_cleans_each_piece_once(
    splitter: Splitter, texts: list[str]
) -> None:
    pieces = Pieces(splitter)
    for some in (texts, texts[::-1]):  # the second table finds most pieces cleaned
        table = word_table(some, splitter, pieces)
        rows = np.split(table.ids, table.starts[1:-1]) if some else []
        assert [[table.words[number] for number in row] for row in rows] == [splitter.words(text) for text in some]
