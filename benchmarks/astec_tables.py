"""Our versions of the DeepXML paper's tables and the figures of Astec, from measured results: no training.

Writes docs/astec.md between its markers, and says what has not been measured.

    python -m benchmarks.astec_tables
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._plus_results import NotMeasuredError, Spread, joined, maker, picture, table
from benchmarks.common import RESULTS
from benchmarks.papers import figures, report
from benchmarks.papers.datasets import Dataset
from benchmarks.papers.rows import ROWS
from benchmarks.plus_tables import block, write_page
from laconic.analysis.plots import plot_contributions

PAGE = Path(__file__).parents[1] / "docs" / "astec.md"
SHOWN = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5", "tail R@10")
PLAIN = "Astec without its re-ranker"
KINDS = {
    "": "Astec",
    "classifier alone: ": "classifier alone (β = 1)",
    "nearness alone: ": "nearest labels alone (β = 0)",
}
NAMES = {"Astec": "with its re-ranker, weight 0.6", f"{PLAIN}, ensemble of 3": "ensemble of 3"}


def main() -> None:
    write_page(PAGE, {name: block(make) for name, make in sections(PAGE.parent / "pictures").items()})


def sections(pictures: Path) -> dict[str, Callable[[], str]]:
    """What makes each block of the page."""
    return {
        "accuracy": accuracy,
        "reranker": lambda: of_paper("reranker"),
        "table 4": lambda: of_paper("table 4"),
        "table 6": lambda: of_paper("table 6"),
        "figure 2": lambda: negatives(pictures),
        "recall": recall,
        "vectors": lambda: of_paper("vectors"),
        "quantiles": lambda: quantiles(pictures),
    }


def results(what: str) -> dict[str, Any]:
    name = f"deepxml_{what.replace(' ', '_')}"
    path = RESULTS / f"{name}.json"
    if not path.exists():
        raise NotMeasuredError(f"`python -m benchmarks.{maker(name)}` makes `{path.name}`")
    found = json.loads(path.read_text(encoding="utf-8"))
    return {data: rows for data, rows in found.items() if isinstance(rows, dict)}


def of_paper(what: str) -> str:
    """A table of the paper for each dataset that it was made of, with the command that made it."""
    parts = []
    for name, rows in results(what).items():
        data = Dataset(name, "deepxml")
        names = [row.name for row in ROWS["deepxml"][what](data)]
        ordered = dict(sorted(rows.items(), key=lambda one: names.index(one[0]) if one[0] in names else len(names)))
        parts += [f"{name}:", report.body("deepxml", what, data, ordered)]
    path = RESULTS / f"deepxml_{what.replace(' ', '_')}.json"
    return joined(*parts, f"Made by `{json.loads(path.read_text(encoding='utf-8'))['command']}`.")


def accuracy() -> str:
    rows = []
    for data, runs in results("table 1").items():
        for name, run in runs.items():
            kinds = KINDS if name == PLAIN else {"": NAMES.get(name, name)}
            rows += [[data, shown, *cells(run, prefix)] for prefix, shown in kinds.items() if f"{prefix}P@1" in run]
    return joined(
        table(["", "", *SHOWN], rows), "Mean ± deviation of three seeds; rows without a deviation are of one."
    )


def cells(run: Mapping[str, Any], prefix: str) -> list[str]:
    return [str(Spread.of(run[prefix + name])) for name in SHOWN]


def recall() -> str:
    rows = []
    for data, runs in results("table 1").items():
        for name, run in runs.items():
            shown = "Astec" if name == PLAIN else name
            if "shortlist recall" in run:
                rows.append([data, shown, str(Spread.of(run["shortlist recall"]))])
            rows += [[data, kind, f"{found:.2f}"] for kind, found in run.get("shortlist recall by kind", {}).items()]
    return joined(
        table(["", "", "recall"], rows),
        "The share of a test text's true labels that are in its shortlist of 500, the mean over texts, in percent; by "
        "kind on the vectors of the first seed.",
    )


def negatives(pictures: Path) -> str:
    """Figure 2: random negatives, every label and the shortlist."""
    shown = []
    for data, rows in results("figure 2").items():
        path = pictures / f"deepxml-figure-2-{data}.png"
        figures.plot_negatives(rows, path)
        shown.append(picture(f"Random negatives and shortlists on {data}", path.name))
    return joined(*shown, of_paper("figure 2"))


def quantiles(pictures: Path) -> str:
    """Where P@5 comes from, Astec beside InceptionXML."""
    shown = []
    for data, runs in results("table 1").items():
        there = {
            name: runs[key]["quantiles"]
            for name, key in {"Astec": PLAIN, "InceptionXML": "InceptionXML"}.items()
            if key in runs
        }
        if len(there) < 2:
            continue
        for kind, bins in there["Astec"].items():
            path = pictures / f"astec-{data}-{kind.replace(' ', '-')}.png"
            points = {name: np.array(run[kind]["contribution"]) for name, run in there.items()}
            plot_contributions(points, np.array(bins["mean_frequency"]), path, k=bins["k"], bins=kind)
            shown.append(f"{data}, {kind}:\n\n{picture(f'{data}, {kind}', path.name)}")
    if not shown:
        raise NotMeasuredError("no dataset has the quantiles of both")
    return "\n\n".join(shown)


if __name__ == "__main__":
    main()
