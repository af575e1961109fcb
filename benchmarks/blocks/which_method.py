"""docs/which-method.md: every method beside the other libraries on one dataset, as a table and a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.tables import USUAL, Results, found, joined, number, picture, table
from laconic.analysis.plots import write_picture

PICTURE = "which-method.png"
FILE = "which_method"
_SIDES = [(7, 0, "left"), (-7, 0, "right"), (5, 9, "left"), (5, -9, "left"), (-5, 9, "right"), (-5, -9, "right")]


SHORT = (
    "default",
    "trees (",
    "omikuji",
    "PECOS",
    "napkinXC",
    "fastText",
)  # names of the rows that README shows begin so


def compared(results: Results) -> str:
    """Return the table: accuracy, the tail, training time, size and latency of every method and library."""
    return _table(results, lambda name: True)


def short(results: Results) -> str:
    """Return the rows of the default, of label trees and of other libraries."""
    return _table(results, lambda name: name.startswith(SHORT))


def _table(results: Results, wanted: Callable[[str], bool]) -> str:
    bench = found(results, FILE)
    entries = bench["entries"]
    rows = [
        [
            name_of(one) + (" ²" if one.get("earlier") else ""),
            trained_on(one),
            *(number(one["figures"].get(name), 1) for name in USUAL),
            number(one["seconds"], 0),
            number(one["size"] / 1e6, 0),
            number(one["p50"], 2),
        ]
        for one in sorted(entries, key=lambda one: -one["figures"]["P@5"])
        if wanted(one["name"])
    ]
    head = ["", "trained on", *USUAL, "train s", "MB", "ms per text"]
    how = (
        f"{bench['data']}, {bench['texts']:,} test texts, one training each. MB: the files that prediction needs. "
        f"Ms per text: one text at a time on one core, from the text to label names. "
        f"Made by `{bench['command']}` ({bench['machine']})."
    )
    return joined(table(head, rows), how)


def name_of(entry: dict[str, Any]) -> str:
    """Return a model's name without where it was trained; a library keeps its own."""
    name: str = entry["name"].partition(" (")[0]
    if not is_ours(entry):
        return str(entry["name"])
    place = {", GPU": "", ", laptop": " --preset laptop"}
    place |= {", 5 minutes": " --budget 5m", ", 10 minutes": " --budget 10m"}
    for ending, option in place.items():
        if name.endswith(ending):
            name = name.removesuffix(ending) + option
    return f"**`{name.replace('default', 'laconic train')}`**" if name.startswith("default") else f"`{name}`"


def trained_on(entry: dict[str, Any]) -> str:
    if not is_ours(entry):
        return "2 cores"
    return "2 cores" if "--device cpu" in entry["how"] else "a GPU"


def is_ours(entry: dict[str, Any]) -> bool:
    return str(entry["how"]).startswith("laconic train")


def drawings(results: Results) -> dict[str, Callable[[Path], None]]:
    return {PICTURE: lambda path: draw(found(results, FILE)["entries"], path)} if FILE in results else {}


def shown(results: Results) -> str:
    found(results, FILE)
    return picture("Accuracy against training time, and the tail against the time of an answer", PICTURE)


def draw(entries: list[dict[str, Any]], path: Path) -> None:
    """Plot P@5 against the seconds of training, and recall of rare labels against the milliseconds of an answer."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 9), layout="constrained", dpi=110)
    sides = (("seconds", "P@5", "seconds of training"), ("p50", "tail R@10", "milliseconds of one text on one core"))
    for axis, (across, up, title) in zip(figure.subplots(2, 1), sides, strict=True):
        points = [(entry[across], entry["figures"][up]) for entry in entries]
        for point, entry in zip(points, entries, strict=True):
            marker = "^" if trained_on(entry) == "a GPU" else "o"
            axis.scatter(*point, c=_colour(entry), marker=marker, s=36)
        axis.set_xscale("log")
        axis.set(xlabel=title, ylabel=f"{up}, %")
        axis.margins(0.08)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
        figure.draw_without_rendering()
        _name_points(axis, points, entries)
    write_picture(figure, path)


def _name_points(axis: Any, points: list[tuple[float, float]], entries: list[dict[str, Any]]) -> None:
    """Write each name on the first side of its point where it covers neither another name nor a point."""
    spots = [axis.transData.transform(point) for point in points]
    taken: list[Any] = []
    for point, entry in zip(points, entries, strict=True):
        label = entry["name"].partition(" (")[0].replace(", hierarchical softmax", "").replace("-like", "")
        weight = "bold" if label.startswith("default") else "normal"
        for across, up, side in _SIDES:
            text = axis.annotate(
                label,
                point,
                xytext=(across, up),
                textcoords="offset points",
                ha=side,
                va="center",
                color=_colour(entry),
                fontsize=8,
                weight=weight,
            )
            box = text.get_window_extent()
            free = not box.count_overlaps(taken) and not any(box.contains(*spot) for spot in spots)
            if free or (across, up, side) == _SIDES[-1]:
                taken.append(box)
                break
            text.remove()


def _colour(entry: dict[str, Any]) -> str:
    return "tab:blue" if is_ours(entry) else "dimgray"
