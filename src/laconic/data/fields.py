"""Texts of several fields, such as title and subtitle: which fields, how much each counts, and how they are joined.

Fields are written `title:2,subtitle`. A field of weight 2 is there twice: every field once, in their order, and then
repetitions, so that a method that reads the first words of a text loses repetitions before anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from laconic.errors import ConfigError

HEAVIEST = 10


class TextField(NamedTuple):
    """The name of a column or key, and how often its text counts."""

    name: str
    weight: int = 1


Fields = tuple[TextField, ...]


def parse_fields(spec: str) -> Fields:
    """Return the fields that a text such as `title:2,subtitle` names; none for an empty text."""
    fields = tuple(_field(part.strip(), spec) for part in spec.split(",")) if spec.strip() else ()
    names = [field.name.lower() for field in fields]
    if len({*names}) < len(names):
        raise ConfigError(f"a field is named twice in {spec!r}; to count it twice, write name:2")
    return fields


def fields_given(given: Any) -> Fields:
    """Return fields from Python: a text as for `parse_fields`, a list of names, or a dict of names and weights."""
    if given is None:
        return ()
    if isinstance(given, str):
        return parse_fields(given)
    if isinstance(given, Mapping):
        return parse_fields(",".join(f"{name}:{weight}" for name, weight in given.items()))
    if isinstance(given, list | tuple) and all(isinstance(name, str) for name in given):
        return parse_fields(",".join(given))
    raise ConfigError(f"fields must be a list of names or a dict of names and weights, but is {given!r}")


def spec_of(fields: Fields) -> str:
    """Return fields as a text; empty where there is one alone that counts once, as any text does."""
    if len(fields) == 1 and fields[0].weight == 1:
        return ""
    return ",".join(f"{name}:{weight}" if weight > 1 else name for name, weight in fields)


def spec_in_facts(facts: Mapping[str, Any]) -> str:
    """Return the fields that a model was trained on; empty where it was trained on plain texts."""
    match facts.get("data"):
        case {"fields": str(spec)}:
            return spec
    return ""


def joined_fields(values: Sequence[str], weights: Sequence[int]) -> str:
    """Return the text of some fields, of which any may be empty."""
    words = [(value.strip(), weight) for value, weight in zip(values, weights, strict=True) if value.strip()]
    rounds = range(1, max((weight for _, weight in words), default=0) + 1)
    return " ".join(value for number in rounds for value, weight in words if weight >= number)


def _field(part: str, spec: str) -> TextField:
    name, marker, weight = part.rpartition(":")
    if not marker or not weight.strip().isdecimal():  # a name may have a colon, such as dc:title
        name, weight = part, "1"
    if not name.strip():
        raise ConfigError(f"a field has no name in {spec!r}; write them as in title:2,subtitle")
    if not 1 <= int(weight[:9]) <= HEAVIEST:
        raise ConfigError(f"the weight of {name!r} must be an integer from 1 to {HEAVIEST}, but is {weight}")
    return TextField(name.strip(), int(weight))
