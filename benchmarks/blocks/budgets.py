"""docs/combined.md: whether a training ends when its budget does, and what more time brings."""

from __future__ import annotations

from typing import Any

from benchmarks.tables import USUAL, NotMeasuredError, Results, found, joined, number, table

FILE = "budgets"
_GIGA = 1e9
_BUSY = ", busy"


def what_time_brings(results: Results) -> str:
    """Return a table of every training with a budget: what it took beside what was estimated, and its accuracy."""
    runs = {name: run for name, run in found(results, FILE).items() if isinstance(run, dict) and run.get("budget")}
    if not runs:
        raise NotMeasuredError("trainings with a budget (`python -m benchmarks.budgets`)")
    ordered = sorted(runs.items(), key=lambda one: (_data(one[0]), one[1]["budget"], one[0].endswith(_BUSY)))
    head = ["", "budget, s", "took, s", "estimated, s", "memory, GB", "estimated, GB", *USUAL]
    how = (
        "Two CPU cores; estimates are those before training began, with the time of reading. Made by "
        "`python -m benchmarks.budgets`, each training by itself (`--only`)."
    )
    return joined(table(head, [_row(name, run) for name, run in ordered]), how)


def _row(name: str, run: dict[str, Any]) -> list[str]:
    estimated = run["estimated"] or {}
    return [
        _data(name) + (", another process on one core" if name.endswith(_BUSY) else ""),
        number(run["budget"], 0),
        f"{run['seconds']:.0f} ({run['seconds'] / run['budget'] - 1:+.0%})".replace("-", "−"),
        number(estimated["seconds"], 0) if "seconds" in estimated else "",
        number(run["memory"] / _GIGA, 1),
        number(estimated["memory"] / _GIGA, 1) if "memory" in estimated else "",
        *(number(run[metric], 1) for metric in USUAL),
    ]


def _data(name: str) -> str:
    return name.partition(" ")[0]
