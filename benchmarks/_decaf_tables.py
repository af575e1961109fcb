"""DECAF's measured results as sections of a page: on validation splits, beside Astec on the test split, in parts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks._plus_results import (
    NotMeasuredError,
    Results,
    Spread,
    apart,
    found,
    joined,
    listed,
    maker,
    picture,
    table,
)
from benchmarks.papers import figures, report
from benchmarks.papers.datasets import OURS, PUBLISHED, Dataset
from benchmarks.papers.rows import ROWS

FIGURES = ("P@1", "P@5", "PSP@1", "PSP@5", "tail R@10")
CLAIMS = ("P@1", "PSP@5")  # of which differences are shown
PROTOCOLS = {  # heading and note of each file
    "decaf_table_1": (
        "### On the test split, one H200",
        "All training texts, nothing held out: epochs, the clusters that DECAF opens and Astec's β are those that were "
        "best on validation splits. DECAF alone is the first of its instances.",
    ),
    "decaf_table_1_laptop": (
        "### On the test split, preset `laptop`",
        "All training texts, the preset's epochs, a CPU. DECAF alone is the first of its instances. Nothing is held "
        "out, so Astec's β is 0.6 instead of chosen.",
    ),
}
PARTS = {
    "decaf_table_6": "### One part changed at a time (Table 6)",
    "decaf_table_6_laptop": "### One part changed at a time, preset `laptop` (Table 6)",
}
FIGURE_NAMES = {  # by the file of results and the figure's name
    ("decaf_table_1", "figure-4"): ("Where P@5 comes from (Figure 4)", figures.FIGURES["decaf", "figure 4"]),
    ("decaf_figure_5", "figure-5"): ("What further instances bring (Figure 5)", figures.FIGURES["decaf", "figure 5"]),
    ("decaf_figure_6", "figure-6"): (
        "Recall by beam for each fan-out (Figure 6)",
        figures.FIGURES["decaf", "figure 6"],
    ),
}


def on_validation(results: Results) -> str:
    """The best settings of DECAF and of Astec, by nDCG@5."""
    rows = []
    for data, runs in by_data(results, "decaf_choices").items():
        name, own = best(runs)
        _, astec = best(found(results, "deepxml_choices", data))
        beam = f"{own['beam']['mean']:.0f} of {count_of(own['clusters']):,}"
        tried = f"{len(runs)} of {len(OURS['choices']['decaf'][data])}"
        figures = [f"{run[figure]['mean']:.1f}" for run in (own, astec) for figure in ("nDCG@5", "P@1")]
        rows.append([data, *figures, name, beam, tried])
    head = ["", "DECAF: nDCG@5", "P@1", "Astec: nDCG@5", "P@1", "DECAF's best settings", "clusters opened", "tried"]
    return table(head, rows)


def best(runs: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return max(runs.items(), key=lambda one: one[1]["nDCG@5"]["mean"])


def count_of(value: Any) -> int:
    return round(Spread.of(value).mean)


def accuracy(results: Results) -> str:
    """On the test split: a table for each protocol that was measured."""
    measured = [file for file in PROTOCOLS if file in results]
    if not measured:
        raise NotMeasuredError(f"`python -m benchmarks.{maker('decaf_table_1')}` makes the figures of the test split")
    return joined(*(beside_astec(results, file) for file in measured))


def beside_astec(results: Results, file: str) -> str:
    """DECAF, its ensembles, its lite form and Astec; differences with the standard errors of two means."""
    heading, note = PROTOCOLS[file]
    rows = []
    for data, runs in by_data(results, file).items():
        for name, run in runs.items():
            rows += [[data, shown, f"{run['seeds']}", *cells(run, prefix)] for shown, prefix in instances(name, run)]
        if {"DECAF", "Astec"} <= set(runs):
            gaps = apart(alone(runs["DECAF"]), runs["Astec"], FIGURES)
            rows.append([data, "DECAF − Astec", "", *(gap.signed for gap in gaps.values())])
    return joined(heading, table(["", "", "seeds", *FIGURES], rows), note)


def instances(name: str, run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The first instance alone, the first two, and so on up to all, and under which prefix their figures stand."""
    sizes = sorted(int(key.split()[0]) for key in run if key.endswith((" instance: P@1", " instances: P@1")))
    if not sizes:
        return [(name, "")]
    several = [(f"{name}, {size} instances", f"{size} instances: ") for size in sizes[1:]]
    return [(name, "1 instance: "), *several, (f"{name}, {sizes[-1] + 1} instances", "")]


def alone(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row's figures of one instance."""
    prefix = "1 instance: " if "1 instance: P@1" in run else ""
    return {"seeds": run["seeds"]} | {name: run[prefix + name] for name in FIGURES}


def ablations(results: Results) -> str:
    """One part changed at a time, at every size that was measured; and where a sign is not the paper's."""
    measured = [file for file in PARTS if file in results]
    if not measured:
        raise NotMeasuredError(f"`python -m benchmarks.{maker('decaf_table_6')}` makes the ablations")
    return joined(*(parts_of(results, file) for file in measured))


def parts_of(results: Results, file: str) -> str:
    """Differences with the standard errors of two means, beside those of the paper's two datasets."""
    printed = {data.removeprefix("LF-"): rows for data, rows in PUBLISHED["decaf"]["6"].items()}
    rows, verdicts = [], list[str]()
    columns: tuple[str, ...] = FIGURES
    for data, runs in by_data(results, file).items():
        columns = (*FIGURES, "R@20") if all("R@20" in run for run in runs.values()) else FIGURES
        order = [row.name for row in ROWS["decaf"]["table 6"](Dataset(data, "decaf"))]
        for name in [part for part in order if part in runs]:
            run, whole = runs[name], name == "DECAF" or "DECAF" not in runs
            gaps = {} if whole else apart(run, runs["DECAF"], CLAIMS)
            theirs = [differences(rows_of, name) for rows_of in printed.values()]
            shown = [f"{gap['P@1']:+.2f}".replace("-", "−") if gap else "" for gap in theirs]
            ours = [gap.signed for gap in gaps.values()] or [""] * len(CLAIMS)
            rows.append([data, name, f"{run['seeds']}", *cells(run, columns=columns), *ours, *shown])
            verdicts += against(name, data, gaps, theirs)
    head = ["", "", "seeds", *columns, *(f"Δ{name}" for name in CLAIMS), *(f"paper's ΔP@1, {name}" for name in printed)]
    told = f"Made by `{found(results, file)['command']}`."
    return joined(PARTS[file], table(head, rows), f"Signs that differ from the paper's: {listed(verdicts)}.", told)


def differences(printed: Mapping[str, Mapping[str, float]], name: str) -> dict[str, float]:
    """What changing a part costs in the paper; empty where the paper has no such row."""
    if name == "DECAF" or name not in printed:
        return {}
    return {figure: printed[name][figure] - printed["DECAF"][figure] for figure in CLAIMS}


def against(name: str, data: str, gaps: Mapping[str, Spread], theirs: list[dict[str, float]]) -> list[str]:
    """The figures in which our sign is another than the paper's on both its datasets, and not by chance."""
    return [
        f"{name} on {data} ({figure} {gap.signed}, paper {theirs[0][figure]:+.2f} and {theirs[1][figure]:+.2f})"
        for figure, gap in gaps.items()
        if all(theirs) and all(one[figure] * gap.mean < 0 for one in theirs) and abs(gap.mean) >= 2 * gap.deviation
    ]


def of_paper(results: Results, what: str, heading: str) -> str:
    """A table of the paper, as `python -m benchmarks.papers decaf` writes it, for each dataset."""
    file = f"decaf_{what.replace(' ', '_')}"
    parts = []
    for name, rows in by_data(results, file).items():
        data = Dataset(name, "decaf")
        order = [row.name for row in ROWS["decaf"][what](data)]
        ordered = {one: rows[one] for one in (*(part for part in order if part in rows), *(set(rows) - set(order)))}
        parts += [f"{name}:", report.body("decaf", what, data, ordered)]
    return joined(heading, *parts, f"Made by `{found(results, file)['command']}`.")


def pictures(results: Results, folder: Path) -> str:
    """Figures 4, 5 and 6 of each dataset that they were measured of."""
    shown = []
    for (file, figure), (title, draw) in FIGURE_NAMES.items():
        for data, rows in by_data(results, file).items() if file in results else ():
            path = folder / f"decaf-{figure}-{data}.png"
            if draw(rows, path):
                shown.append(picture(f"{title}, {data}", path.name))
    if not shown:
        raise NotMeasuredError("`python -m benchmarks.papers decaf --figure 4 5 6` makes what the pictures show")
    return joined("### Frequencies, ensembles and beams (Figures 4, 5 and 6)", *shown)


def by_data(results: Results, file: str) -> dict[str, dict[str, Any]]:
    """A file's runs; what else it tells is no dict."""
    return {data: runs for data, runs in sorted(found(results, file).items()) if isinstance(runs, dict)}


def cells(run: Mapping[str, Any], prefix: str = "", columns: tuple[str, ...] = FIGURES) -> list[str]:
    return [str(Spread.of(run[prefix + name])) for name in columns]
