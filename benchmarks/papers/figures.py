"""Our versions of the papers' figures, as PNG files, from measured rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.datasets import Dataset
from benchmarks.papers.plots import plot_bars, plot_permutations, plot_progress
from benchmarks.papers.report import SIX
from benchmarks.tables import spreads
from laconic.analysis.plots import COLOURS, canvas, plot_contributions, write_picture

Rows = Mapping[str, Any]


def draw(paper: str, what: str, data: Dataset, rows: Rows, folder: Path) -> None:
    """Draw a figure where its rows are there; tables have none."""
    make = FIGURES.get((paper, what))
    path = folder / f"{paper}-{what.replace(' ', '-')}-{data.name}.png"
    if make is not None and make(rows, path):
        print(f"drawn: {path}")


def contributions(rows: Rows, path: Path, kind: str) -> None:
    """Where P@5 comes from, method by method (DeepXML, Figure 3; DECAF, Figure 4)."""
    there = {name: row["quantiles"][kind] for name, row in rows.items() if "quantiles" in row}
    if not there:
        return
    bins = next(iter(there.values()))
    points = {name: np.array(one["contribution"]) for name, one in there.items()}
    plot_contributions(points, np.array(bins["mean_frequency"]), path, k=bins["k"])


def plot_negatives(rows: Rows, path: Path) -> None:
    """P@1 by the number of random negatives, beside every label and the shortlist (DeepXML, Figure 2)."""
    figure, axes = canvas("Random negatives a text, against every label and against the shortlist")
    for number, kind in enumerate(("uniform", "unigram")):
        points = {int(name.split(", ")[1]): row for name, row in rows.items() if name.startswith(f"{kind}, ")}
        if points:
            values = [points[count]["P@1"]["mean"] for count in sorted(points)]
            axes.plot(sorted(points), values, marker=".", color=COLOURS[number], label=kind)
    for number, name in enumerate(("every label", "shortlist"), start=2):
        if name in rows:
            axes.axhline(rows[name]["P@1"]["mean"], color=COLOURS[number], linestyle="--", label=name)
    axes.set_xscale("log")
    axes.set_xlabel("random negatives a text (logarithmic)")
    axes.set_ylabel("P@1 (%)")
    axes.legend(frameon=False, loc="lower right")
    write_picture(figure, path)


def plot_ensembles(rows: Rows, path: Path) -> None:
    """What each further instance brings (DECAF, Figure 5)."""
    figure, axes = canvas("What an ensemble wins over a single instance")
    row = next(iter(rows.values()))
    names = ["1 instance", *(f"{size} instances" for size in range(2, 100))]
    names = [name for name in names if f"{name}: P@1" in row]
    for name, colour in zip(("P@1", "P@5", "PSP@1", "PSP@5"), COLOURS, strict=False):
        values = [row[f"{size}: {name}"]["mean"] for size in names] + [row[name]["mean"]]
        won = [value - values[0] for value in values]
        sizes = range(1, len(values) + 1)
        axes.plot(sizes, won, color=colour, marker=".", label=f"{name} ({values[0]:.1f} alone)")
    axes.set_xticks(range(1, len(names) + 2))
    axes.set_xlabel("instances, which share the surrogate task")
    axes.set_ylabel("points")
    axes.legend(frameon=False, loc="upper left")
    write_picture(figure, path)


def plot_recalls(rows: Rows, path: Path) -> None:
    """True labels of held-out texts in the clusters opened, by how many labels these have (DECAF, Figure 6)."""
    figure, axes = canvas("Recall by beam, for each fan-out")
    recalls = {int(clusters): row["recall by beam"] for clusters, row in rows.items()}
    for (clusters, found), colour in zip(sorted(recalls.items()), COLOURS, strict=False):
        shares, values = [int(beam) / clusters for beam in found], [100 * share for share in found.values()]
        axes.plot(shares, values, color=colour, marker=".", label=f"{clusters:,} clusters")
    axes.axhline(85, color="0.4", linestyle=":")
    axes.set_xscale("log")
    axes.set_xlabel("share of all labels that are scored (beam over clusters, logarithmic)")
    axes.set_ylabel("true labels found (%)")
    axes.legend(frameon=False, loc="lower right")
    write_picture(figure, path)


def progress(rows: Rows, path: Path) -> None:
    """Both classifiers by epoch; the first quarter of ours is detached (InceptionXML, Figure 3)."""
    histories = {name: row["history"] for name, row in rows.items()}
    plot_progress(histories, len(next(iter(histories.values()))) / 4, path)


def orders(rows: Rows, path: Path) -> None:
    """Spread over permutations of dimensions (InceptionXML, Figure 4)."""
    plain, *others = (spreads(row) for _, row in sorted(rows.items(), key=lambda one: int(one[0].split()[-1])))
    if others:
        permuted = {name: [other[name].mean for other in others] for name in SIX}
        plot_permutations(permuted, {name: plain[name].mean for name in SIX}, path)


def bars(rows: Rows, path: Path) -> None:
    """With and without attention (InceptionXML, Figure 5)."""
    plot_bars({name: {one: spreads(row)[one] for one in SIX} for name, row in rows.items()}, path)


def drawn(make: Callable[[Rows, Path], None]) -> Callable[[Rows, Path], bool]:
    """Return a function that draws where there are rows, and says whether there is a picture now."""

    def draw_there(rows: Rows, path: Path) -> bool:
        if rows:
            make(rows, path)
        return path.exists()

    return draw_there


FIGURES = {
    ("inceptionxml", "figure 3"): drawn(progress),
    ("inceptionxml", "figure 4"): drawn(orders),
    ("inceptionxml", "figure 5"): drawn(bars),
    ("deepxml", "figure 2"): drawn(plot_negatives),
    ("deepxml", "figure 3"): drawn(lambda rows, path: contributions(rows, path, "equal label count")),
    ("decaf", "figure 4"): drawn(lambda rows, path: contributions(rows, path, "equal total frequency")),
    ("decaf", "figure 5"): drawn(plot_ensembles),
    ("decaf", "figure 6"): drawn(plot_recalls),
}
