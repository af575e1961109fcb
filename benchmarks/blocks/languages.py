"""The block about texts in many languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.tables import Results, found, joined, table

SYSTEMS = {"default": "default", "trees": "label trees", "peer": "another library"}
ON = {"on all": "all languages", "on en": "English"}
METRICS = ("P@1", "tail R@10")


def by_language(results: Results) -> str:
    """Return figures by the language of the test texts, of models that learnt all languages or English alone."""
    figures = found(results, "languages")
    learnt = [(name, on) for name in SYSTEMS for on in ON if on in figures.get(name, {})]
    runs = {f"{_named(name, figures[name][on])}, {ON[on]}": figures[name][on] for name, on in learnt}
    parts = [table([f"{metric} (test texts)", *runs], _rows(runs, metric)) for metric in METRICS]
    commands = [*figures["earlier commands"], figures["command"]]
    return joined(*parts, f"Made by {', '.join(f'`{one}`' for one in commands)}.")


def _named(system: str, run: Mapping[str, Any]) -> str:
    return str(run.get("system", SYSTEMS[system])) if system == "peer" else SYSTEMS[system]


def _rows(runs: Mapping[str, Any], metric: str) -> list[list[str]]:
    first = next(iter(runs.values()))
    asked = {name: own["texts"] for name, own in first.items() if isinstance(own, Mapping)}
    return [
        [
            f"{name} ({texts:,})",
            *(f"{run[name][metric]:.1f}" if metric in run.get(name, {}) else "–" for run in runs.values()),
        ]
        for name, texts in asked.items()
    ]
