"""Split a text into words.

Unlike the published InceptionXML code, texts are lower-cased before stop words are dropped (there, "The" survived),
letters of every script are kept with their marks (there, only ASCII's were), and so are + and # (C++, C#).
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import ClassVar, NamedTuple
from unicodedata import is_normalized

import numpy as np
from jaxtyping import Int

from laconic.config import AUTO, Choices, check_known
from laconic.data.bert_words import bert_words
from laconic.data.stems import LANGUAGES, stemmer_of
from laconic.errors import ConfigError

# English function words; "us", "may" and "let" are not among them, because US, May and to let are worth keeping.
STOP_WORDS = frozenset(
    """a about above after again against all also am an and any are aren't as at be because been before being
    below between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during
    each either few for from further had hadn't has hasn't have haven't having he her here hers herself him
    himself his how i if in into is isn't it its itself just ll me more most must mustn't my myself neither no nor
    not of off on once only onto or other our ours ourselves out over own re same shall shan't she should
    shouldn't so some such than that the their theirs them themselves then there these they this those through to
    too under until up ve very was wasn't we were weren't what when where which while who whom whose why will with
    won't would wouldn't you your yours yourself yourselves""".split()
)


@dataclass(frozen=True, kw_only=True)
class Splitter:
    """How a text is split into words: by our cleaning, by BERT's, or into the matches of a pattern."""

    choices: ClassVar[Choices] = {"rules": ("words", "bert", "bert-cased"), "language": (*LANGUAGES, AUTO)}

    stop_words: bool = True
    """Whether English function words such as "the" are left out."""
    pattern: str = ""
    """Regular expression; each match in the lower-cased text is a word. Empty: texts are split by `text.rules`."""
    rules: str = "words"
    """Rules by which texts are split: laconic's own, or BERT's, which keep signs; a pre-trained encoder brings its own.
    """

    language: str = ""
    """Language by whose rules words are stemmed, such as fi or de, so that a word's forms are one word (Snowball; needs
    the extra `languages`). auto: the language of most training texts, where there is one. Empty: words stay as they
    are.
    """

    def __post_init__(self) -> None:
        check_known(self, self.choices if self.language else {"rules": self.choices["rules"]}, "text.")
        try:
            re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigError(
                f"text.pattern must be a regular expression, but {self.pattern!r} is not: {error}"
            ) from None

    def words(self, text: str) -> list[str]:
        """Return the words in reading order. Text of stop words alone keeps them; of signs alone, its raw words."""
        cut = self._cut(text)
        return self._stemmed(self._kept(cut) or cut or text.lower().split())

    def goes_by_piece(self, text: str) -> bool:
        """Return whether the words of a text are those of its pieces, the runs between its spaces.

        Cleaning looks at no character beyond a space, unless it has to compose characters first.
        """
        return self.rules == "words" and not self.pattern and (text.isascii() or is_normalized("NFKC", text))

    def words_of_piece(self, piece: str) -> list[str]:
        """Return the words of a piece of a text; of stop words or signs alone, none."""
        return self._stemmed(self._kept(clean(piece)))

    def _kept(self, words: list[str]) -> list[str]:
        return [word for word in words if word not in STOP_WORDS] if self.stop_words else words

    def _stemmed(self, words: list[str]) -> list[str]:
        return [*map(stemmer_of(self.language), words)] if self.language else words

    def _cut(self, text: str) -> list[str]:
        if self.pattern:
            return self._matches(text)
        return clean(text) if self.rules == "words" else bert_words(text, cased=self.rules == "bert-cased")

    def _matches(self, text: str) -> list[str]:
        return [word for match in self._compiled.finditer(text.lower()) for word in match.group().split()]

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)


class WordTable(NamedTuple):
    """Texts as numbers into their own list of distinct words: row r is `ids[starts[r]:starts[r + 1]]`."""

    words: list[str]
    ids: Int[np.ndarray, "total"]
    starts: Int[np.ndarray, "texts+1"]

    @property
    def lengths(self) -> Int[np.ndarray, "texts"]:
        return np.diff(self.starts)


class Pieces(dict[str, list[str]]):
    """The words of what stands between spaces; each piece is cleaned once, though many texts have it."""

    def __init__(self, splitter: Splitter) -> None:
        super().__init__()
        self._splitter = splitter

    def __missing__(self, piece: str) -> list[str]:
        words = self[piece] = self._splitter.words_of_piece(piece)
        return words


def word_table(texts: Iterable[str], splitter: Splitter, pieces: Pieces | None = None) -> WordTable:
    """Split every text once; counting, numbering and weighting work on the numbers.

    `pieces` are kept from one table to the next where texts come in parts.
    """
    number: dict[str, int] = {}
    numbered = _NumberedPieces(Pieces(splitter) if pieces is None else pieces, number)
    ids, starts = array("i"), array("q", [0])
    for text in texts:
        found = [*chain.from_iterable(map(numbered.__getitem__, text.split()))] if splitter.goes_by_piece(text) else []
        # A text of stop words alone keeps them, which its pieces do not tell.
        ids.extend(found or [number.setdefault(word, len(number)) for word in splitter.words(text)])
        starts.append(len(ids))
    return WordTable(list(number), np.array(ids, dtype=np.int32), np.array(starts, dtype=np.int64))


class _NumberedPieces(dict[str, list[int]]):
    """Pieces as the numbers of their words, which are given in the order in which words are met."""

    def __init__(self, pieces: Pieces, number: dict[str, int]) -> None:
        super().__init__()
        self._pieces, self._number = pieces, number

    def __missing__(self, piece: str) -> list[int]:
        number = self._number
        numbers = self[piece] = [number.setdefault(word, len(number)) for word in self._pieces[piece]]
        return numbers


def clean(text: str) -> list[str]:
    """Return the words of a text, lower-cased and without signs (docs/methods.md lists the steps)."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_SIGNS))
    text = text.lower().translate(_KEPT)
    if "'" in text:
        text = _POSSESSIVE.sub("", text)
        text = _CONTRACTION.sub(r" \1", text)
    if "." in text:
        text = _STOP_AFTER_LETTER.sub("", text)
    text = _LETTER_AFTER_DIGIT.sub(" ", text)
    words = (word.strip(".'") for word in text.split())
    return [word for word in words if not _ONLY_SIGNS.fullmatch(word)]


class _KeptCharacters(dict[int, str]):
    """Translation table filled on demand: letters, marks, digits and . ' + # stay, others become a space.

    Invisible characters inside a word (soft hyphens, joiners, variation selectors) are dropped without a space.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        kept = category[0] in "LMN" or character in ".'+#"
        self[code] = character if kept else "" if category == "Cf" else " "
        return self[code]


# Normalising would make letters or marks of these: ™ would become tm, ´ a space and an accent without a letter.
_SIGNS = str.maketrans("´™℠¨¯¸", "'     ")
_KEPT = _KeptCharacters({ord(sign): "'" for sign in "`‘’ʼ"} | dict.fromkeys(range(0xFE00, 0xFE10), "") | {0x200B: " "})
_POSSESSIVE = re.compile(r"'s(?!\w)|(?<=s)'(?!\w)")
_CONTRACTION = re.compile(r"'(ve|re|d|ll)(?!\w)")
_STOP_AFTER_LETTER = re.compile(r"(?<=[^\W\d_])\.")
_LETTER_AFTER_DIGIT = re.compile(r"(?<=\d)(?=[^\W\d_])")
_ONLY_SIGNS = re.compile(r"\W*")
