"""Describe every setting of a method: type, default, bounds, what it does, and the paper's symbol.

Configs are the only source: a setting is a field of a dataclass, and the string below the field describes it. A
description may end in `Symbol: β (DeepXML, section 4).`, the name that a paper gives to the setting.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple

from laconic.config import check_method, method_called, optional_group
from laconic.methods.registry import METHODS, WRAPPERS

_KINDS = {int: "integer", float: "number", bool: "true or false", str: "text"}
_SYMBOL = re.compile(r"\s*Symbol: (.+)\.$")


class Setting(NamedTuple):
    """One setting of a method, as `--set NAME=VALUE` takes it."""

    name: str
    """Name with its groups, such as `surrogate.epochs`."""
    kind: str
    """integer, number, text, or true or false."""
    default: int | float | str | bool
    """Value where none is given."""
    least: int | float | None
    """Smallest value; None where there is no bound."""
    largest: int | float | None
    """Largest value; None where there is no bound."""
    choices: tuple[str, ...]
    """All values, where the setting is one of a few names."""
    meaning: str
    """What the setting does."""
    symbol: str
    """Name of the setting in a paper, with the paper; empty where it has none."""
    wrapper: str
    """Wrapper to which the setting belongs (reranker, fusion, extra_texts); empty for settings of the method itself."""
    after_training: bool
    """Whether `--set` of predict and evaluate can change the setting of a finished model."""

    @property
    def values(self) -> str:
        """Return the values that the setting takes, as text."""
        if self.choices:
            return ", ".join(self.choices)
        if self.least is None:
            return self.kind
        bounds = f"{self.least:,} or more" if self.largest is None else f"{self.least:,} to {self.largest:,}"
        return f"{self.kind}, {bounds}"


def method_settings(method_name: str) -> list[Setting]:
    """Return all settings of a method: its own, then those of its groups, then those of wrappers."""
    check_method(method_name)
    method = METHODS[method_called(method_name)]
    found = sorted(_settings(method.config()), key=lambda one: (bool(one.wrapper), "." in one.name))
    wrapped = method
    for wrap in WRAPPERS.values():
        wrapped = wrap(wrapped)
    changeable = wrapped.prediction_settings
    return [
        one._replace(after_training=one.name in changeable or one.name.partition(".")[0] in changeable) for one in found
    ]


def config_settings(config: Any) -> list[Setting]:
    """Return all settings of a config that belongs to no method, such as that of an update."""
    return list(_settings(config))


def _settings(config: Any, prefix: str = "", wrapper: str = "") -> Iterator[Setting]:
    kind = type(config)
    types, meanings = typing.get_type_hints(kind), descriptions(kind)
    for field in fields(config):
        value, group = getattr(config, field.name), optional_group(types[field.name])
        if group is not None or is_dataclass(value):
            inner = group() if value is None and group is not None else value
            yield from _settings(inner, f"{prefix}{field.name}.", wrapper or field.name * (group is not None))
            continue
        least, largest = getattr(kind, "bounds", {}).get(field.name, (None, None))
        meaning, symbol = _without_symbol(meanings.get(field.name, ""))
        yield Setting(
            name=prefix + field.name,
            kind=_KINDS[types[field.name]],
            default=value,
            least=least,
            largest=None if largest == math.inf else largest,
            choices=tuple(getattr(kind, "choices", {}).get(field.name, ())),
            meaning=meaning,
            symbol=symbol,
            wrapper=wrapper,
            after_training=False,
        )


def _without_symbol(meaning: str) -> tuple[str, str]:
    found = _SYMBOL.search(meaning)
    return (meaning[: found.start()], found[1]) if found else (meaning, "")


def descriptions(kind: type) -> dict[str, str]:
    """Return the strings below the fields of a class and of its bases, by the field's name."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        found |= _own_descriptions(base)
    return found


@cache
def _own_descriptions(kind: type) -> dict[str, str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found
