"""Read texts and labels that are in memory: lists, tuples, arrays, and series and frames of pandas.

Frames are known by what they can do, so that pandas is not imported for those who do not use it.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from laconic.data.corpus import Corpus
from laconic.data.formats.assemble import LabelRow, Row, corpus_of
from laconic.data.formats.records import text
from laconic.data.formats.tabular import USUAL_NAMES
from laconic.errors import DataError
from laconic.units import counted


def corpus_in_memory(split: str, texts: object, labels: object, label_texts: object = None) -> Corpus:
    """Return one split of texts with their labels; of a frame of texts, labels may be a column (`labels` is None)."""
    if labels is None:
        labels = _own_labels(texts)
    every_text, every_labels = texts_in_memory(texts), _label_lists(labels)
    if len(every_text) != len(every_labels):
        raise DataError(
            f"there are {counted(len(every_text), 'text')}, but {counted(len(every_labels), 'list')} of labels"
        )
    if not every_text:
        raise DataError("there is no text at all; give at least one")
    rows = (Row(f"labels[{i}]", *row) for i, row in enumerate(zip(every_text, every_labels, strict=True)))
    label_rows = None if label_texts is None else label_rows_in_memory(label_texts)
    corpus = corpus_of({split: rows}, label_rows, source="texts in memory")
    if not corpus.splits[split].labels.nnz:
        raise DataError("no text has a label; give labels as lists of names, one list for each text")
    return corpus


def texts_in_memory(texts: object) -> list[str]:
    """Return texts as plain strings; of a frame, the one column that holds them."""
    column = _column(texts, "texts", "text") if _is_frame(texts) else texts
    return [_text(value, f"texts[{i}]") for i, value in enumerate(_items(column, "texts", "a list of strings"))]


def label_rows_in_memory(label_texts: object) -> Iterator[LabelRow]:
    """Yield labels with their own texts."""
    if not isinstance(label_texts, Mapping):
        raise DataError(f"label_texts is {_shown(label_texts)}, where a dict of label names and texts is needed")
    for name, value in label_texts.items():
        place = f"label_texts[{name!r}]"
        yield LabelRow(place, _name(name, place), _text(value, place))


def names_in_memory(values: object, place: str) -> list[str]:
    """Return label names as plain strings; `place` is theirs in messages."""
    if isinstance(values, set | frozenset):  # of one text's labels: sorted, so that equal sets give equal models
        values = sorted(values, key=str)
    return [_name(value, f"{place}[{i}]") for i, value in enumerate(_items(values, place, "a list of label names"))]


def _label_lists(labels: object) -> list[list[str]]:
    column = _column(labels, "labels", "labels") if _is_frame(labels) else labels
    lists = _items(column, "labels", "a list of lists of label names")
    return [names_in_memory(value, f"labels[{i}]") for i, value in enumerate(lists)]


def _is_frame(values: object) -> bool:
    return hasattr(values, "columns") and getattr(values, "ndim", 0) == 2


def _own_labels(texts: Any) -> Any:
    """Return the column of a frame that holds the labels of its texts."""
    if not _is_frame(texts):
        raise DataError("labels are missing; give a list of label names for each text")
    return _column(texts, "texts", "labels")


def _column(frame: Any, place: str, role: str) -> Any:
    """Return a frame's only column, or the one of a usual name."""
    names = {str(name).strip().lower(): name for name in frame.columns}
    found = [names[usual] for usual in USUAL_NAMES[role] if usual in names]
    if len(frame.columns) == 1 and place.startswith(role):
        found = list(frame.columns)
    if not found:
        has = ", ".join(map(str, frame.columns))
        raise DataError(
            f"{place} is a frame without a column {' or '.join(map(repr, USUAL_NAMES[role]))}; its columns are: {has}. "
            f"Give the column that holds the {role}, such as frame[{str(frame.columns[0])!r}]"
        )
    return frame[found[0]]


def _items(values: object, place: str, needed: str) -> list[Any]:
    """Return the items of a sequence; refuse strings, whose items are letters, and matrices."""
    mistaken = isinstance(values, str | bytes | Mapping | set | frozenset) or getattr(values, "ndim", 1) != 1
    if mistaken or not isinstance(values, Iterable):
        remedy = f"; write [{reprlib.repr(values)}]" if isinstance(values, str) else ""
        raise DataError(f"{place} is {_shown(values)}, where {needed} is needed{remedy}")
    return list(values)


def _name(value: object, place: str) -> str:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    return _text(value, place)


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{place} is {_shown(value)}, where a string is needed")
    return str(text(value, place))  # numpy's strings become plain ones


def _shown(value: object) -> str:
    return f"{reprlib.repr(value)} ({type(value).__name__})"
