"""Tables for the terminal, made with rich: metrics with their legend, predictions, sweeps and speeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table

from laconic.analysis.bench import Point
from laconic.data.attributes import AttributeSummary
from laconic.data.describe import TAIL
from laconic.evaluation.evaluate import Evaluation
from laconic.evaluation.metrics import KS
from laconic.predict.prediction import Prediction
from laconic.storage.card import SHOWN
from laconic.units import counted, human_bytes

# Metrics that are shown unless all are wanted.
_FIRST, _LARGEST_K = ("P", "nDCG", "PSP", "R", "tail R", "near P", "hF1"), 10
_MEANINGS = {
    "P": "precision: the fraction of the first k labels that are true",
    "nDCG": "precision in which earlier labels count more; 100 is the best order",
    "PSP": "propensity-scored precision: rare labels count more",
    "PSnDCG": "propensity-scored nDCG: rare labels count more",
    "R": "recall: the fraction of a text's true labels among the first k",
    "tail R": f"recall of tail labels, which have at most {TAIL} training texts",
    "C": "coverage: the fraction of all labels that are predicted for any text",
    "micro F1": "F1 of all pairs, if the first k labels are taken",
    "macro F1": "mean F1 of labels, if the first k labels are taken",
    "near P": "near precision: the fraction of the first k labels that are true, or one step broader or narrower",
    "hP": "hierarchical precision: broader labels of the first k labels and of the true ones count too",
    "hR": "hierarchical recall",
    "hF1": "hierarchical F1: broader labels of the first k labels and of the true ones count too",
    "ECE": "expected calibration error: 0 if scores are true probabilities",
    "raw ECE": "expected calibration error before scores were calibrated",
}


def attribute_rows(attributes: Mapping[str, AttributeSummary]) -> dict[str, str]:
    """Return rows on attributes of labels: how many values each has, and which of them most labels have."""
    rows = {}
    for name, facts in attributes.items():
        largest = ", ".join(f"{value} ({count:,})" for value, count in facts["largest"].items())
        more = ", …" if facts["values"] > len(facts["largest"]) else ""
        values, labels = counted(facts["values"], "value"), counted(facts["labels"], "label")
        rows[f"attribute {name}"] = f"{values} of {labels}: {largest}{more}"
    return rows


def metrics_table(evaluations: Mapping[str, Evaluation], title: str, *, every: bool = False) -> Table:
    """Show one evaluation by k with intervals, or the usual metrics of several evaluations side by side.

    Of one evaluation the first metrics are shown, or every one.
    """
    if len(evaluations) > 1:
        return _side_by_side(evaluations, title)
    return _by_k(next(iter(evaluations.values())), title, every=every)


def metrics_legend(metrics: Iterable[str], *, every: bool = False, verb: str = "evaluate") -> str:
    """Explain the metrics that a table shows, and name the verb that shows all; names may end in @k."""
    names = _shown_names(metrics, every=every)
    width = max(map(len, names), default=0)
    lines = [f"{name:<{width}}  {_MEANINGS[name]}" for name in names if name in _MEANINGS]
    return "\n".join([*lines, *[f"`laconic {verb} --all` shows every metric."] * (not every)])


def predictions_table(text: str, predictions: Sequence[Prediction], label_texts: Mapping[str, str]) -> Table:
    table = Table(
        title=text or "(an empty text)", title_justify="left", title_style="bold", show_header=False, box=None
    )
    for label, score in predictions:
        table.add_row(f"{score:.3f}", label, label_texts.get(label, ""))
    return table


def sweep_table(found: Sequence[Mapping[str, int | float]], title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in found[0]:
        table.add_column(name, justify="right")
    forms = {"top": ",.0f", "texts a second": ",.0f", "alpha": "g", "beta": "g", "tail": "g"}
    for row in found:
        table.add_row(*(format(value, forms.get(name, ".1f")) for name, value in row.items()))
    return table


def speed_table(points: Sequence[Point], title: str) -> Table:
    """Show the speed and the accuracy of a packed model at each search width."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for name in ("p50, ms", "p99, ms", "texts/s", "memory", *points[0].figures):
        table.add_column(name, justify="right")
    for point in points:
        timing = point.timing
        memory = "" if timing.private is None else human_bytes(timing.private)
        cells = (f"{timing.p50:.2f}", f"{timing.p99:.2f}", f"{timing.texts_a_second:,.0f}", memory)
        table.add_row(point.setting.name, *cells, *(f"{value:.2f}" for value in point.figures.values()))
    return table


def plain_table(title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    return table


def titled_table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _by_k(evaluation: Evaluation, title: str, *, every: bool) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("%")
    ks = [k for k in KS if f"P@{k}" in evaluation.metrics and (every or k <= _LARGEST_K)]
    for k in ks:
        table.add_column(f"@{k}", justify="right")
    for name in _shown_names(evaluation.metrics, every=every):
        table.add_row(name, *(_with_interval(evaluation, f"{name}@{k}") for k in ks))
    return table


def _shown_names(metrics: Iterable[str], *, every: bool) -> list[str]:
    """Return the metrics without @k: every one as it comes, or the first ones in their order."""
    names = list(dict.fromkeys(metric.partition("@")[0] for metric in metrics))
    return names if every else [name for name in _FIRST if name in names]


def _with_interval(evaluation: Evaluation, metric: str) -> str:
    if metric not in evaluation.metrics:  # not every one is there for every k
        return ""
    value = f"{evaluation.metrics[metric]:.1f}"
    if metric not in evaluation.intervals:
        return value
    low, high = evaluation.intervals[metric]
    return f"{value} ±{(high - low) / 2:.1f}"


def _side_by_side(evaluations: Mapping[str, Evaluation], title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("%")
    for metric in SHOWN:
        table.add_column(metric, justify="right")
    for name, evaluation in evaluations.items():
        table.add_row(name, *(f"{evaluation.metrics[metric]:.1f}" for metric in SHOWN))
    return table
