"""Convert many files to a dataset folder, by several processes and in memory that does not grow with the texts.

Every file is read twice: for its labels, which are numbered in the order of the files, and for its records. What is
written is what one process writes for the files joined into one, to the byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from laconic.data.corpus import Labels
from laconic.data.formats.assemble import Gathered, LabelBook, gather, split_of
from laconic.data.formats.jsonl import label_rows
from laconic.data.formats.tabular import Columns
from laconic.data.output import check_new, label_records, lines_of, records, write_lines
from laconic.data.sources import stream_rows
from laconic.data.text import Splitter
from laconic.data.word_counts import WordCounts
from laconic.errors import DataError
from laconic.system.files import replacing
from laconic.system.processes import RunAll, processes

_ROWS = 16_384  # that are held at a time
_BLOCK = 1 << 20  # bytes that are copied at a time
Files = Mapping[str, Sequence[Path]]  # of each split


class Converted(NamedTuple):
    """What a conversion has written."""

    texts: dict[str, int]  # of each split
    labels: int
    repeated: dict[str, int]  # labels that a text of each split named before


def convert_files(
    files: Files, folder: Path, columns: Columns, *, compress: bool = True, workers: int = 1
) -> Converted:
    """Write a new dataset folder of files that have no list of labels; an existing folder is refused."""
    check_new(folder)
    names: dict[str, None] = {}  # of labels, in the order in which they come
    with processes(workers) as run, replacing(folder) as whole:
        found = {name: _gathered(run(partial(_facts, columns=columns), paths), names) for name, paths in files.items()}
        for name, facts in found.items():
            if not facts.texts:
                raise DataError(f"there is no record at all in the files of the split {name!r}; fill one of them")
        write_lines(whole / "labels.jsonl", lines_of(label_records(Labels(names=[*names]))), compress=compress)
        with TemporaryDirectory(dir=whole) as parts:
            for name, paths in files.items():
                labels = whole / f"labels.jsonl{'.gz' * compress}"
                works = [
                    _Work(path, columns, labels, found[name].weighted, Path(parts) / f"{number}")
                    for number, path in enumerate(paths)
                ]
                target = whole / f"{'train' if name == 'all' else name}.jsonl"
                write_lines(target, _joined(run, works), compress=compress)
    texts = {name: facts.texts for name, facts in found.items()}
    return Converted(texts, len(names), {name: facts.repeated for name, facts in found.items()})


def count_words(
    files: Sequence[Path], columns: Columns, splitter: Splitter, *, subwords: int = 0, workers: int = 1
) -> WordCounts:
    """Count the words of all texts of files."""
    counts = WordCounts(subwords=np.zeros(subwords, dtype=np.int64))
    with processes(workers) as run:
        for one in run(partial(_word_counts, columns=columns, splitter=splitter, subwords=subwords), files):
            counts.add(one)
    return counts


def _word_counts(path: Path, columns: Columns, splitter: Splitter, subwords: int) -> WordCounts:
    return WordCounts.of_texts((row.text or "" for row in stream_rows(path, columns)), splitter, subwords)


class _Facts(NamedTuple):
    """What the records of a file need to know of the others."""

    texts: int
    labels: list[str]  # in the order in which they come
    weighted: bool  # whether any text has a weight
    repeated: int


def _facts(path: Path, columns: Columns) -> _Facts:
    book, texts, weighted, repeated = LabelBook.of(None), 0, False, 0
    for some in _pieces(path, columns, book):
        texts, repeated = texts + len(some.texts), repeated + some.repeated
        weighted = weighted or any(weight is not None for weight in some.weights)
    return _Facts(texts, book.names, weighted, repeated)


def _gathered(facts: Iterable[_Facts], names: dict[str, None]) -> _Facts:
    """Return the facts of all files of a split, and add their labels to the names."""
    texts, weighted, repeated = 0, False, 0
    for one in facts:
        names |= dict.fromkeys(one.labels)
        texts, weighted, repeated = texts + one.texts, weighted or one.weighted, repeated + one.repeated
    return _Facts(texts, [], weighted, repeated)


def _pieces(path: Path, columns: Columns, book: LabelBook) -> Iterator[Gathered]:
    rows = stream_rows(path, columns)
    while (some := gather(islice(rows, _ROWS), book)).texts:
        yield some


@dataclass(frozen=True)
class _Work:
    """A file whose records are to be written."""

    path: Path
    columns: Columns
    labels: Path  # the list of all labels
    weighted: bool  # whether any text of the split has a weight
    part: Path  # that is written


def _write_part(work: _Work) -> Path:
    """Write the records of a file."""
    book = _book(work.labels)
    labels = Labels(names=book.names)
    with work.part.open("wb") as file:
        for some in _pieces(work.path, work.columns, book):
            split = split_of(some, labels)
            if work.weighted and split.weights is None:
                split = replace(split, weights=np.ones(len(split), dtype=np.float32))
            file.writelines(lines_of(records(split, labels)))
    return work.part


@lru_cache(maxsize=1)
def _book(labels: Path) -> LabelBook:
    """Return the labels of a list; an integer is the name of a label, as there was no list before."""
    return replace(LabelBook.of(label_rows(labels)), listed=None)


def _joined(run: RunAll, works: Sequence[_Work]) -> Iterator[bytes]:
    """Yield the records of files in their order, in blocks."""
    for part in run(_write_part, works):
        with part.open("rb") as file:
            yield from iter(partial(file.read, _BLOCK), b"")
        part.unlink()
