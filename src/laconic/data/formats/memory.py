"""Read texts and labels that are in memory: lists, tuples, arrays, matrices, series and frames.

Labels are lists of names, one name per text, or a matrix of 0 and 1 with a column per label, dense or sparse. Sparse
matrices are known by what they can do; frames are those of frames.py.
"""

from __future__ import annotations

import logging
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from laconic.data.attributes import read_attributes
from laconic.data.corpus import Corpus
from laconic.data.fields import Fields, TextField, joined_fields, spec_of
from laconic.data.formats.assemble import LabelRow, Row, corpus_of
from laconic.data.formats.frames import Frame, frame_of
from laconic.data.formats.label_cells import NONE, best_separator, has_sign
from laconic.data.formats.records import excerpt, text
from laconic.data.formats.tabular import USUAL_NAMES
from laconic.errors import DataError
from laconic.system.sparse import csr_array
from laconic.units import counted

log = logging.getLogger(__name__)


class _Given(NamedTuple):
    """Labels of each text: names or, where `columns` are the names of a matrix's columns, numbers of columns."""

    rows: Sequence[Sequence[str | int]]
    columns: Sequence[str] | None = None


def corpus_in_memory(
    split: str,
    texts: object,
    labels: object,
    label_texts: object = None,
    classes: object = None,
    fields: Fields = (),
    groups: object = None,
) -> Corpus:
    """Return one split of texts with their labels; of a frame of texts, labels may be a column (`labels` is None).

    `classes` are the names of the columns where labels are a matrix of 0 and 1; None: their numbers. `fields` are those
    that texts are joined of, where they come in a frame or as dicts. `groups` has the group of each text, or None.
    """
    if labels is None:
        labels = _own_labels(texts)
    every_text, given = texts_in_memory(texts, fields), _given_labels(labels, classes)
    if len(every_text) != len(given.rows):
        wanted = counted(len(given.rows), "list") if given.columns is None else counted(len(given.rows), "row")
        raise DataError(f"there are {counted(len(every_text), 'text')}, but {wanted} of labels")
    if not every_text:
        raise DataError("there is no text at all; give at least one")
    rows = (
        Row(f"labels[{i}]", *row, group=group)
        for i, (row, group) in enumerate(
            zip(zip(every_text, given.rows, strict=True), _groups_in_memory(groups, len(every_text)), strict=True)
        )
    )
    listed = _label_rows(given.columns, label_texts)
    corpus = corpus_of({split: rows}, listed, source="texts in memory", fields=spec_of(fields))
    if not corpus.splits[split].labels.nnz:
        raise DataError("no text has a label; give labels as lists of names, one list for each text")
    return corpus


def _groups_in_memory(groups: object, texts: int) -> list[str | None]:
    if groups is None:
        return [None] * texts
    found = _items(groups, "groups", "a list with the group of each text")
    if len(found) != texts:
        raise DataError(f"there are {counted(texts, 'text')}, but {counted(len(found), 'group')}; give one for each")
    return [None if group is None or group != group else str(group) for group in found]  # NaN: none


def with_label_attributes(corpus: Corpus, given: object) -> Corpus:
    """Return the data with attributes of its labels, from their names and values by label; of others, none."""
    if given is None:
        return corpus
    attributes = attributes_in_memory(given, corpus.labels.names)
    return replace(corpus, labels=corpus.labels.with_attributes(attributes))


def attributes_in_memory(given: object, names: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Return the attributes of those labels that are among the names, which some must be."""
    if not isinstance(given, Mapping):
        raise DataError(f"label_attributes is {_shown(given)}, where a dict of label names and attributes is needed")
    number, rows = {name: at for at, name in enumerate(names)}, dict[int, tuple[str, Mapping[str, Any]]]()
    for name, own in given.items():
        place = f"label_attributes[{name!r}]"
        if not isinstance(own, Mapping):
            raise DataError(f"{place} is {_shown(own)}, where a dict such as {{'category': 'fiction'}} is needed")
        if (known := number.get(_name(name, place))) is not None:
            rows[known] = place, {str(key): value for key, value in own.items()}
    if given and not rows:
        raise DataError(f"label_attributes names {_shown([*given][:3])}, but none of these is a label")
    found, notes = read_attributes(rows, len(names))
    if notes:
        raise DataError(f"label_attributes: {notes[0]}; leave it out")
    values = [{} for _ in names] if found is None else found.by_label()
    return {names[at]: values[at] for at in rows}


def is_matrix(labels: object) -> bool:
    """Return whether labels are a matrix with a column for each, not names: dense or sparse, without column names."""
    return hasattr(labels, "tocsr") or (isinstance(labels, np.ndarray) and labels.ndim == 2 and _is_numeric(labels))


def texts_in_memory(texts: object, fields: Fields = ()) -> list[str]:
    """Return texts as plain strings; of a frame, its column of texts, or its fields joined, as of dicts in a list."""
    frame = frame_of(texts)
    if frame is not None and (there := _fields_in(frame, fields)):
        columns = [_items(frame.column(name), f"texts[{name!r}]", "a list of strings") for name in there]
        weights = [field.weight for field in fields]
        return [
            joined_fields([_field_text(value, i, field) for value, field in zip(row, fields, strict=True)], weights)
            for i, row in enumerate(zip(*columns, strict=True))
        ]
    column = texts if frame is None else _column(frame, "texts", "text")
    items = enumerate(_items(column, "texts", "a list of strings"))
    return [
        _text(value, f"texts[{i}]") if not isinstance(value, Mapping) else _of_dict(value, i, fields)
        for i, value in items
    ]


def _fields_in(frame: Frame, fields: Fields) -> list[Any]:
    """Return a frame's columns of the fields; none where it has none of them."""
    names = {str(name).strip().lower(): name for name in frame.names}
    there = [names[field.name.lower()] for field in fields if field.name.lower() in names]
    if there and len(there) < len(fields):
        missing = next(field.name for field in fields if field.name.lower() not in names)
        raise DataError(
            f"texts is a frame without the column {missing!r} of the fields {spec_of(fields)}; its columns are: "
            f"{', '.join(map(str, frame.names))}"
        )
    return there


def _of_dict(value: Mapping[Any, Any], row: int, fields: Fields) -> str:
    """Return the text of a record's fields."""
    if not fields:
        raise DataError(f"texts[{row}] is {_shown(value)}, where a string is needed; name its keys, fields=[...]")
    if not any(field.name in value for field in fields):
        raise DataError(f"texts[{row}] is {_shown(value)}, which has none of the fields {spec_of(fields)}")
    return joined_fields(
        [_field_text(value.get(field.name), row, field) for field in fields], [field.weight for field in fields]
    )


def _field_text(value: object, row: int, field: TextField) -> str:
    """Return the text of a field; that of a missing value is empty."""
    missing = value is None or (isinstance(value, float) and value != value)  # pandas has NaN for none
    return "" if missing else _text(value, f"texts[{row}], {field.name!r}")


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


def _label_rows(columns: Sequence[str] | None, label_texts: object) -> list[LabelRow] | None:
    """Return the list of labels: first those of a matrix in the order of its columns, then others that have a text."""
    listed = [] if label_texts is None else list(label_rows_in_memory(label_texts))
    if columns is None:
        return None if label_texts is None else listed
    text_of = {row.name: row.text for row in listed}
    others = [row for row in listed if row.name not in set(columns)]
    return [*(LabelRow(f"classes[{at}]", name, text_of.get(name)) for at, name in enumerate(columns)), *others]


def _given_labels(labels: object, classes: object) -> _Given:
    if is_matrix(labels):
        return _of_matrix(labels, classes)
    frame = frame_of(labels)
    if frame is not None:
        if frame.matrix is not None and _is_indicator_frame(frame):
            return _of_matrix(frame.matrix(), frame.names)
        labels = _column(frame, "labels", "labels")
    if isinstance(labels, np.ndarray) and labels.ndim == 2:  # rows of names
        labels = list(labels)
    items = _items(labels, "labels", "a list of lists of label names")
    if items and all(_is_name(item) for item in items):
        names = [_name(item, f"labels[{i}]") for i, item in enumerate(items)]
        _warn_of_joined(names)
        return _Given([[name] for name in names])
    return _Given([names_in_memory(item, f"labels[{i}]") for i, item in enumerate(items)])


def _warn_of_joined(names: Sequence[str]) -> None:
    """Warn where most names seem to be several in one, as a column of a CSV file holds them."""
    sign = best_separator(Counter(names))
    joined = [name for name in names if has_sign(name, sign)]
    if sign != NONE and 2 * len(joined) > len(names):
        log.warning(
            "each text has one label, but %s of %s look like several in one, such as %r; where they are, give lists of "
            "names, as frame['labels'].str.split(%r) makes them",
            f"{len(joined):,}",
            f"{len(names):,}",
            excerpt(joined[0]),
            sign + " " * all(f"{sign} " in name for name in joined),
        )


def _of_matrix(labels: Any, classes: object) -> _Given:
    """Read a matrix of 0 and 1; refuse other values, which are no labels."""
    matrix = csr_array(labels, copy=True)
    matrix.sum_duplicates()
    if wrong := sorted(set(np.unique(matrix.data).tolist()) - {0, 1}):
        raise DataError(
            f"labels is a matrix that holds {wrong[0]!r}, where 0 and 1 are needed; give numbers of labels as lists"
        )
    matrix.eliminate_zeros()
    columns = range(matrix.shape[1]) if classes is None else classes
    names = names_in_memory(columns, "classes")
    if len(names) != matrix.shape[1]:
        raise DataError(
            f"labels is a matrix of {counted(matrix.shape[1], 'column')}, but classes has "
            f"{counted(len(names), 'name')}; give one for each column"
        )
    bounds = matrix.indptr.tolist()
    return _Given([matrix.indices[one:two].tolist() for one, two in pairwise(bounds)], names)


def _is_indicator_frame(frame: Frame) -> bool:
    """Return whether a frame has a column of 0 and 1 for each label, and not one of names."""
    named = {str(name).strip().lower() for name in frame.names} & set(USUAL_NAMES["labels"])
    return not named and len(frame.names) > 1 and frame.matrix is not None and _is_numeric(frame.matrix())


def _is_numeric(values: np.ndarray) -> bool:
    return values.dtype.kind in "biuf"


def _own_labels(texts: Any) -> Any:
    """Return the column of a frame that holds the labels of its texts."""
    frame = frame_of(texts)
    if frame is None:
        raise DataError("labels are missing; give a list of label names for each text")
    return _column(frame, "texts", "labels")


def _column(frame: Frame, place: str, role: str) -> Any:
    """Return a frame's only column, or the one of a usual name."""
    names = {str(name).strip().lower(): name for name in frame.names}
    found = [names[usual] for usual in USUAL_NAMES[role] if usual in names]
    if len(frame.names) == 1 and place.startswith(role):
        found = list(frame.names)
    if not found:
        has = ", ".join(map(str, frame.names))
        raise DataError(
            f"{place} is a frame without a column {' or '.join(map(repr, USUAL_NAMES[role]))}; its columns are: {has}. "
            f"Give the column that holds the {role}, such as frame[{str(frame.names[0])!r}]"
        )
    return frame.column(found[0])


def _items(values: object, place: str, needed: str) -> list[Any]:
    """Return the items of a sequence; refuse strings, whose items are letters, and matrices."""
    mistaken = isinstance(values, str | bytes | Mapping | set | frozenset) or getattr(values, "ndim", 1) != 1
    if mistaken or not isinstance(values, Iterable):
        remedy = f"; write [{reprlib.repr(values)}]" if isinstance(values, str) else ""
        raise DataError(f"{place} is {_shown(values)}, where {needed} is needed{remedy}")
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)  # of Arrow, or any other


def _is_name(value: object) -> bool:
    return isinstance(value, str | int | np.integer) and not isinstance(value, bool)


def _name(value: object, place: str) -> str:
    if _is_name(value) and not isinstance(value, str):
        return str(value)
    return _text(value, place)


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{place} is {_shown(value)}, where a string is needed")
    return str(text(value, place))  # numpy's strings become plain ones


def _shown(value: object) -> str:
    return f"{reprlib.repr(value)} ({type(value).__name__})"
