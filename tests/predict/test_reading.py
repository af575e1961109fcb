"""The quick reader against its plain twin, the tokenizer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer
from laconic.data.vocabulary import VocabularyConfig
from laconic.packed.tokenizer import Reader
from laconic.types import UNKNOWN
from tests.variants import examples, some_slow

WORDS = ["red", "rose", "the", "of", "C++", "größe", "日本語", "don't", "2.5mm", "!!!", "unheard", "\u00adx", "❤️"]
KNOWN = ["red rose of the C++", "the größe 日本語", "2.5mm red red", "!!! ???", "", "don't the"]
TEXT = st.one_of(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), st.text(max_size=30))
SPLITTERS = {
    "cleaned": Splitter(),
    "with stop words": Splitter(stop_words=False),
    "by a pattern": Splitter(pattern=r"\w+|\S"),
    "by a pattern that leaves most": Splitter(pattern="[a-m]+ ?[a-m]*", stop_words=False),
}
VOCABULARIES = {
    "all words": VocabularyConfig(),
    "sublinear": VocabularyConfig(sublinear=True),
    "few words": VocabularyConfig(size=2),
    "no words": VocabularyConfig(min_count=99),
    "sub-words": VocabularyConfig(subwords=50),
    "sublinear sub-words": VocabularyConfig(subwords=7, sublinear=True, min_count=2),
}


def tokenizer(splitter, vocabulary):
    return Tokenizer.of(KNOWN, SPLITTERS[splitter], VOCABULARIES[vocabulary])


def check(texts, one, tolerance=1e-6):
    read, rows = Reader(one.splitter, one.vocabulary).read(texts), one.rows(texts)
    assert (read.ids.dtype, read.weights.dtype, read.starts.dtype) == (np.int32, np.float32, np.int64)
    assert read.ids.tolist() == rows.indices.tolist()
    assert read.starts.tolist() == rows.indptr.tolist()
    np.testing.assert_allclose(read.weights, rows.data, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("splitter", some_slow(SPLITTERS, 2))
def test_texts_are_read_as_the_tokenizer_reads_them(splitter, vocabulary):
    one = tokenizer(splitter, vocabulary)

    @examples(40)
    @given(st.lists(TEXT, max_size=4))
    def agree(texts):
        check(texts, one)

    agree()


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_long_text_of_few_words_is_read_alike(vocabulary):
    # The tokenizer adds up a word's thousands in single precision.
    check(["red rose " * 2000 + "unheard", "日本語 " * 777], tokenizer("cleaned", vocabulary), tolerance=1e-5)


def test_a_text_of_unknown_words_weighs_nothing():
    one = tokenizer("cleaned", "all words")
    read = Reader(one.splitter, one.vocabulary).read(["xyzzy plugh", ""])
    assert (read.ids.tolist(), read.weights.tolist(), read.starts.tolist()) == ([UNKNOWN] * 2, [0, 0], [0, 2, 2])
