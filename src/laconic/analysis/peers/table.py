"""Tables of a contest for a terminal and in markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from laconic.analysis.peers.contest import Entry
from laconic.analysis.peers.exam import FIGURES

_COLUMNS = (*FIGURES, "train s", "disk MB", "ms a text")
_NAME = 16  # the least width of names


def contest_table(entries: Sequence[Entry], title: str) -> Table:
    """Return a table that fits a terminal of 80 columns."""
    narrow: dict[str, Any] = {"box": SIMPLE_HEAD, "padding": 0, "show_edge": False}
    table = Table(title=title, title_justify="left", title_style="bold", **narrow)
    table.add_column("%", overflow="fold", min_width=_NAME)
    for column in _COLUMNS:
        table.add_column(column.replace(" ", "\n", 1), justify="right", no_wrap=True)
    for entry in entries:
        table.add_row(_name(entry), *_cells(entry))
    return table


def contest_notes(entries: Sequence[Entry]) -> list[str]:
    """Describe how each model was called, and why some have no metrics."""
    asked = [f"{entry.name}: {entry.how}" for entry in entries]
    return asked + [f"{entry.name} failed: {entry.failure}" for entry in entries if entry.failure]


def contest_markdown(entries: Sequence[Entry], title: str, command: str) -> str:
    rows = [["%", *_COLUMNS], ["---"] * (1 + len(_COLUMNS)), *([_safe(_name(one)), *_cells(one)] for one in entries)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    asked = "\n".join(f"- {_safe(entry.name)}: `{entry.how}`" for entry in entries)
    failed = "\n".join(f"- {_safe(entry.name)} failed: {_safe(entry.failure)}" for entry in entries if entry.failure)
    return "\n\n".join(filter(None, (title, table, f"Made by `{command}`.", asked, failed))) + "\n"


def _name(entry: Entry) -> str:
    return f"{entry.name}: failed" if entry.failure else entry.name


def _cells(entry: Entry) -> list[str]:
    if entry.failure:
        return [""] * len(_COLUMNS)
    known = (
        "" if entry.seconds is None else f"{entry.seconds:,.1f}",
        "" if entry.size is None else f"{entry.size / 1e6:,.1f}",
        "" if entry.p50 is None else f"{entry.p50:.2f}",
    )
    return [*(f"{entry.figures[name]:.1f}" for name in FIGURES), *known]


def _safe(text: str) -> str:
    """Escape bars, which would end a markdown cell."""
    return text.replace("|", "\\|")
