"""Write any corpus as files of fastText's supervised form: train.txt, valid.txt and test.txt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from laconic.data.corpus import Corpus, Split
from laconic.data.formats.fasttext import label_words, line_of
from laconic.errors import DataError, UserError
from laconic.system.files import check_writable, replacing
from laconic.units import counted


def write_fasttext(corpus: Corpus, folder: Path) -> list[str]:
    """Write a new folder; an existing one is refused. Return what fastText's form could not hold, for people."""
    check_writable(folder)
    if folder.exists():
        raise UserError(f"{folder}: this is there already; choose another name or remove it")
    words = label_words(corpus.labels.names)
    with replacing(folder) as partial:
        for name, split in corpus.splits.items():
            split_name = "train" if name == "all" else name
            lines = _lines(split, words, f"{corpus.source}, {name}")
            (partial / f"{split_name}.txt").write_text("".join(lines), encoding="utf-8")
    return list(_notes(corpus, words))


def _lines(split: Split, words: Sequence[str], place: str) -> Iterator[str]:
    if split.texts is None:
        raise DataError(f"{place}: there are no texts, which fastText needs; convert data that has them")
    matrix = split.labels
    for row, text in enumerate(split.texts):
        own = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        yield line_of(text, [words[label] for label in own], f"{place}, text {row + 1}") + "\n"


def _notes(corpus: Corpus, words: Sequence[str]) -> Iterator[str]:
    changed = [pair for pair in zip(corpus.labels.names, words, strict=True) if pair[0] != pair[1]]
    if changed:
        name, word = changed[0]
        verb = "has" if len(changed) == 1 else "have"
        yield f"{counted(len(changed), 'label')} {verb} blanks, which became underscores: {name!r} is {word!r}"
    lost = [what for what, there in _beyond(corpus).items() if there]
    if lost:
        yield f"fastText has nothing like {' and '.join(lost)}; they were left out"


def _beyond(corpus: Corpus) -> dict[str, bool]:
    """Return what a corpus may have and fastText has no form for."""
    splits = corpus.splits.values()
    return {
        "texts of labels": corpus.labels.texts is not None,
        "weights": any(split.weights is not None or (split.labels.data != 1).any() for split in splits),
        "groups": any(split.groups is not None for split in splits),
        "pairs to leave out": any(split.leave_out is not None for split in splits),
    }
