"""Our versions of the InceptionXML paper's Figures 1, 3, 4 and 5, and the sweep over top-K, as PNG files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from laconic.analysis.plots import COLOURS, canvas, write_picture

BLUE, ORANGE, GREEN, RED = COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[5]
AREA = 2.0  # of a dot, square points a megabyte


class Dot(NamedTuple):
    name: str
    seconds: float
    precision: float
    megabytes: float | None  # None: not known


def plot_trade_off(dots: Sequence[Dot], path: Path) -> None:
    """Accuracy against training time, with the model's size as the area of its dot (Figure 1)."""
    figure, axes = canvas("P@1 against training time; areas are model sizes (squares: not known)")
    for number, dot in enumerate(dots, start=1):
        known = dot.megabytes is not None
        area = AREA * (dot.megabytes or 18)
        colours = {"facecolor": BLUE, "alpha": 0.7} if known else {"facecolor": "none", "edgecolor": "0.4"}
        axes.scatter(dot.seconds, dot.precision, s=area, marker="o" if known else "s", **colours)
        beside = ((area / np.pi) ** 0.5 + 3, -3)
        axes.annotate(str(number), (dot.seconds, dot.precision), beside, textcoords="offset points")
        axes.plot([], [], " ", label=f"{number}  {dot.name}" + (f", {dot.megabytes:.0f} MB" if known else ""))
    axes.set_xscale("log")
    axes.margins(x=0.1, y=0.15)
    axes.set_xlabel("seconds of training, as measured (logarithmic)")
    axes.set_ylabel("P@1 (%)")
    axes.legend(frameon=False, loc="lower right", handlelength=0, handletextpad=0)
    write_picture(figure, path)


def plot_progress(histories: Mapping[str, Sequence[Mapping[str, Any]]], attached: float, path: Path) -> None:
    """P@1 of both classifiers by epoch, a line style a framework; `attached` ends detached training (Figure 3)."""
    figure, axes = canvas("Progress of both classifiers on held-out texts")
    for (framework, epochs), style in zip(histories.items(), ("-", "--"), strict=True):
        for key, name, colour in (("cluster P@1", "meta", RED), ("P@1", "extreme", BLUE)):
            values = [epoch["figures"][key] for epoch in epochs]
            axes.plot([epoch["epoch"] for epoch in epochs], values, style, color=colour, label=f"{name}, {framework}")
    axes.axvline(attached, color="0.4", linestyle=":", label="ours: encoder attached to the extreme classifier")
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("epoch")
    axes.set_ylabel("P@1 (%)")
    axes.legend(frameon=False, loc="lower right")
    write_picture(figure, path)


def plot_permutations(permuted: Mapping[str, Sequence[float]], unpermuted: Mapping[str, float], path: Path) -> None:
    """Each figure's differences from its median over permutations of the dimensions (Figure 4)."""
    figure, axes = canvas("Dimensions of the word vectors in ten other orders")
    medians = {name: float(np.median(values)) for name, values in permuted.items()}
    places = np.arange(len(permuted))
    axes.boxplot([np.subtract(values, medians[name]) for name, values in permuted.items()], positions=places)
    apart = [unpermuted[name] - medians[name] for name in permuted]
    axes.plot(places, apart, "D", color=RED, label="as they come")
    axes.axhline(0, color="0.4", linewidth=0.5)
    axes.set_xticks(places, [f"{name}\n{median:.2f}" for name, median in medians.items()])
    axes.set_xlabel("figure, and its median over the ten")
    axes.set_ylabel("points from the median")
    axes.legend(frameon=False, loc="upper right")
    write_picture(figure, path)


def plot_bars(models: Mapping[str, Mapping[str, tuple[float, float]]], path: Path) -> None:
    """Means with deviations, models side by side over every figure (Figure 5)."""
    figure, axes = canvas("With and without the attention layers")
    width = 0.8 / len(models)
    for number, (model, figures) in enumerate(models.items()):
        places = np.arange(len(figures)) + (number - (len(models) - 1) / 2) * width
        means, deviations = zip(*figures.values(), strict=True)
        bars = axes.bar(places, means, width, yerr=deviations, capsize=3, label=model, color=COLOURS[number])
        axes.bar_label(bars, fmt="%.2f", fontsize=7, padding=2)
        axes.set_xticks(np.arange(len(figures)), list(figures))
    axes.set_ylabel("%, bars are deviations of seeds")
    axes.legend(frameon=False, loc="upper right")
    write_picture(figure, path)


def plot_sweep(sweep: Sequence[Mapping[str, float]], trained: int, path: Path) -> None:
    """What opening more clusters finds, and what becomes of precision."""
    figure, axes = canvas("One model, more or fewer clusters opened")
    tops = [point["top"] for point in sweep]
    for name, colour in (("shortlist recall", ORANGE), ("P@1", BLUE), ("P@3", GREEN), ("P@5", RED)):
        axes.semilogx(tops, [point[name] for point in sweep], marker=".", color=colour, label=name)
    axes.axvline(trained, color="0.4", linestyle=":")
    axes.annotate("K of its training", (trained, 3), (4, 0), textcoords="offset points")
    axes.set_ylim(0, 100)
    axes.set_xticks(tops, [f"{top:.0f}" for top in tops])
    axes.minorticks_off()
    axes.set_xlabel("K, clusters opened (logarithmic)")
    axes.set_ylabel("%")
    axes.legend(frameon=False, loc="lower left", ncols=2)
    write_picture(figure, path)
