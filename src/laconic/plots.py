"""Pictures of a dataset and of what a model gets right, as PNG files.

They need matplotlib, which comes with the extra `track`. They are drawn through its objects, never its global state,
so that a server or a notebook keeps its own figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ConfigError, install_hint
from laconic.files import writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")  # Okabe and Ito: apart for all eyes
_POINTS = 2000  # on a logarithmic axis more cannot be told apart
_BARS = 60


def plot_contributions(
    contributions: Mapping[str, Float[np.ndarray, "bins"]],
    mean_frequency: Float[np.ndarray, "bins"],
    path: Path,
    *,
    k: int = 5,
) -> None:
    """What the labels of each frequency bin bring to P@k, models side by side (DeepXML, Figure 3; DECAF, Figure 4)."""
    figure, axes = canvas(f"Contribution to P@{k} by label frequency")
    bins = np.arange(len(mean_frequency))
    width = 0.8 / max(len(contributions), 1)
    for number, (model, points) in enumerate(contributions.items()):
        offset = (number - (len(contributions) - 1) / 2) * width
        axes.bar(bins + offset, points, width, label=model, color=COLOURS[number % len(COLOURS)])
    axes.set_xticks(bins, [f"{number + 1}\n({frequency:.3g})" for number, frequency in enumerate(mean_frequency)])
    axes.set_xlabel("bin, rarest labels first (mean training texts a label)")
    axes.set_ylabel(f"points of P@{k} (%)")
    if len(contributions) > 1:
        axes.legend(frameon=False)
    write_picture(figure, path)


def plot_lengths(lengths: Int[np.ndarray, "texts"], path: Path) -> None:
    """How many words texts have, with the length that 95 % of them do not exceed."""
    figure, axes = canvas("Words a text")
    shown = np.asarray(lengths)
    if len(shown):
        axes.hist(shown, bins=_length_bins(int(shown.max())), rwidth=0.9, color=COLOURS[0])
        most = int(np.quantile(shown, 0.95, method="inverted_cdf"))
        axes.axvline(most, color=COLOURS[5], linestyle="--", label=f"95 % have at most {most}")
        axes.legend(frameon=False)
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("words")
    axes.set_ylabel("texts")
    write_picture(figure, path)


def plot_label_frequencies(counts: Int[np.ndarray, "labels"], path: Path) -> None:
    """Labels from the most to the least frequent against their training texts: a straight fall is a power law."""
    figure, axes = canvas("Training texts a label")
    falling = np.sort(counts[counts > 0])[::-1]  # a logarithm has no place for labels without texts
    if len(falling):
        ranks = np.unique(np.geomspace(1, len(falling), _POINTS).round().astype(np.int64))
        axes.loglog(ranks, falling[ranks - 1], color=COLOURS[0], marker=".", markersize=3)
    axes.set_xlabel(f"rank of the label ({len(counts) - len(falling):,} of {len(counts):,} labels have no text)")
    axes.set_ylabel("training texts")
    write_picture(figure, path)


def plot_training(epochs: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The loss of every epoch and, where there was a validation split, its figure."""
    figure, axes = canvas("Training")
    numbers = [facts["epoch"] for facts in epochs]
    axes.semilogy(numbers, [facts["loss"] for facts in epochs], color=COLOURS[0], marker=".", label="loss (left)")
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss")
    lines = list(axes.lines)
    if epochs and epochs[0]["score"] is not None:
        right = axes.twinx()
        scores = [facts["score"] for facts in epochs]
        lines += right.plot(numbers, scores, color=COLOURS[1], marker=".", label="validation nDCG@5 (right, %)")
        best = int(np.argmax(scores))
        right.axvline(numbers[best], color=COLOURS[1], linestyle="--", linewidth=0.8)
        right.spines[["top"]].set_visible(False)
    axes.legend(handles=lines, frameon=False, loc="center right")
    write_picture(figure, path)


def plot_sweep(points: Sequence[Mapping[str, float]], dial: str, path: Path) -> None:
    """Precision, plain and weighed by propensity, against the place of a model's dial."""
    figure, axes = canvas(f"P@5 and PSP@5 by {dial}")
    shown = sorted(points, key=lambda point: point[dial])
    for name, colour in zip(("P@5", "PSP@5"), COLOURS, strict=False):
        places = [point[dial] for point in shown if name in point]
        axes.plot(places, [point[name] for point in shown if name in point], color=colour, marker=".", label=name)
    if dial == "top":
        axes.set_xscale("log")
    axes.set_xlabel(dial)
    axes.set_ylabel("%")
    axes.legend(frameon=False)
    write_picture(figure, path)


def plot_speed(points: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Precision against the time of one text, at every place of a packed model's dial."""
    figure, axes = canvas("P@5 against the time of one text")
    times, precision = [point["p50"] for point in points], [point["P@5"] for point in points]
    axes.plot(times, precision, color=COLOURS[0], marker="o", markersize=4)
    axes.set_xscale("log", subs=[2, 5])
    for point in points:
        where, text = (point["p50"], point["P@5"]), str(point["dial"])
        name = axes.annotate(text, where, (4, -4), textcoords="offset points", fontsize=8, va="top")
        name.set(rotation=-40, rotation_mode="anchor")  # below the line, which falls the other way
    height = max(1, max(precision) - min(precision))  # or what is hardly anything would look like much
    axes.set_ylim(max(precision) - 1.4 * height, max(precision) + 0.1 * height)
    for formatted in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        formatted("{x:g}")
    axes.margins(x=0.12)
    axes.set_xlabel("milliseconds, the median, one thread")
    axes.set_ylabel("P@5 (%)")
    write_picture(figure, path)


def canvas(title: str) -> tuple[Figure, Axes]:
    """An empty picture in the style of all of them."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(f"pictures need matplotlib, which is not here: {install_hint('track')}") from error
    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.5, alpha=0.4)
    axes.set_axisbelow(True)
    return figure, axes


def write_picture(figure: Figure, path: Path) -> None:
    """Whole or not at all; the same picture is the same bytes."""
    with writing(path) as file:
        figure.savefig(file, format="png", backend="agg", metadata={"Software": None})


def _length_bins(longest: int) -> list[float]:
    """Edges halfway between whole numbers: one bar a length, or as many lengths a bar as keep the bars countable."""
    step = -(-(longest + 1) // _BARS)
    return [edge - 0.5 for edge in range(0, longest + step + 1, step)]
