"""docs/combined.md: where time and memory of the default go, stage by stage, at several sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.tables import NotMeasuredError, Results, found, joined, number, picture, table
from laconic.analysis.plots import write_picture
from laconic.training.stages import title_of

PICTURE = "stages.png"
FILE = "stages"
_BESIDE = "-beside"  # ends the name of a stage that ran while others did
_GIGA = 1e9


def where_time_goes(results: Results) -> str:
    """Return the picture and a table of seconds, memory and sizes of every run."""
    runs = _runs(results)
    rows = [
        [
            f"{run['data']} ({run['on']})",
            f"{run['sizes']['texts']:,}",
            f"{run['sizes']['labels']:,}",
            number(sum(seconds for _, seconds, _ in timeline(run)), 0),
            number(max(memory for *_, memory in timeline(run)) / _GIGA, 1),
            number(run["model_bytes"] / 1e6, 0),
            number(run["packed_bytes"] / 1e6, 0),
        ]
        for run in runs
    ]
    head = ["", "texts", "labels", "seconds in stages", "GB of memory", "model MB", "packed MB"]
    how = (
        f"From files to an evaluated and packed model. The last rows were added by `{found(results, FILE)['command']}`."
    )
    return joined(picture("Seconds and memory of every stage of a training", PICTURE), table(head, rows), how)


def drawings(results: Results) -> dict[str, Callable[[Path], None]]:
    return {PICTURE: lambda path: draw(_runs(results), path)} if FILE in results else {}


def timeline(run: dict[str, Any]) -> list[tuple[str, float, int]]:
    """Return titles, seconds and bytes of what ran one after the other; stages of the same title are one."""
    parts = dict[str, tuple[float, int]]()
    for stage in run["stages"]:
        if not stage["stage"].endswith(_BESIDE):
            title = _title(stage["stage"])
            seconds, memory = parts.get(title, (0.0, 0))
            parts[title] = seconds + stage["seconds"], max(memory, stage["memory"])
    return [(title, *both) for title, both in parts.items()]


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    """Draw the seconds of each run's stages one after the other, and the most memory that each held."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 2.9 * len(runs)), layout="constrained", dpi=110)
    for axis, run in zip(figure.subplots(len(runs), 1, squeeze=False)[:, 0], runs, strict=True):
        parts = [part for part in timeline(run) if part[1] >= 0.01 * sum(seconds for _, seconds, _ in timeline(run))]
        seconds, memory = [part[1] for part in parts], [part[2] / _GIGA for part in parts]
        begins = [sum(seconds[:number]) for number in range(len(parts))]
        axis.barh(range(len(parts)), seconds, left=begins, color="tab:blue")
        for place, (begin, length, held) in enumerate(zip(begins, seconds, memory, strict=True)):
            words = f" {length:.0f} s" + (f", {held:.1f} GB" if held else "")
            axis.text(begin + length, place, words, va="center", fontsize=8)
        for stage in run["stages"]:
            if stage["stage"].endswith(_BESIDE):
                title = f"{_title(stage['stage'].removesuffix(_BESIDE))}, beside others: {stage['seconds']:.0f} s"
                axis.plot([], [], " ", label=title)
        axis.set_yticks(range(len(parts)), [part[0] for part in parts], fontsize=8)
        axis.invert_yaxis()
        axis.margins(x=0.15)
        axis.set_title(f"{run['data']}: {run['sizes']['texts']:,} texts, {run['sizes']['labels']:,} labels", fontsize=9)
        axis.set_xlabel(f"seconds, {run['on']}", fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=8, handlelength=0, frameon=False)
    write_picture(figure, path)


def _runs(results: Results) -> list[dict[str, Any]]:
    """Return the runs, the one of the fewest texts first."""
    runs = [run for run in found(results, FILE).values() if isinstance(run, dict) and "stages" in run]
    if not runs:
        raise NotMeasuredError("stages of trainings (`python -m benchmarks.stages`)")
    return sorted(runs, key=lambda run: int(run["sizes"]["texts"]))


def _title(stage: str) -> str:
    """Return the title of a stage without its round."""
    return title_of(stage).partition(", ")[0] or stage
