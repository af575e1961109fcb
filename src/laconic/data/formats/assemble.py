"""Assemble a Corpus from the rows of any table (JSON Lines, CSV, Parquet): number labels, build matrices."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from laconic.data.attributes import read_attributes
from laconic.data.corpus import Corpus, Features, Labels, Split, TableFacts, pair_matrix, self_pairs
from laconic.errors import DataError
from laconic.system.sparse import csr_array
from laconic.units import counted, plural

LARGEST = float(np.finfo(np.float32).max)
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)


class Row(NamedTuple):
    """One text as the source has it. A label is a name, or an integer: its row in the source's list of labels."""

    place: str
    text: str | None
    labels: Sequence[str | int]
    label_weights: Sequence[float] | None = None
    id: str | None = None
    weight: float | None = None
    leave_out: Sequence[str | int] = ()
    group: str | None = None


class LabelRow(NamedTuple):
    """One label of the source's list of labels."""

    place: str
    name: str
    text: str | None = None
    alternatives: Sequence[str] = ()
    broader: Sequence[str] = ()
    attributes: Mapping[str, Any] = {}  # as the source has them


def corpus_of(
    rows: Mapping[str, Iterable[Row]],
    label_rows: Iterable[LabelRow] | None,
    *,
    source: str,
    features: Mapping[str, Features] | None = None,
    label_features: csr_array | None = None,
    feature_names: Sequence[str] | None = None,
    table: TableFacts | None = None,
    notes: Sequence[str] = (),
    fields: str = "",
) -> Corpus:
    """Read every split to its end and number the labels of all of them together."""
    book = LabelBook.of(label_rows)
    gathered = {name: gather(split_rows, book) for name, split_rows in rows.items()}
    for name, parts in gathered.items():
        if not parts.texts:
            raise DataError(f"{source}: there is no record at all in the split {name!r}; fill its file or take it away")
    features = features or {}
    for name, matrix in features.items():
        _same_count(source, name, len(gathered[name].texts), matrix)
    if label_features is not None:
        _same_count(source, "labels", len(book.names), label_features)
    attributes, notes_on_attributes = read_attributes(book.all_attributes(), len(book.names))
    labels = Labels(
        names=book.names,
        texts=book.all_texts(),
        features=label_features,
        alternatives=book.all_alternatives(),
        broader=book.hierarchy(),
        attributes=attributes,
    )
    splits = {name: split_of(parts, labels, features.get(name)) for name, parts in gathered.items()}
    return Corpus(
        splits=splits,
        labels=labels,
        source=source,
        feature_names=feature_names,
        notes=[*notes, *notes_on_attributes, *_notes(book, gathered)],
        table=table,
        fields=fields,
    )


@dataclass
class LabelBook:
    """Map names to numbers; a name that the list of labels does not have is appended."""

    names: list[str]
    texts: list[str] | None
    number: dict[str, int]
    listed: int | None  # how many the list of labels had; None: there is no list
    alternatives: dict[int, Sequence[str]] = field(default_factory=dict)
    broader: dict[int, LabelRow] = field(default_factory=dict)  # the rows that name broader labels
    attributes: dict[int, LabelRow] = field(default_factory=dict)  # the rows that have attributes

    @staticmethod
    def of(rows: Iterable[LabelRow] | None) -> LabelBook:
        if rows is None:
            return LabelBook([], None, {}, None)
        names, texts, number = list[str](), list[str | None](), dict[str, int]()
        alternatives, broader, attributes = dict[int, Sequence[str]](), dict[int, LabelRow](), dict[int, LabelRow]()
        for row in rows:
            _check_name(row.name, row.place)
            if row.name in number:
                raise DataError(
                    f"{row.place}: the label {row.name!r} was listed before, as number {number[row.name]}; list it once"
                )
            number[row.name] = len(names)
            if row.alternatives:
                alternatives[len(names)] = row.alternatives
            if row.broader:
                broader[len(names)] = row
            if row.attributes:
                attributes[len(names)] = row
            names.append(row.name)
            texts.append(row.text)
        known = [text or "" for text in texts] if any(text is not None for text in texts) else None
        return LabelBook(names, known, number, len(names), alternatives, broader, attributes)

    def number_of(self, label: str | int, place: str) -> int:
        if isinstance(label, str):
            return self._number_of_name(label, place)
        if self.listed is None:  # without a list of labels a number is a name like any other
            return self._number_of_name(str(label), place)
        if not 0 <= label < self.listed:
            raise DataError(f"{place}: label {label} is outside 0..{self.listed - 1}, the rows of the list of labels")
        return label

    def _number_of_name(self, name: str, place: str) -> int:
        if name not in self.number:
            _check_name(name, place)
            self.number[name] = len(self.names)
            self.names.append(name)
        return self.number[name]

    def all_texts(self) -> list[str] | None:
        return None if self.texts is None else self.texts + [""] * (len(self.names) - len(self.texts))

    def all_alternatives(self) -> list[Sequence[str]] | None:
        return [self.alternatives.get(number, []) for number in range(len(self.names))] if self.alternatives else None

    def all_attributes(self) -> dict[int, tuple[str, Mapping[str, Any]]]:
        """Return place and attributes of the labels that have any."""
        return {number: (row.place, row.attributes) for number, row in self.attributes.items()}

    def hierarchy(self) -> csr_array | None:
        """Return which labels are directly broader than each; all of them must be labels of the list."""
        if not self.broader:
            return None
        pairs = [(number, self._broader(row, name)) for number, row in self.broader.items() for name in row.broader]
        return pair_matrix(pairs, (len(self.names), len(self.names)))

    def _broader(self, row: LabelRow, name: str) -> int:
        if name not in self.number or name == row.name:
            wrong = "is the label itself" if name == row.name else "is not in the list of labels"
            raise DataError(f"{row.place}: the broader label {name!r} of {row.name!r} {wrong}; mend or remove it")
        return self.number[name]


def _check_name(name: str, place: str) -> None:
    if not name or name.isspace():
        raise DataError(f"{place}: a label is {name!r}, which is no name; name it, or leave it out")


@dataclass
class Gathered:
    """The rows of one split, column by column."""

    texts: list[str | None] = field(default_factory=list)
    ids: list[str | None] = field(default_factory=list)
    weights: list[float | None] = field(default_factory=list)
    groups: list[str | None] = field(default_factory=list)
    starts: array[int] = field(default_factory=lambda: array("q", [0]))
    labels: array[int] = field(default_factory=lambda: array("i"))
    values: array[float] = field(default_factory=lambda: array("f"))
    left_out: list[tuple[int, int]] = field(default_factory=list)
    repeated: int = 0  # times that a row names a label it has named before

    def add(self, text: str | None, id: str | None, labels: Sequence[tuple[int, float]]) -> None:
        """Add a row; a repeated label gets its larger weight."""
        weight_of = dict(labels)
        if len(weight_of) < len(labels):
            for number, weight in labels:
                weight_of[number] = max(weight, weight_of[number])
        self.repeated += len(labels) - len(weight_of)
        self.labels.extend(weight_of.keys())
        self.values.extend(weight_of.values())
        self.starts.append(len(self.labels))
        self.texts.append(text)
        self.ids.append(id)

    def matrix(self, num_labels: int) -> csr_array:
        parts = np.array(self.values), np.array(self.labels), np.array(self.starts)
        matrix = csr_array(parts, shape=(len(self.texts), num_labels))
        matrix.sort_indices()
        matrix.eliminate_zeros()
        return matrix


def gather(rows: Iterable[Row], book: LabelBook) -> Gathered:
    """Read rows to their end; labels that the book lacks are added to it."""
    found = Gathered()
    for row in rows:
        labels = _weighted_labels(row, book)
        found.left_out.extend((len(found.texts), book.number_of(label, row.place)) for label in row.leave_out)
        found.add(row.text, row.id, labels)
        found.weights.append(row.weight)
        found.groups.append(row.group)
    return found


def _weighted_labels(row: Row, book: LabelBook) -> list[tuple[int, float]]:
    try:
        numbers = [book.number[label] for label in row.labels]  # type: ignore[index] # most are names that are known
    except KeyError:
        numbers = [book.number_of(label, row.place) for label in row.labels]
    if row.label_weights is None:
        return [*zip(numbers, repeat(1.0))]
    if len(row.label_weights) != len(numbers):
        raise DataError(
            f"{row.place}: {counted(len(numbers), 'label')} but {counted(len(row.label_weights), 'label weight')}; "
            "give one for each"
        )
    wrong = [weight for weight in row.label_weights if not SMALLEST <= weight <= LARGEST]
    if wrong:
        raise DataError(
            f"{row.place}: a label weight must be above 0 and at most {LARGEST:.3g}, but is {wrong[0]}; "
            "mend it or leave the label out"
        )
    return [*zip(numbers, row.label_weights, strict=True)]


def _same_count(source: str, name: str, records: int, features: Features) -> None:
    if records != features.shape[0]:
        raise DataError(
            f"{source}: {name} has {counted(records, 'record')}, but {counted(features.shape[0], 'row')} of features; "
            "they must stand row by row"
        )


def split_of(parts: Gathered, labels: Labels, features: Features | None = None) -> Split:
    """Return rows as a split; all their labels must be there."""
    has_ids = any(id is not None for id in parts.ids)
    left_out = pair_matrix(parts.left_out, (len(parts.texts), len(labels)))
    if has_ids:
        left_out = left_out + self_pairs(parts.ids, labels)
    return Split(
        labels=parts.matrix(len(labels)),
        texts=None if None in parts.texts else [text for text in parts.texts if text is not None],
        features=features,
        ids=parts.ids if has_ids else None,
        weights=_weights(parts.weights),
        groups=parts.groups if any(group is not None for group in parts.groups) else None,
        leave_out=left_out if left_out.nnz else None,
    )


def _weights(weights: Sequence[float | None]) -> np.ndarray | None:
    if all(weight is None for weight in weights):
        return None
    return np.array([1.0 if weight is None else weight for weight in weights], dtype=np.float32)


def _notes(book: LabelBook, gathered: Mapping[str, Gathered]) -> list[str]:
    notes = []
    if book.listed is not None and len(book.names) > book.listed:
        added = book.names[book.listed :]
        notes.append(
            f"{counted(len(added), 'label is', 'labels are')} not in the list of labels, for example {added[0]!r}; "
            f"{plural(len(added), 'it was', 'they were')} added to it"
        )
    for name, parts in gathered.items():
        if parts.repeated:
            notes.append(f"{name}: {counted(parts.repeated, 'repeated label')} ignored")
    return notes
