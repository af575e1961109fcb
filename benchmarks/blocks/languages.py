"""The block about texts in many languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.tables import Results, found, joined, table

SYSTEMS = {
    "default": "default",
    "default, sub-words": "default with sub-words",
    "trees": "label trees",
    "peer": "another library",
}
READ = {"default, words": "words", "default, sub-words": "with sub-words"}
ON = {"on all": "all languages", "on en": "English"}
METRICS = ("P@1", "tail R@10")


def by_language(results: Results) -> str:
    """Return figures by the language of the test texts, of models that learnt all languages or English alone."""
    figures = found(results, "languages")
    learnt = [(name, on) for name in SYSTEMS for on in ON if on in figures.get(name, {})]
    runs = {f"{_named(name, figures[name][on])}, {ON[on]}": figures[name][on] for name, on in learnt}
    alone = _alone({name: figures[name] for name in READ if name in figures})
    parts = [table([f"{metric} (test texts)", *runs], _rows(runs, metric)) for metric in METRICS]
    commands = [*figures["earlier commands"], figures["command"]]
    return joined(*parts, *alone, f"Made by {', '.join(f'`{one}`' for one in commands)}.")


def _alone(runs: Mapping[str, Any]) -> list[str]:
    """Return a table of languages that the default has learnt alone, by words and with sub-words."""
    languages = [
        one for one in next(iter(runs.values()), {}) if all(one in run and one not in ON for run in runs.values())
    ]
    if len(runs) < len(READ) or not languages:
        return []
    head = [f"{metric}, {READ[name]}" for metric in METRICS for name in runs]
    rows = [
        [
            f"{one} ({next(iter(runs.values()))[one]['all']['texts']:,})",
            *(f"{run[one]['all'][metric]:.1f}" for metric in METRICS for run in runs.values()),
        ]
        for one in languages
    ]
    return [table(["learnt and asked in (test texts)", *head], rows)]


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
