"""Every setting of every method is described where it is defined, and the description is complete."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from laconic.cli.main import app
from laconic.config import METHOD_NAMES
from laconic.errors import ConfigError
from laconic.methods.registry import config_of
from laconic.methods.settings import descriptions, method_settings

WRAPPED: dict[str, dict[str, Any]] = {"reranker": {}, "fusion": {}}


def names_of(config: Any, prefix: str = "") -> list[str]:
    """Return the names of all settings by the dataclasses themselves."""
    found = []
    for field in fields(config):
        value = getattr(config, field.name)
        found += names_of(value, f"{prefix}{field.name}.") if is_dataclass(value) else [prefix + field.name]
    return found


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_the_settings_are_those_of_the_dataclasses(method: str) -> None:
    config = config_of(method, WRAPPED if method in ("nearest",) else {**WRAPPED, "extra_texts": {}})
    listed = [one.name for one in method_settings(method)]
    assert len(listed) == len(set(listed))
    missing = {"extra_texts"} & set(names_of(config))  # a group that this method refuses
    assert set(names_of(config)) - missing == {one for one in listed if not (missing and one.startswith("extra_"))}


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_every_setting_has_a_sentence_and_its_values(method: str) -> None:
    for one in method_settings(method):
        assert one.meaning.endswith("."), f"{one.name} has no sentence below its field"
        assert one.meaning[0].isupper(), one.name
        assert len(one.meaning.split()) >= 3, one.name
        if one.kind in ("integer", "number") and one.name != "label_texts":  # its bound is another setting
            assert one.least is not None, f"{one.name} has no bounds"


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_defaults_are_within_their_bounds(method: str) -> None:
    for one in method_settings(method):
        if one.least is not None:
            assert isinstance(one.default, int | float)
            assert one.least <= one.default, one.name
            assert one.largest is None or one.default <= one.largest, one.name
        if one.choices:
            assert one.default in one.choices or one.default == "", one.name


def test_a_symbol_of_a_paper_stands_apart_from_the_sentence() -> None:
    (found,) = [one for one in method_settings("inceptionxml+") if one.name == "clusters"]
    assert found.symbol == "L′ (InceptionXML, Table 7)"
    assert "Symbol" not in found.meaning


def test_a_field_keeps_the_sentence_of_its_base_unless_it_has_its_own() -> None:
    @dataclass
    class Base:
        one: int = 1
        """First."""
        two: int = 2
        """Second,
        on two lines.
        """

    @dataclass
    class Own(Base):
        one: int = 3
        two: int = 4
        """Mine."""

    assert descriptions(Base) == {"one": "First.", "two": "Second, on two lines."}
    assert descriptions(Own) == {"one": "First.", "two": "Mine."}


def test_settings_that_a_finished_model_takes_are_marked() -> None:
    changeable = {one.name for one in method_settings("astec") if one.after_training}
    assert {"beta", "votes", "shortlist.size", "reranker.alpha", "fusion.tail"} <= changeable
    assert "epochs" not in changeable


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no method 'foo'; known are: nearest"):
        method_settings("foo")


def test_the_verb_prints_a_table_or_json() -> None:
    text = CliRunner().invoke(app, ["settings", "trees"])
    assert text.exit_code == 0
    assert "Label trees whose scores are averaged." in text.output
    found = CliRunner().invoke(app, ["settings", "trees", "beam", "--json"])
    (beam,) = json.loads(found.stdout)
    assert (beam["name"], beam["default"], beam["minimum"], beam["symbol"]) == ("beam", 10, 1, "P (Parabel)")
    assert beam["after_training"]


def test_a_name_that_no_setting_has_is_an_error() -> None:
    found = CliRunner().invoke(app, ["settings", "trees", "wings"])
    assert isinstance(found.exception, ConfigError)
