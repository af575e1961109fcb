"""fastText's form of labelled texts: a text per line, whose words with the prefix `__label__` are its labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from laconic.data.formats.assemble import Row
from laconic.data.formats.lines import lines
from laconic.data.formats.records import excerpt
from laconic.errors import DataError

PREFIX = "__label__"


def is_labelled(head: str) -> bool:
    """Tell by the first lines of a file whether it is of this form."""
    return head.lstrip().startswith(PREFIX)


def rows(path: Path) -> Iterator[Row]:
    """Yield the texts of a file. A line need not have a label; blank lines are skipped."""
    for number, line in lines(path):
        words, place = line.split(), f"{path}:{number}"
        if words:
            labels = [_name(word, place) for word in words if word.startswith(PREFIX)]
            yield Row(place, " ".join(word for word in words if not word.startswith(PREFIX)), labels)


def line_of(text: str, words: Sequence[str], place: str) -> str:
    """Return a text with the words of its labels as a line; `place` is the text's in messages."""
    own = text.split()
    taken = next((word for word in own if word.startswith(PREFIX)), None)
    if taken is not None:
        raise DataError(f"{place}: the word {excerpt(taken)!r} of the text would be read as a label; remove it")
    return " ".join([*(PREFIX + word for word in words), *own])


def label_words(names: Sequence[str]) -> list[str]:
    """Return each label as one word, which is all that fastText allows: blanks become underscores."""
    words, by_word = ["_".join(name.split()) for name in names], dict[str, str]()
    for name, word in zip(names, words, strict=True):
        other = by_word.setdefault(word, name)
        if other != name:
            raise DataError(f"the labels {other!r} and {name!r} would both be {PREFIX}{word}; rename one of them")
    return words


def _name(word: str, place: str) -> str:
    name = word.removeprefix(PREFIX)
    if not name:
        raise DataError(f"{place}: {PREFIX} without a name; write the label's name right after it, or remove it")
    return name
