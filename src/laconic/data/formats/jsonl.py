"""Our own form, JSON Lines: `{"text": ..., "labels": [...]}` a line, and a list of labels, `{"id": ..., "text": ...}`.

A record may also have "id" (where it equals a label's id that pair is left out), "weight", "label_weights" (one for
each label) and "leave_out" (more labels to leave out), a label "alternatives" (other names), "broader" (names of
broader labels) and any other key, which is an attribute of the label. Where any of these is null, it is as if the key
were not there. Features that are not text stand beside the records, row by row: `train_features.npz` (sparse) or `.npy`
(dense), `labels_features.npz`, and their names in `features.txt`. Records of Annif have "subjects" for labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scipy.sparse import csr_array

from laconic.data.corpus import Corpus, Features
from laconic.data.fields import spec_of
from laconic.data.formats.annif import Named, document_row, is_document
from laconic.data.formats.assemble import LARGEST, LabelRow, Row, corpus_of
from laconic.data.formats.lines import lines
from laconic.data.formats.matrices import check_columns, read_matrix
from laconic.data.formats.records import (
    Record,
    integer,
    list_of,
    number_of,
    numbers_of,
    record_text,
    records,
    text,
    text_of,
    texts_of,
)
from laconic.data.formats.tabular import Columns
from laconic.errors import DataError
from laconic.units import counted

_OF_LABELS = ("id", "text", "alternatives", "broader")  # other keys are attributes


def read_folder(
    folder: Path,
    splits: Mapping[str, Path],
    labels: Iterable[LabelRow] | None,
    named: Named = dict,
    columns: Columns | None = None,
) -> Corpus:
    """Read a dataset folder, given its files of records by the name of their split, and its list of labels.

    `columns` say under which keys texts are.
    """
    columns = columns or Columns()
    features = {name: found for name in splits if (found := _features(folder, name)) is not None}
    label_features = _features(folder, "labels")
    if label_features is not None and not isinstance(label_features, csr_array):
        raise DataError(f"{folder}: the labels' features must be sparse (labels_features.npz)")
    names = folder / "features.txt"
    _same_columns(folder, features)
    return corpus_of(
        {
            name: rows(path, text_needed=name not in features, named=named, columns=columns)
            for name, path in splits.items()
        },
        labels,
        source=str(folder),
        features=features,
        label_features=label_features,
        feature_names=[line for _, line in lines(names)] if names.exists() else None,
        fields=spec_of(columns.of_text()),
    )


def rows(path: Path, *, text_needed: bool = True, named: Named = dict, columns: Columns | None = None) -> Iterator[Row]:
    """Yield the texts of a file of records; `named` has labels by their names in a vocabulary, for Annif's records.

    `columns` say under which keys texts are.
    """
    columns = columns or Columns()
    fields, asked = columns.of_text(), bool(columns.text)
    for line, record in records(path):
        place = f"{path}:{line}"
        if is_document(record):
            yield document_row(record, place, named)
            continue
        yield Row(
            place,
            record_text(record, fields, place, asked=asked) if text_needed or "text" in record else None,
            labels_of(record, "labels", place),
            numbers_of(record, "label_weights", place) if record.get("label_weights") is not None else None,
            _id_of(record, place),
            _weight_of(record, place),
            labels_of(record, "leave_out", place) if record.get("leave_out") is not None else (),
            _group_of(record, columns, place),
        )


def label_rows(path: Path) -> Iterator[LabelRow]:
    """Yield the labels of a list of labels."""
    for line, record in records(path):
        place = f"{path}:{line}"
        name = _id_of(record, place)
        if name is None:
            raise DataError(f'{place}: the key "id" is missing; it is the label\'s name')
        yield LabelRow(
            place,
            name,
            text_of(record, "text", place) if record.get("text") is not None else None,
            texts_of(record, "alternatives", place) if record.get("alternatives") is not None else (),
            texts_of(record, "broader", place) if record.get("broader") is not None else (),
            {key: value for key, value in record.items() if key not in _OF_LABELS},
        )


def labels_of(record: Record, key: str, place: str) -> list[str | int]:
    """Return a list of label names or of row numbers."""
    values = list_of(record, key, place)
    if all(type(value) is str and value.isascii() for value in values):  # most are, and need no place for an error
        return values
    return [_label(value, f'{place}: "{key}"') for value in values]


def _label(value: Any, place: str) -> str | int:
    return integer(value, place) if isinstance(value, int) else text(value, place)


def _id_of(record: Record, place: str) -> str | None:
    value = record.get("id")
    return None if value is None else str(_label(value, f'{place}: "id"'))


def _group_of(record: Record, columns: Columns, place: str) -> str | None:
    key = columns.of_group()
    value = record.get(key) if key else None
    return None if value is None or value == "" else str(_label(value, f'{place}: "{key}"'))


def _weight_of(record: Record, place: str) -> float | None:
    if record.get("weight") is None:
        return None
    weight = number_of(record, "weight", place)
    if not 0 <= weight <= LARGEST:
        raise DataError(f"{place}: the weight of a text must be 0 or more, but is {weight:g}")
    return weight


def _features(folder: Path, name: str) -> Features | None:
    found = [path for ending in ("npz", "npy") if (path := folder / f"{name}_features.{ending}").exists()]
    if not found:
        return None
    matrix = read_matrix(found[0])
    check_columns(matrix, found[0], "feature")
    return matrix


def _same_columns(folder: Path, features: Mapping[str, Features]) -> None:
    forms = {
        name: f"{'sparse' if isinstance(matrix, csr_array) else 'dense'} with {counted(matrix.shape[1], 'column')}"
        for name, matrix in features.items()
    }
    if len(set(forms.values())) > 1:
        forms_found = ", ".join(f"{name} is {form}" for name, form in forms.items())
        raise DataError(f"{folder}: the features of all splits must be alike, but {forms_found}; write them again")
