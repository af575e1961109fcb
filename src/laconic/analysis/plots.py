"""Plots of data, training and metrics as PNG files.

They need matplotlib, which comes with the extra `track`. They are drawn through its objects, never its global state,
so that a server or a notebook keeps its own figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ConfigError, install_hint
from laconic.system.files import writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from laconic.evaluation.label_sets import AtThreshold, Curve

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")  # Okabe and Ito: apart for all eyes
_POINTS = 2000  # on a logarithmic axis more cannot be told apart
_BARS = 60
_MARKED = (0.2, 0.4, 0.6, 0.8)  # thresholds that are written beside a curve
_ROWS, _ROW = 3, 0.07  # of names below the points of a picture, and the height of one as a share of it


def plot_contributions(
    contributions: Mapping[str, Float[np.ndarray, "bins"]],
    mean_frequency: Float[np.ndarray, "bins"],
    path: Path,
    *,
    k: int = 5,
    bins: str = "",
) -> None:
    """Draw what the labels of each frequency bin bring to P@k, models side by side.

    `bins` says how labels were divided, such as "equal label count" (DeepXML, Figure 3; DECAF, Figure 4).
    """
    figure, axes = canvas(f"Contribution to P@{k} by label frequency" + (f", bins of {bins}" if bins else ""))
    places = np.arange(len(mean_frequency))
    width = 0.8 / max(len(contributions), 1)
    for number, (model, points) in enumerate(contributions.items()):
        offset = (number - (len(contributions) - 1) / 2) * width
        axes.bar(places + offset, points, width, label=model, color=COLOURS[number % len(COLOURS)])
    axes.set_xticks(places, [f"{number + 1}\n({plain(frequency)})" for number, frequency in enumerate(mean_frequency)])
    axes.set_xlabel("bin, rarest labels first (mean training texts per label)")
    axes.set_ylabel(f"points of P@{k} (%)")
    if len(contributions) > 1:
        axes.legend(frameon=False)
    write_picture(figure, path)


def plot_precision_recall(curves: Mapping[str, Curve], at: AtThreshold | None, path: Path) -> None:
    """Draw micro precision against micro recall over all thresholds, with the figures of one of them as a dot."""
    figure, axes = canvas("Precision and recall by threshold")
    for (model, curve), colour in zip(curves.items(), cycle(COLOURS), strict=False):
        axes.plot(curve.recall, curve.precision, color=colour, label=model if len(curves) > 1 else None)
        for threshold in _MARKED:
            near = int(np.argmin(np.abs(curve.thresholds - threshold)))
            axes.annotate(f"{threshold:g}", (curve.recall[near], curve.precision[near]), fontsize="small")
    if at is not None:
        label = f"threshold {at.threshold:.3g}: F1 {at.micro.f1:.1f}"
        axes.plot([at.micro.recall], [at.micro.precision], "o", color=COLOURS[5], label=label)
    axes.set_xlabel("recall of all true labels (%)")
    axes.set_ylabel("precision of the labels that reach a threshold (%)")
    axes.set_xlim(left=0)
    axes.set_ylim(0, 100)
    if at is not None or len(curves) > 1:
        axes.legend(frameon=False)
    write_picture(figure, path)


def plot_lengths(lengths: Int[np.ndarray, "texts"], path: Path) -> None:
    """Draw how many words texts have, with the length that 95 % of them do not exceed.

    The longest 1 % are left out, and counted below: a single very long text would flatten all others.
    """
    figure, axes = canvas("Words per text")
    every, left_out = np.asarray(lengths), ""
    if len(every):
        most, last = (int(np.quantile(every, share, method="inverted_cdf")) for share in (0.95, 0.99))
        shown, longer = every[every <= last], int((every > last).sum())
        axes.hist(shown, bins=_length_bins(int(shown.max())), rwidth=0.9, color=COLOURS[0])
        axes.axvline(most, color=COLOURS[5], linestyle="--", label=f"95 % have at most {most:,}")
        axes.legend(frameon=False)
        texts = "text is" if longer == 1 else "texts are"
        left_out = f" ({longer:,} {texts} longer than {last:,}, up to {every.max():,}: not shown)" if longer else ""
    axes.locator_params(axis="x", integer=True)
    _plain_ticks(axes, "xy")
    axes.set_xlabel("words" + left_out)
    axes.set_ylabel("texts")
    write_picture(figure, path)


def plot_label_frequencies(counts: Int[np.ndarray, "labels"], path: Path) -> None:
    """Draw labels from the most to the least frequent against their training texts: a straight fall is a power law."""
    figure, axes = canvas("Training texts per label")
    falling = np.sort(counts[counts > 0])[::-1]  # a logarithm has no place for labels without texts
    if len(falling):
        ranks = np.unique(np.geomspace(1, len(falling), _POINTS).round().astype(np.int64))
        axes.loglog(ranks, falling[ranks - 1], color=COLOURS[0], marker=".", markersize=3)
    _plain_ticks(axes, "xy")
    axes.set_xlabel(f"rank of the label ({len(counts) - len(falling):,} of {len(counts):,} labels have no text)")
    axes.set_ylabel("training texts")
    write_picture(figure, path)


def plot_training(stages: Mapping[str, Sequence[Mapping[str, Any]]], path: Path, *, title: str = "Training") -> None:
    """Draw the loss of every epoch of every stage and, where there was a validation split, its figure.

    Epochs are counted through from the first stage to the last; dashed lines mark the best of a stage.
    """
    figure, axes = canvas(title)
    axes.set_yscale("log")
    right, begin = None, 1
    for (name, epochs), colour in zip(stages.items(), cycle(COLOURS), strict=False):
        numbers, scores = np.arange(begin, begin + len(epochs)), [facts.get("score") for facts in epochs]
        begin += len(epochs)
        whose = f"{name}, {len(epochs)} epoch" + "s" * (len(epochs) != 1) + ": " if len(stages) > 1 else ""
        losses = [facts["loss"] for facts in epochs]
        axes.plot(numbers, losses, color=colour, marker=".", label=f"{whose}loss (left)")
        if any(score is not None for score in scores):
            right = right or axes.twinx()
            _plot_scores(right, numbers, scores, colour, f"{whose}validation nDCG@5 (right, %)")
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss")
    _plain_ticks(axes, "y")
    figure.legend(loc="outside lower center", frameon=False, ncols=2, fontsize=9)
    write_picture(figure, path)


def _plot_scores(
    axes: Axes, numbers: Int[np.ndarray, "epochs"], scores: Sequence[float | None], colour: str, label: str
) -> None:
    known = [-np.inf if score is None else score for score in scores]
    best = len(known) - 1 - int(np.argmax(known[::-1]))  # of equals training takes the later
    values = [np.nan if score is None else score for score in scores]
    axes.plot(numbers, values, color=colour, marker="x", linestyle=":", label=label)
    axes.axvline(numbers[best], color=colour, linestyle="--", linewidth=0.8)
    axes.spines[["top"]].set_visible(False)


def plot_sweep(points: Sequence[Mapping[str, float]], setting: str, path: Path) -> None:
    """Draw precision, plain and weighed by propensity, against the value of a model's setting."""
    figure, axes = canvas(f"P@5 and PSP@5 by {setting}")
    shown = sorted(points, key=lambda point: point[setting])
    for name, colour in zip(("P@5", "PSP@5"), COLOURS, strict=False):
        places = [point[setting] for point in shown if name in point]
        axes.plot(places, [point[name] for point in shown if name in point], color=colour, marker=".", label=name)
    if setting == "top":
        axes.set_xscale("log")
        _plain_ticks(axes, "x")
    axes.set_xlabel(setting)
    axes.set_ylabel("%")
    axes.legend(frameon=False)
    write_picture(figure, path)


def plot_frontier(points: Sequence[Mapping[str, float]], setting: str, path: Path) -> None:
    """Draw P@1 against the recall of rare labels, with the value of a model's setting beside every point."""
    figure, axes = canvas(f"Precision against the recall of rare labels, by {setting}")
    shown = sorted(points, key=lambda point: point[setting])
    axes.plot([point["tail R@10"] for point in shown], [point["P@1"] for point in shown], color=COLOURS[0], marker="o")
    for point in shown:
        place = point["tail R@10"], point["P@1"]
        axes.annotate(f"{point[setting]:g}", place, textcoords="offset points", xytext=(5, 5))
    axes.set_xlabel("tail R@10 (%)")
    axes.set_ylabel("P@1 (%)")
    write_picture(figure, path)


def plot_speed(points: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw precision against the time of one text, at every setting of a packed model."""
    figure, axes = canvas("P@5 against the time of one text")
    shown = sorted(points, key=lambda point: (point["p50"], point["P@5"]))
    times, precision = [point["p50"] for point in points], [point["P@5"] for point in points]
    axes.plot(times, precision, color=COLOURS[0], marker="o", markersize=4)
    axes.set_xscale("log", subs=[2, 5])
    height = max(1, max(precision) - min(precision))  # or what is hardly anything would look like much
    axes.set_ylim(max(precision) - 1.5 * height, max(precision) + 0.1 * height)
    # Points may lie together, but their names do not: those stand below in rows, in the order of time.
    for number, point in enumerate(shown):
        place = (number + 0.5) / len(shown), 0.03 + _ROW * (number % _ROWS)
        axes.annotate(
            str(point["dial"]),
            (point["p50"], point["P@5"]),
            place,
            textcoords="axes fraction",
            fontsize=8,
            ha="center",
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": "#999999"},
        )
    _plain_ticks(axes, "x", minor=True)
    axes.margins(x=0.12)
    axes.set_xlabel("milliseconds, the median, one thread")
    axes.set_ylabel("P@5 (%)")
    write_picture(figure, path)


def canvas(title: str) -> tuple[Figure, Axes]:
    """Return an empty figure in the common style."""
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
    """Write a picture whole or not at all; equal pictures are equal bytes."""
    with writing(path) as file:
        figure.savefig(file, format="png", backend="agg", metadata={"Software": None})


def plain(number: float) -> str:
    """Write a number as people do: 0.25, 17.3, 2,550; never 2.55e+03."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _plain_ticks(axes: Axes, which: str, *, minor: bool = False) -> None:
    for name in which:
        axis = getattr(axes, f"{name}axis")
        axis.set_major_formatter(lambda number, place: plain(number))
        if minor or _within_a_decade(axis):
            axis.set_minor_formatter(lambda number, place: plain(number))


def _within_a_decade(axis: Any) -> bool:
    """Return whether a logarithmic axis is so short that it may have only minor ticks."""
    low, high = axis.get_view_interval()
    return bool(axis.get_scale() == "log" and high < 10 * low)


def _length_bins(longest: int) -> list[float]:
    """Return bin edges halfway between integers: one length per bar, or more to limit the number of bars."""
    step = -(-(longest + 1) // _BARS)
    return [edge - 0.5 for edge in range(0, longest + step + 1, step)]
