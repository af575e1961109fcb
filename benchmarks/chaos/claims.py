"""What was to be seen, and whether it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from laconic.units import counted


class Claim(NamedTuple):
    what: str
    found: str
    holds: bool


def exceptions(number: int) -> str:
    """Say how many cases a claim does not hold for."""
    return counted(number, "exception")


def how_often(counts: Mapping[str, int]) -> str:
    """Say how often each of several things was found."""
    return ", ".join(f"{name} ({times:,} times)" for name, times in counts.items())


def found_and_claimed(figures: Mapping[str, Any], *claims: Claim) -> dict[str, Any]:
    return {**figures, "claims": [claim._asdict() for claim in claims]}


def table(experiments: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        (name, claim["what"], claim["found"], "holds" if claim["holds"] else "DOES NOT HOLD")
        for name, figures in experiments.items()
        for claim in figures["claims"]
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def broken(experiments: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [claim["what"] for figures in experiments.values() for claim in figures["claims"] if not claim["holds"]]
