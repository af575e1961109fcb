"""Split a text as BERT's tokenizers do before they cut words into pieces.

White space parts words; every sign of punctuation and every ideograph is a word of its own; control characters go.
The uncased rules also lower-case letters and take off their marks. `tokenizers` is what the tests compare with.
"""

from __future__ import annotations

import unicodedata

_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_ASCII_SIGNS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def bert_words(text: str, *, cased: bool) -> list[str]:
    """Return the words of a text in reading order, signs among them."""
    text = text.translate(_CLEANED)
    if not cased:
        if not text.isascii():
            text = "".join(one for one in unicodedata.normalize("NFD", text) if unicodedata.category(one) != "Mn")
        text = text.lower()
    return text.translate(_PARTED).split()


class _Cleaned(dict[int, str]):
    """Translation table filled on demand: no control characters, plain spaces, and spaces around ideographs."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        control = code == 0xFFFD or (unicodedata.category(character)[0] == "C" and character not in "\t\n\r")
        if control or character.isspace():
            self[code] = "" if control else " "
        else:
            ideograph = any(first <= code <= last for first, last in _IDEOGRAPHS)
            self[code] = f" {character} " if ideograph else character
        return self[code]


class _Parted(dict[int, str]):
    """Translation table filled on demand: spaces around signs of punctuation."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        sign = character in _ASCII_SIGNS or unicodedata.category(character)[0] == "P"
        self[code] = f" {character} " if sign else character
        return self[code]


_CLEANED, _PARTED = _Cleaned(), _Parted()
