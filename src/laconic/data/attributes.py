"""Attributes of labels, such as a category or a year: groups of labels, among which predictions can be chosen.

A group is an attribute with one of its values. A label may have several values of an attribute, or none.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

import numpy as np
from jaxtyping import Bool, Int

from laconic.errors import ConfigError, ModelError
from laconic.kernels.checks import check_array, check_numbers, check_starts

Where: TypeAlias = Mapping[str, Any]  # the wanted value, or values, of some attributes

MOST_ATTRIBUTES = 100
LONGEST_VALUE = 200  # characters; what is longer is a text
_SEARCHED = 1000  # names or values among which the nearest is looked for
_SHOWN = 8  # names in a message
_LARGEST = 5  # values in a summary


class AttributeSummary(TypedDict):
    """How many values an attribute has, how many labels have one, and the values that most labels have."""

    values: int
    labels: int
    largest: dict[str, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelAttributes:
    """The labels of each group, whose values are sorted within their attribute."""

    names: Sequence[str]  # of the attributes
    bounds: Int[np.ndarray, "bounds"]  # int64: the first group of each attribute, and how many groups there are
    values: Sequence[str]  # of the groups
    starts: Int[np.ndarray, "starts"]  # int64: where each group begins in `labels`, and where the last one ends
    labels: Int[np.ndarray, "members"]  # int32
    num_labels: int

    @staticmethod
    def of(values: Sequence[Mapping[str, Sequence[str]]]) -> LabelAttributes | None:
        """Return the attributes of labels from the values of each label; None if no label has any."""
        members: dict[str, dict[str, list[int]]] = {}
        for label, own in enumerate(values):
            for name, several in own.items():
                for value in dict.fromkeys(several):
                    members.setdefault(name, {}).setdefault(value, []).append(label)
        if not members:
            return None
        groups = [(value, members[name][value]) for name in members for value in sorted(members[name])]
        return LabelAttributes(
            names=list(members),
            bounds=np.cumsum([0, *map(len, members.values())], dtype=np.int64),
            values=[value for value, _ in groups],
            starts=np.cumsum([0, *(len(labels) for _, labels in groups)], dtype=np.int64),
            labels=np.array([label for _, labels in groups for label in labels], dtype=np.int32),
            num_labels=len(values),
        )

    def checked(self) -> LabelAttributes:
        """Return the attributes if their parts, which a file may have from anybody, fit together."""
        check_array(self.bounds, "bounds of attributes", np.int64, (len(self.names) + 1,))
        check_starts(self.bounds, "bounds of attributes", len(self.values))
        check_array(self.starts, "starts of label groups", np.int64, (len(self.values) + 1,))
        check_array(self.labels, "labels of groups", np.int32, (None,))
        check_starts(self.starts, "starts of label groups", len(self.labels))
        check_numbers(self.labels, "labels of groups", 0, self.num_labels)
        return self

    def at(self, numbers: Sequence[int]) -> LabelAttributes | None:
        """Return the attributes of some labels, in that order; None if they have none."""
        values = self.by_label()
        return LabelAttributes.of([values[number] for number in numbers])

    def by_label(self) -> list[dict[str, list[str]]]:
        """Return the values of each label."""
        found: list[dict[str, list[str]]] = [{} for _ in range(self.num_labels)]
        for at, name in enumerate(self.names):
            for group in range(self.bounds[at], self.bounds[at + 1]):
                value = self.values[group]
                for label in self._members(group).tolist():
                    found[label].setdefault(name, []).append(value)
        return found

    def summary(self) -> dict[str, AttributeSummary]:
        """Return the number of values of each attribute, and of labels that have one."""
        return {name: self._summary(*self.bounds[at : at + 2].tolist()) for at, name in enumerate(self.names)}

    def _summary(self, first: int, last: int) -> AttributeSummary:
        sizes = np.diff(self.starts[first : last + 1])
        largest = np.argsort(-sizes, kind="stable")[:_LARGEST].tolist()
        labels = np.unique(self.labels[self.starts[first] : self.starts[last]])
        counts = {self.values[first + at]: int(sizes[at]) for at in largest}
        return AttributeSummary(values=last - first, labels=len(labels), largest=counts)

    def having(self, where: Where) -> Bool[np.ndarray, "labels"]:
        """Return which labels have, of every attribute that is named, one of the values that are wanted."""
        permitted = np.ones(self.num_labels, dtype=bool)
        for name, wanted in where.items():
            own = np.zeros(self.num_labels, dtype=bool)
            for group in self._groups(name, wanted):
                own[self._members(group)] = True
            permitted &= own
        return permitted

    def _members(self, group: int) -> Int[np.ndarray, "n"]:
        return self.labels[self.starts[group] : self.starts[group + 1]]

    def _groups(self, name: str, wanted: Any) -> list[int]:
        if name not in self.names:
            near = _nearest(name, self.names, "attribute")
            raise ConfigError(
                f"where names the attribute {name!r}, which the labels of this model do not have{near}; they have: "
                f"{_listed(self.names)}"
            )
        at = list(self.names).index(name)
        values = wanted_values(name, wanted)
        return [self._group(name, value, int(self.bounds[at]), int(self.bounds[at + 1])) for value in values]

    def _group(self, name: str, value: str, first: int, last: int) -> int:
        group = bisect_left(self.values, value, first, last)
        if group < last and self.values[group] == value:
            return group
        near = _nearest(value, self.values[first : min(last, first + _SEARCHED)], "value")
        raise ConfigError(f"where wants {name!r} to be {value!r}, but no label has this value{near}")


def having(attributes: LabelAttributes | None, where: Where) -> Bool[np.ndarray, "labels"]:
    """Return which labels are wanted; refuse where labels have no attributes."""
    if attributes is None:
        raise ConfigError(
            "where chooses labels by their attributes, but the labels of this model have none; list labels with them "
            'in labels.jsonl, such as {"id": "a", "category": "b"}, and train on it or use `laconic set-attributes`'
        )
    return attributes.having(where)


def checked_names(names: Any, path: Path) -> list[str]:
    """Return the names of attributes if they are what a file should have."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len({*names}) != len(names):
        raise ModelError(f"{path}: the names of attributes must be different texts, but are {names!r}; copy it again")
    return names


def wanted_values(name: str, wanted: Any) -> list[str]:
    """Return the values that are wanted of an attribute: one, or any of several."""
    try:
        return attribute_values(sorted(wanted, key=str) if isinstance(wanted, set | frozenset) else wanted)
    except TypeError:
        raise ConfigError(
            f"where[{name!r}] must be a text, a number or a list of them, but is {wanted!r} ({type(wanted).__name__})"
        ) from None


def attribute_values(value: Any) -> list[str]:
    """Return the values of an attribute as texts: of one value, or of a list; TypeError: it is neither."""
    if isinstance(value, list | tuple):
        return list(dict.fromkeys(one for item in value for one in _single(item)))
    return _single(value)


def _single(value: Any) -> list[str]:
    value = value.item() if isinstance(value, np.generic) else value
    if value is None:
        return []
    if not isinstance(value, str | int | float):
        raise TypeError(type(value).__name__)
    text = value.strip() if isinstance(value, str) else json.dumps(value)  # true and false, as JSON has them
    return [text] if text else []


def read_attributes(
    given: Mapping[int, tuple[str, Mapping[str, Any]]], count: int
) -> tuple[LabelAttributes | None, list[str]]:
    """Return the attributes of `count` labels, from the place and the values of some of them, and notes.

    What is no attribute, such as an object or a long text, is left out with all values of its name.
    """
    refused: dict[str, str] = {}
    known: dict[str, None] = {}
    for place, own in given.values():
        for name, value in own.items():
            if why := _not_kept(name, value, known):
                refused.setdefault(name, f"{place}: {why}")
            else:
                known[name] = None
    values: list[dict[str, list[str]]] = [{} for _ in range(count)]
    for label, (_, own) in given.items():
        values[label] = {name: attribute_values(value) for name, value in own.items() if name not in refused}
    notes = [f"{name[:40]!r} of labels is not kept as an attribute ({why})" for name, why in refused.items()]
    return LabelAttributes.of(values), _few(notes)


def _not_kept(name: str, value: Any, known: Mapping[str, None]) -> str:
    """Return why a value cannot be that of an attribute; empty if it can."""
    try:
        longest = max(map(len, [name, *attribute_values(value)]))
    except TypeError:
        return f"it is neither a text nor a number nor a list of them, but {type(value).__name__}"
    if longest > LONGEST_VALUE:
        return f"it has {longest:,} characters, where at most {LONGEST_VALUE} are kept"
    if not name.strip() or "=" in name:
        return "a name has no = and is not empty"
    return f"there are {MOST_ATTRIBUTES} others" if name not in known and len(known) == MOST_ATTRIBUTES else ""


def _few(notes: Sequence[str]) -> list[str]:
    return [*notes[:_SHOWN], *([f"and {len(notes) - _SHOWN:,} more keys"] if notes[_SHOWN:] else [])]


def _nearest(name: str, known: Sequence[str], what: str) -> str:
    near = get_close_matches(name[:LONGEST_VALUE], list(known[:_SEARCHED]), n=1, cutoff=0.5)
    return f" (the nearest {what} is {near[0]!r})" if near else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if names[_SHOWN:] else "")
