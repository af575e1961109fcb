"""Blocks about scores: how far they are from probabilities, and what a threshold for a precision gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.tables import Results, found, joined, number, table
from benchmarks.thresholds import DATASETS, FULL, LAPTOP

ASKED = "one threshold"
MADE = "Made by `python -m benchmarks.thresholds`."


def calibration(results: Results) -> str:
    """Return the calibration error of every method's scores on every test split."""
    figures = _rows(results)
    rows = [
        [_named(method), *(number(_mean(figures[data].get(method, {}), "ECE@5"), 1) for data in DATASETS)]
        for method in _methods(figures)
    ]
    note = f"Scores of test texts, calibrated by the training itself. {MADE}"
    return joined(table(["ECE@5, %", *DATASETS], rows), note)


def precision(results: Results) -> str:
    """Return what thresholds for a precision of 0.9 give on test splits."""
    figures = _rows(results)
    rows = [
        [_named(method), *(_reached(figures[data].get(method, {}).get(ASKED)) for data in DATASETS)]
        for method in _methods(figures)
    ]
    note = (
        "Asked for a precision of 0.9 on a tenth of the training texts: precision and recall on the test split, in "
        f"percent. Not reached: no score of the method is right so often on that tenth. {MADE}"
    )
    return joined(table(["precision / recall", *DATASETS], rows), note)


def _rows(results: Results) -> Mapping[str, Mapping[str, Any]]:
    return {data: found(results, "thresholds").get(data, {}) for data in DATASETS}


def _methods(figures: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return all methods that were measured on any dataset; the default, whatever it chose, comes first."""
    names = dict.fromkeys(name for data in DATASETS for name in figures[data])
    return sorted(names, key=lambda name: not name.startswith("auto"))


def _named(method: str) -> str:
    name, _, preset = method.partition(", ")
    if name.startswith("auto"):
        return f"the default ({name.removeprefix('auto (').rstrip(')')} and others)"
    return f"`{name}`" + (f", {preset}" if preset in (LAPTOP, FULL) else "")


def _mean(row: Mapping[str, Any], name: str) -> float | None:
    return row[name]["mean"] if name in row else None


def _reached(at: Mapping[str, Any] | None) -> str:
    if at is None:
        return "–"
    return "not reached" if "not reached" in at else f"{at['precision']:.1f} / {at['recall']:.1f}"
