"""The verb `settings`: list the settings of a method."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from laconic.cli.options import AsJson, out
from laconic.cli.verb import argument, command
from laconic.errors import ConfigError

if TYPE_CHECKING:
    from laconic.methods.settings import Setting

verbs = typer.Typer()


@command(verbs, group="Train and use", example="laconic settings astec reranker")
def settings(
    method: Annotated[str, argument("METHOD", "A training method, such as astec.")],
    only: Annotated[str, argument("[NAME]", "Show only settings whose name contains this, such as fusion.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the settings of a method: default, allowed values and what each does.

    A setting marked * can also be changed in a finished model: laconic predict MODEL --set NAME=VALUE.
    """
    # The methods import torch, which takes seconds.
    from laconic.methods.settings import method_settings

    found = [setting for setting in method_settings(method) if only in setting.name]
    if not found:
        raise ConfigError(f"{method} has no setting whose name contains {only!r}; laconic settings {method} lists all")
    if as_json:
        out.print(json.dumps([described(one) for one in found], indent=2, ensure_ascii=False), soft_wrap=True)
    else:
        _print_table(found)


def described(setting: Setting) -> dict[str, object]:
    """Return the setting as the JSON of `laconic settings --json` has it."""
    return {
        "name": setting.name,
        "type": setting.kind,
        "default": setting.default,
        "minimum": setting.least,
        "maximum": setting.largest,
        "choices": list(setting.choices),
        "description": setting.meaning,
        "symbol": setting.symbol,
        "wrapper": setting.wrapper,
        "after_training": setting.after_training,
    }


def _print_table(found: list[Setting]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in found:
        facts = f"default {shown(one.default)}; {one.values}" + f"; in the paper: {one.symbol}" * bool(one.symbol)
        table.add_row(one.name + "*" * one.after_training, Text.assemble(one.meaning, "\n", (facts, "dim")))
    out.print(table)


def shown(value: object) -> str:
    """Write a default as `--set` takes it; an empty text is shown as two quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value}" if value != "" else '""'
