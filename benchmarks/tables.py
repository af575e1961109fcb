"""Results as markdown: the files of results, means with deviations, differences with standard errors, one table."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.common import RESULTS

PAPERS = ("inceptionxml", "deepxml", "decaf")
PRECISIONS = ("P@1", "P@3", "P@5")
FIGURES = (*PRECISIONS, "PSP@1", "PSP@3", "PSP@5")
USUAL = ("P@1", "P@5", "PSP@5", "tail R@10")  # what README's tables have

Results = Mapping[str, Any]  # what the files of results hold, by their names


class NotMeasuredError(LookupError):
    """A result that has not been measured yet."""


class Spread(NamedTuple):
    """A mean and a deviation: that of runs, or of the mean itself where it is a difference."""

    mean: float
    deviation: float = 0.0

    @classmethod
    def of(cls, value: Any) -> Spread:
        """Read any of the forms in which results are written."""
        if isinstance(value, dict):
            return cls(value["mean"], value["sd"])
        if isinstance(value, str):
            return cls(*map(float, value.split(" ± ")))
        return cls(value)

    def __str__(self) -> str:
        return self.told(2)

    def told(self, digits: int) -> str:
        return f"{self.mean:.{digits}f}" + (f" ± {self.deviation:.{digits}f}" if self.deviation else "")

    @property
    def signed(self) -> str:
        return f"{self.mean:+.2f}".replace("-", "−") + (f" ± {self.deviation:.2f}" if self.deviation else "")


def every_result() -> dict[str, Any]:
    """Read all files of results, by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))}


def found(results: Results, *keys: str) -> Any:
    """Return what a file of results holds under these keys."""
    file, *inside = keys
    value: Any = results.get(file)
    if value is None:
        raise NotMeasuredError(
            f"there is no `benchmarks/results/{file}.json`; `python -m benchmarks.{maker(file)}` makes it"
        )
    for key in inside:
        if key not in value:
            raise NotMeasuredError(f"`benchmarks/results/{file}.json` has no {' → '.join(inside)}")
        value = value[key]
    return value


def by_data(results: Results, file: str) -> dict[str, dict[str, Any]]:
    """Return a file's runs by dataset; what else a file tells is no dict."""
    return {data: runs for data, runs in sorted(found(results, file).items()) if isinstance(runs, dict)}


def maker(file: str) -> str:
    """Return the command of a results file that is missing: those of papers are named PAPER_table_N and the like."""
    paper, _, what = file.partition("_")
    kind, _, number = what.partition("_")
    if paper not in PAPERS:
        return file
    return f"papers {paper} " + (f"--{kind} {number}" if kind in ("table", "figure") else f"--part {what}")


def spreads(figures: Mapping[str, Any]) -> dict[str, Spread]:
    """Return those of a model's figures that are numbers."""
    return {name: Spread.of(value) for name, value in figures.items() if name in FIGURES}


def cells(run: Mapping[str, Any], prefix: str = "", columns: Sequence[str] = USUAL, digits: int = 2) -> list[str]:
    """Return a run's figures, of which those of one kind begin with a prefix; "–" where one is missing."""
    return [Spread.of(run[prefix + name]).told(digits) if prefix + name in run else "–" for name in columns]


def apart(one: Mapping[str, Any], other: Mapping[str, Any], names: Sequence[str]) -> dict[str, Spread]:
    """Return the differences of two models' means, with their standard errors."""
    pairs = {name: (Spread.of(one[name]), Spread.of(other[name])) for name in names}
    return {
        name: Spread(a.mean - b.mean, math.sqrt(a.deviation**2 / one["seeds"] + b.deviation**2 / other["seeds"]))
        for name, (a, b) in pairs.items()
    }


def told(gaps: Mapping[str, Spread], sign: int) -> str:
    """List the differences of that sign, and say which of them are too small to mean much."""
    return listed(
        [
            f"{name} ({gap.signed}" + (", less than two standard errors)" if abs(gap.mean) < 2 * gap.deviation else ")")
            for name, gap in gaps.items()
            if sign * gap.mean > 0
        ]
    )


def side_by_side(figures: Mapping[str, Any]) -> str:
    """Say how many trainings shared the GPU, as the command says that made the figures."""
    at_once = re.search(r"--at-once (\d+)", figures.get("command", ""))
    return "one training at a time" if at_once is None or at_once[1] == "1" else f"up to {at_once[1]} trainings at once"


def seeds_of(count: int) -> str:
    return "one seed" if count == 1 else f"mean of {count} seeds"


def number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def picture(what: str, file: str) -> str:
    return f"![{what}](pictures/{file})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
