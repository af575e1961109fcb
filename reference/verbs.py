"""Pages of the command line: one per verb, from the objects that the command line itself is made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import typer

from laconic.cli.main import app
from reference.markdown import code, plain, table, titled

_HIDDEN = {"help"}
_VALUES = {int: "N", float: "NUMBER", str: "NAME", Path: "PATH"}  # what stands for a value that has no name of its own


@cache
def laconic() -> Any:
    """Return the command line as the object that parses it."""
    return typer.main.get_command(app)


def verbs() -> dict[str, Any]:
    """Return the commands of laconic by name."""
    group = laconic()
    return {name: command for name, command in group.commands.items() if not command.hidden}


def pages() -> dict[str, str]:
    """Return the pages by their names under reference/cli/."""
    return {"index.md": index(), **{f"{name}.md": page(name) for name in verbs()}}


def index() -> str:
    """Return the page that leads to all verbs, in the groups of `laconic --help`."""
    group = laconic()
    parts = ["# Command line", plain(group.help), "", "```console", "$ laconic VERB --help", "```", ""]
    panels: dict[str, list[str]] = {}
    for name, command in verbs().items():
        panels.setdefault(_panel(command) or "", []).append(name)
    for panel, names in panels.items():
        rows = [[f"[{name}]({name}.md)", plain(_first_sentence(verbs()[name]))] for name in names]
        parts += [f"## {panel}" if panel else "## Verbs", "", table(["verb", "what it does"], rows), ""]
    rows = [_option_row(param) for param in parameters(group)]
    parts += ["## Options of laconic itself", "", table(["option", "what it does"], rows), ""]
    parts += ["What a verb returns to the shell: [exit codes](../exit-codes.md)."]
    return "\n".join(parts) + "\n"


def page(name: str) -> str:
    """Return the page of a verb: usage, arguments, options by group, and its example."""
    command = verbs()[name]
    parts = [titled(name), f"# laconic {name}", "", _paragraphs(command.help or ""), ""]
    parts += ["```console", f"$ {usage(name)}", "```", ""]
    found = parameters(command)
    arguments = [param for param in found if is_argument(param)]
    if arguments:
        rows = [[code(_metavar(one)), _meaning(one)] for one in arguments]
        parts += ["## Arguments", "", table(["argument", "what it is"], rows), ""]
    options = [param for param in found if not is_argument(param)]
    for panel in dict.fromkeys(_panel(option) for option in options):
        rows = [_option_row(option) for option in options if _panel(option) == panel]
        parts += [f"## {panel or 'Options'}", "", table(["option", "what it does"], rows), ""]
    if example := examples(command):
        title = "## Example" + "s" * (len(example) > 1)
        parts += [title, "", "```console", *(f"$ {one}" for one in example), "```", ""]
    return "\n".join(parts)


def parameters(command: Any) -> list[Any]:
    """Return the options and arguments of a command, --help left out."""
    with typer.Context(command, info_name="laconic") as context:
        return [one for one in command.get_params(context) if one.name not in _HIDDEN and not _is_hidden(one)]


def is_argument(param: Any) -> bool:
    """Return whether a parameter is given by its place instead of by its name."""
    return bool(param.param_type_name == "argument")


def help_of(param: Any) -> str:
    """Return what the command line says about a parameter."""
    return " ".join((getattr(param, "help", None) or "").split())


def examples(command: Any) -> list[str]:
    """Return the commands of the example that ends a verb's help."""
    return re.findall(r"^\s*\$ (.+)$", command.epilog or "", re.MULTILINE)


def usage(name: str) -> str:
    """Return how a verb is called: its arguments and the options that it needs."""
    found = parameters(verbs()[name])
    arguments = [_metavar(one) for one in found if is_argument(one)]
    needed = [_written(one) for one in found if not is_argument(one) and one.required]
    return " ".join(["laconic", name, *arguments, *needed, *["[OPTIONS]"] * (len(found) > len(arguments + needed))])


def _first_sentence(command: Any) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


def _paragraphs(text: str) -> str:
    paragraphs = [" ".join(one.replace("\b", "").split()) for one in text.split("\n\n")]
    return "\n\n".join(plain(one) for one in paragraphs)


def _panel(param: Any) -> str | None:
    panel = getattr(param, "rich_help_panel", None)
    return panel if isinstance(panel, str) else None


def _is_hidden(param: Any) -> bool:
    return bool(getattr(param, "hidden", False))


def _metavar(param: Any) -> str:
    metavar = (param.metavar or param.name.upper()).strip("[]{}")
    return metavar if param.required else f"[{metavar}]"


def _option_row(option: Any) -> Sequence[str]:
    return [code(_written(option)), _meaning(option) + " Required." * bool(option.required)]


def _written(option: Any) -> str:
    value = "" if option.is_flag else " " + (option.metavar or _VALUES.get(_kind(option), "VALUE"))
    return ", ".join([*option.opts, *option.secondary_opts]) + value


def _meaning(param: Any) -> str:
    parts = [plain(help_of(param))]
    if bounds := _bounds(param):
        parts.append(plain(bounds))
    if default := _default(param):
        parts.append(f"Default: {code(default)}.")
    return " ".join(filter(None, parts))


def _kind(param: Any) -> Any:
    """Return the type of a parameter's value; typer keeps it in one place or another, by its version."""
    described = getattr(param, "type_descriptor", None)
    return described.annotation if described else {"integer": int, "float": float}.get(param.type.name.split()[0], str)


def _bounds(param: Any) -> str:
    described = getattr(param, "type_descriptor", None)
    info = described.parameter_info if described else param.type
    low, high = getattr(info, "min", None), getattr(info, "max", None)
    if low is None and high is None:
        return ""
    return f"{low} or more." if high is None else f"At most {high}." if low is None else f"{low} to {high}."


def _default(param: Any) -> str:
    value = param.default
    if param.required or value is None or value == "" or value == () or callable(value) or not param.show_default:
        return ""
    if isinstance(value, bool):
        return _flag_name(param, value)
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _flag_name(param: Any, value: bool) -> str:
    """Return the name of the flag that is the default; a flag that is off by default has none."""
    return str(param.opts[0]) if value else str(param.secondary_opts[0]) if param.secondary_opts else ""
