"""The value that every data format is read into: splits of texts with labels, before texts are tokenised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Int, UInt64

from laconic.data.attributes import LabelAttributes
from laconic.data.catalogue import Propensity, propensity_of
from laconic.data.hashes import feature_hashes, text_hashes
from laconic.data.holdout import Holdout
from laconic.errors import DataError
from laconic.system.sparse import csr_array

Features: TypeAlias = csr_array | Float[np.ndarray, "texts dim"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Texts with their labels; every part has one row per text. Labels only are enough to score predictions."""

    labels: csr_array
    """Texts × labels as float32; a value other than 1 is the label's weight for that text."""
    texts: Sequence[str] | None = None
    """The texts; None where there are features or labels alone."""
    features: Features | None = None
    """Features instead of texts."""
    ids: Sequence[str | None] | None = None
    """Names of the texts; those of one name are held out together where no groups are given."""
    weights: Float[np.ndarray, "texts"] | None = None
    """How much each text counts."""
    groups: Sequence[str | None] | None = None
    """The group of each text: texts of one group are held out together, or not at all."""
    leave_out: csr_array | None = None
    """Texts × labels as bool: pairs that count neither as truth nor as prediction."""

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    def __post_init__(self) -> None:
        sizes = {
            name: part.shape[0] if hasattr(part, "shape") else len(part)
            for name, part in vars(self).items()
            if part is not None
        }
        assert len(set(sizes.values())) == 1, f"parts of a split differ in length: {sizes}"

    def rows(self, which: Int[np.ndarray, "n"]) -> Split:
        """Return some of the texts, in that order."""
        parts: dict[str, Any] = {
            name: part[which] if hasattr(part, "shape") else [part[row] for row in which]
            for name, part in vars(self).items()
            if part is not None
        }
        return Split(**parts)

    def held_together(self) -> Sequence[str | None] | None:
        """Return what texts that are held out together have in common: groups or, without any, ids that texts share.

        None: each text is alone. An id that most texts have does not tell them apart, so that ids do not count then.
        """
        if self.groups is not None or self.ids is None:
            return self.groups
        most = max(Counter(id for id in self.ids if id is not None).values(), default=0)
        return self.ids if 1 < most <= len(self) / 2 else None

    def group_numbers(self) -> Int[np.ndarray, "texts"] | None:
        """Return a number for those that each text is held out with; None: each text is alone."""
        groups = self.held_together()
        if groups is None:
            return None
        keys = [("", row) if group is None else (group, -1) for row, group in enumerate(groups)]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        return np.array([numbers[key] for key in keys])

    def held_out_by(self) -> UInt64[np.ndarray, "texts"] | None:
        """Return the hashes that decide which texts are held out: those of groups or shared ids, else of texts."""
        hashes, groups = self.hashes(), self.held_together()
        if hashes is None or groups is None:
            return hashes
        grouped = np.array([group is not None for group in groups])
        return np.where(grouped, text_hashes([f"\n{group}" for group in groups]), hashes)

    def hashes(self) -> UInt64[np.ndarray, "texts"] | None:
        """Hash every text or, without texts, every row of features; None where there are labels alone."""
        if self.texts is not None:
            return text_hashes(self.texts)
        return None if self.features is None else feature_hashes(self.features)


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Unique label names, with what is known of each label."""

    names: Sequence[str]
    """Names of the labels, which number them."""
    texts: Sequence[str] | None = None
    """The labels' own texts."""
    features: csr_array | None = None
    """Features of the labels."""
    alternatives: Sequence[Sequence[str]] | None = None
    """Other names of each label, which are read beside its text but not shown."""
    broader: csr_array | None = None
    """Labels × labels as bool: which labels are directly broader than each, the label hierarchy."""
    attributes: LabelAttributes | None = None
    """Attributes by which predictions can be filtered, such as a category."""

    def __len__(self) -> int:
        return len(self.names)

    def at(self, numbers: Sequence[int]) -> Labels:
        """Return the names, texts and attributes of some labels, in that order."""
        texts = None if self.texts is None else [self.texts[number] for number in numbers]
        attributes = None if self.attributes is None else self.attributes.at(numbers)
        return Labels(names=[self.names[number] for number in numbers], texts=texts, attributes=attributes)

    def joined(self, new: Labels) -> Labels:
        """Return the names, texts and attributes of these labels and then of others."""
        texts = None
        if self.texts is not None or new.texts is not None:
            texts = [*(self.texts or [""] * len(self)), *(new.texts or [""] * len(new))]
        every = [*self.attribute_values(), *new.attribute_values()]
        return Labels(names=[*self.names, *new.names], texts=texts, attributes=LabelAttributes.of(every))

    def with_attributes(self, given: Mapping[str, Mapping[str, Sequence[str]]]) -> Labels:
        """Return the labels with other attributes for those that are named, and their own for the rest."""
        pairs = zip(self.names, self.attribute_values(), strict=True)
        return replace(self, attributes=LabelAttributes.of([given.get(name, own) for name, own in pairs]))

    def attribute_values(self) -> list[dict[str, list[str]]]:
        """Return the attributes of each label with their values."""
        return [{} for _ in self.names] if self.attributes is None else self.attributes.by_label()


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """How tables were read: their columns, and what separates the labels of a cell."""

    columns: Mapping[str, Sequence[str]]  # of each split's table
    used: Mapping[str, Mapping[str, str]]  # of each split's table: the column that holds the texts, the labels, ...
    separator: str  # "none": each cell is one label; empty: no cell has anything that could separate labels
    lists: int  # cells of labels that were read as lists
    fields: str = ""  # that texts were joined of, with their weights; empty: of one column


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """All splits of a source over one set of labels."""

    splits: dict[str, Split]
    """Splits by name: train, valid and test; a single file is "all"."""
    labels: Labels
    """The labels of all splits."""
    source: str
    """Where the data came from."""
    feature_names: Sequence[str] | None = None
    """Names of the feature columns."""
    fields: str = ""
    """Fields that texts were joined of, with their weights, such as title:2,subtitle; empty where there are none."""
    group: str = ""
    """The column or key of what texts are held out together by: groups or shared ids; empty: each text is alone."""
    notes: Sequence[str] = field(default=())
    """What the reader noticed and repaired, for people."""
    holdout: Holdout | None = None
    """The rule by which the test split was cut off."""
    propensity: Propensity | None = None
    """Propensity constants that the user gave."""
    table: TableFacts | None = None
    """How tables were read, where the source is CSV, TSV or Parquet."""

    def split(self, name: str) -> Split:
        """Return the split of that name. A single file is the split "all", which is also what is trained on."""
        if name in self.splits:
            return self.splits[name]
        if name == "train" and list(self.splits) == ["all"]:
            return self.splits["all"]
        raise DataError(f"{self.source}: there is no split {name!r}; it has {', '.join(self.splits)}")

    def constants(self) -> Propensity:
        """Return the constants of propensities: those that the user gave, or else by the name of the data."""
        return self.propensity or propensity_of(self.source)

    def check_labelled(self) -> None:
        """Refuse training texts of which none has a label."""
        if self.split("train").labels.nnz:
            return
        name = "train" if "train" in self.splits else "all"
        column = None if self.table is None else self.table.used.get(name, {}).get("labels")
        remedy = "; give at least one a label"
        if column is not None:
            remedy = f": the column {column!r} holds none; name the column that does (--column labels=NAME)"
        raise DataError(f"{self.source}: no text{' of the split train' * (name == 'train')} has a label{remedy}")

    def sampled(self, name: str, count: int, seed: int = 0) -> Corpus:
        """Return that split alone, with at most this many texts, drawn at random."""
        split = self.split(name)
        chosen = np.sort(np.random.default_rng(seed).permutation(len(split))[:count])
        return replace(self, splits={name: split.rows(chosen)})

    def keeping_self_pairs(self) -> Corpus:
        """Return the data with no pairs left out of truth and predictions."""
        return replace(self, splits={name: replace(split, leave_out=None) for name, split in self.splits.items()})


def self_pairs(ids: Sequence[str | None], labels: Labels) -> csr_array:
    """Return pairs of a text and the label that is the same item: the record's id equals the label's name."""
    number = {name: i for i, name in enumerate(labels.names)}
    pairs = [(row, number[id]) for row, id in enumerate(ids) if id is not None and id in number]
    return pair_matrix(pairs, (len(ids), len(labels)))


def pair_matrix(pairs: Sequence[tuple[int, int]], shape: tuple[int, int]) -> csr_array:
    """Return a boolean matrix that is true at the (row, label) pairs."""
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    matrix = csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    return matrix
