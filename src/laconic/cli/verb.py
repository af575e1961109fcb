"""The form of every verb: help that ends with an example, flags without a type, older spellings still read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

F = TypeVar("F", bound=Callable[..., Any])
BUNDLED_NAMES = ("debian-related",)  # of data; laconic.data.catalogue, which has them too, is slower to import
_OLD_NAMES = {"--table": "--column"}  # of options


def command(verbs: typer.Typer, name: str | None = None, *, example: str, group: str) -> Callable[[F], F]:
    """Register a function as a verb of a group; the lines of `example` end its help."""
    lines = example.splitlines()
    epilog = "\n\n".join(["Example:" if len(lines) == 1 else "Examples:", *(f"$ {line}" for line in lines)])
    return verbs.command(name, cls=Verb, epilog=epilog, rich_help_panel=group)


def option(group: str, spec: str, help: str, **more: Any) -> Any:
    """Return an option of a group; `spec` is its names and, unless it is a flag, what its value is called."""
    names = [word for word in spec.split() if word.startswith("-")]
    called = [word for word in spec.split() if not word.startswith("-")]
    return typer.Option(*names, metavar=called[0] if called else None, help=help, rich_help_panel=group, **more)


def argument(name: str, help: str, **more: Any) -> Any:
    """Return an argument with the name that the help shows."""
    return typer.Argument(metavar=name, help=help, show_default=False, **more)


class Group(TyperGroup):
    """The command line itself, whose flags are shown without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _untyped_flags(super().get_params(ctx))


class Verb(TyperCommand):
    """A verb of the command line."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _untyped_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = [_renamed(word) for word in args]
        return super().parse_args(ctx, self._with_json_file(ctx, words) if self._may_write_json else words)

    @property
    def _may_write_json(self) -> bool:
        return {"--json", "--out"} <= {name for param in self.params for name in param.opts} and self.name != "predict"

    def _with_json_file(self, ctx: Any, words: list[str]) -> list[str]:
        """Read `--json FILE`, which was the spelling before `--json` printed, as `--out FILE`."""
        words = [re.sub("^--json=", "--out=", word) for word in words]
        at = words.index("--json") + 1 if "--json" in words else 0
        if not at or at == len(words) or words[at].startswith("-"):
            return words
        any_number = any(param.nargs == -1 for param in self.params)  # of arguments, which all name what exists
        missing = any_number and not Path(words[at]).exists() and words[at] not in BUNDLED_NAMES
        too_many = bool(self.make_parser(ctx).parse_args(list(words))[1])
        is_file = missing or too_many or words[at].endswith(".json")
        return [*words[: at - 1], "--out", *words[at:]] if is_file else words


def _renamed(word: str) -> str:
    name, equals, value = word.partition("=")
    return _OLD_NAMES.get(name, name) + equals + value


def _untyped_flags(params: list[Any]) -> list[Any]:
    """Leave the type of flags out of the help: they take no value."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params
