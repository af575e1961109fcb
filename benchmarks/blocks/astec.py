"""docs/papers/deepxml.md: DeepXML's modules on our data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.blocks.of_papers import of_paper
from benchmarks.papers import figures
from benchmarks.tables import Results, Spread, by_data, cells, joined, picture, table
from laconic.analysis.plots import plot_contributions

SHOWN = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5", "tail R@10")
PLAIN = "Astec without its re-ranker"
KINDS = {
    "": "Astec",
    "classifier alone: ": "classifier alone (β = 1)",
    "nearness alone: ": "nearest labels alone (β = 0)",
}
NAMES = {"Astec": "with its re-ranker, weight 0.6", f"{PLAIN}, ensemble of 3": "ensemble of 3"}


def accuracy(results: Results) -> str:
    rows = []
    for data, runs in by_data(results, "deepxml_table_1").items():
        for name, run in runs.items():
            kinds = KINDS if name == PLAIN else {"": NAMES.get(name, name)}
            rows += [
                [data, shown, *cells(run, prefix, SHOWN)] for prefix, shown in kinds.items() if f"{prefix}P@1" in run
            ]
    return joined(
        table(["", "", *SHOWN], rows), "Mean ± deviation of three seeds; rows without a deviation are of one."
    )


def recall(results: Results) -> str:
    rows = []
    for data, runs in by_data(results, "deepxml_table_1").items():
        for name, run in runs.items():
            if "shortlist recall" in run:
                rows.append([data, "Astec" if name == PLAIN else name, str(Spread.of(run["shortlist recall"]))])
            rows += [[data, kind, f"{found:.2f}"] for kind, found in run.get("shortlist recall by kind", {}).items()]
    return joined(
        table(["", "", "recall"], rows),
        "The share of a test text's true labels that are in its shortlist of 500, the mean over texts, in percent; by "
        "kind on the vectors of the first seed.",
    )


def negatives(results: Results) -> str:
    """Figure 2: random negatives, every label and the shortlist."""
    shown = [
        picture(f"Random negatives and shortlists on {data}", f"deepxml-figure-2-{data}.png")
        for data in by_data(results, "deepxml_figure_2")
    ]
    return joined(*shown, of_paper(results, "deepxml", "figure 2"))


def quantiles(results: Results) -> str:
    """Where P@5 comes from, Astec beside InceptionXML."""
    return joined(*(f"{data}, {kind}:\n\n{picture(f'{data}, {kind}', name)}" for data, kind, name, _ in bins(results)))


def bins(results: Results) -> list[tuple[str, str, str, Mapping[str, Any]]]:
    """Return dataset, kind of bins, file name and both models' bins, for data on which both have them."""
    found: list[tuple[str, str, str, Mapping[str, Any]]] = []
    for data, runs in by_data(results, "deepxml_table_1").items():
        both = {name: runs.get(key, {}).get("quantiles") for name, key in (("Astec", PLAIN), ("InceptionXML",) * 2)}
        for kind in both["Astec"] if all(both.values()) else ():
            one = {name: run[kind] for name, run in both.items()}
            found.append((data, kind, f"astec-{data}-{kind.replace(' ', '-')}.png", one))
    return found


def drawings(results: Results) -> dict[str, Callable[[Path], None]]:
    drawn: dict[str, Callable[[Path], None]] = {
        f"deepxml-figure-2-{data}.png": partial(figures.plot_negatives, rows)
        for data, rows in by_data(results, "deepxml_figure_2").items()
    }
    for _, kind, name, both in bins(results):
        points = {model: np.array(run["contribution"]) for model, run in both.items()}
        first = both["Astec"]
        frequencies = np.array(first["mean_frequency"])
        drawn[name] = partial(plot_contributions, points, frequencies, k=first["k"], bins=kind)
    return drawn
