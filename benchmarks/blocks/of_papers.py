"""A paper's table on a page: our rows beside the printed ones, where signs differ, and how the rows were made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.papers import report
from benchmarks.papers.datasets import PUBLISHED, Dataset
from benchmarks.papers.rows import ROWS
from benchmarks.tables import Results, Spread, apart, by_data, found, joined, listed, side_by_side

CLAIMS = ("P@1", "PSP@5")  # of which signs are compared with a paper's
PAIRS = {  # rows that are not compared with the first of their table
    "Parabel + metadata": "Parabel",
    "Bonsai + metadata": "Bonsai",
    "DeepXML + XML-CNN": "XML-CNN as published",
    "DeepXML + MACH": "MACH as published",
}


def of_paper(
    results: Results, paper: str, what: str, *, suffix: str = "", order: Callable[[str], int] | None = None
) -> str:
    """Return a table of a paper for each dataset that it was made of, in the table's order unless one is given."""
    file = f"{paper}_{what.replace(' ', '_')}{suffix}"
    parts = []
    for name, runs in by_data(results, file).items():
        data = Dataset(name, paper)
        wanted = sorted(runs, key=order) if order else [row.name for row in ROWS[paper][what](data)]
        rows = {one: runs[one] for one in wanted if one in runs}
        missing = [one for one in wanted if one not in runs]
        parts += [f"{name}:", report.body(paper, what, data, rows), signs(paper, what, rows)]
        parts.append(f"Not trained on {name}: {listed(missing)}." if missing else "")
    timed = any(" hours |" in part for part in parts)
    return joined(*parts, how_made(found(results, file), timed=timed))


def how_made(figures: Mapping[str, Any], *, timed: bool) -> str:
    """Name the commands and, where times are shown, say how many trainings shared the GPU."""
    command = figures["command"]
    commands = [*figures.get("earlier commands", []), command]
    made = " and ".join(f"`{one.partition(' --results')[0]}`" for one in commands)
    where = "on a CPU" if "--device cpu" in command else f"{side_by_side(figures)} on one GPU"
    shared = ": times are of trainings that shared it, each would be quicker alone" if "at once" in where else ""
    return f"Made by {made}" + (f", {where}{shared}." if timed else ".")


def signs(paper: str, what: str, rows: Mapping[str, Any]) -> str:
    """Name the effects whose sign is another than the paper's on all its datasets."""
    printed, compared, differ = printed_effects(paper, what), 0, list[str]()
    for name, row in rows.items():
        base = PAIRS.get(name, next(iter(rows)))
        if base == name or base not in rows or name not in printed:
            continue
        gaps = apart(row, rows[base], [one for one in CLAIMS if all(one in theirs for theirs in printed[name])])
        compared += len(gaps)
        differ += filter(None, (told(name, figure, gap, printed[name], row) for figure, gap in gaps.items()))
        differ += slower(name, base, rows, printed[name])
    return f"Effects whose sign is not the paper's: {'; '.join(differ) or 'none'}." if compared else ""


def printed_effects(paper: str, what: str) -> dict[str, list[dict[str, float]]]:
    """Return what each row changes in the paper, a dict for each of its datasets that has the row."""
    effects: dict[str, list[dict[str, float]]] = {}
    for printed in PUBLISHED[paper].get(what.removeprefix("table "), {}).values():
        first = next(iter(printed))
        for name, row in printed.items():
            if "ΔP@1" in row:
                effects.setdefault(name, []).append({"P@1": row["ΔP@1"], "speed-up": row["speed-up"]})
            elif (base := PAIRS.get(name, first)) in printed and base != name:
                both = [one for one in CLAIMS if one in row and one in printed[base]]
                effects.setdefault(name, []).append({one: mean(row[one]) - mean(printed[base][one]) for one in both})
    return effects


def told(name: str, figure: str, gap: Spread, printed: Sequence[Mapping[str, float]], row: Mapping[str, Any]) -> str:
    """Tell an effect of another sign than the printed ones, and whether it may be chance; "" where it is theirs."""
    if any(theirs[figure] * gap.mean >= 0 for theirs in printed):
        return ""
    weak = ", less than two standard errors" if abs(gap.mean) < 2 * gap.deviation else ""
    alone = ", one seed" if row["seeds"] == 1 else ""
    theirs = " and ".join(Spread(one[figure]).signed for one in printed)
    return f"{name}, {figure} {gap.signed} here{weak}{alone}, {theirs} in the paper"


def slower(name: str, base: str, rows: Mapping[str, Any], printed: Sequence[Mapping[str, float]]) -> list[str]:
    """Tell where a method takes longer than the one it is compared with, and in the paper it does not."""
    faster = [theirs["speed-up"] for theirs in printed if "speed-up" in theirs]
    if not faster or any("seconds" not in rows[one] for one in (name, base)):
        return []
    ours = rows[base]["seconds"]["mean"] / rows[name]["seconds"]["mean"]
    return [f"{name} is {ours:.1f}× as fast here, {faster[0]}× in the paper"] if ours < 1 < min(faster) else []


def mean(value: float | list[float]) -> float:
    return value[0] if isinstance(value, list) else value
