"""DECAF's measured results as sections of a page: on validation splits, and on the test split beside Astec."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks._plus_results import NotMeasuredError, Results, Spread, apart, found, joined, picture, table
from benchmarks.decaf_quality import CHOICES, PARTS

FIGURES = ("P@1", "P@5", "PSP@1", "PSP@5", "tail R@10")
PROTOCOLS = {  # heading and note of each file
    "decaf_protocol": (
        "### On the test split, one H200",
        "All training texts, nothing held out: epochs, the clusters that DECAF opens and Astec's β are those that were "
        "best on validation splits. DECAF alone is the first of its instances.",
    ),
    "decaf_protocol_laptop": (
        "### On the test split, preset `laptop`",
        "All training texts, the preset's epochs, a CPU. DECAF alone is the first of its instances. Nothing is held "
        "out, so Astec's β is 0.6 instead of chosen.",
    ),
}
FIGURE_NAMES = {
    "decaf-figure-5": "What further instances bring to an ensemble (Figure 5)",
    "decaf-figure-6": "Recall by beam for each fan-out (Figure 6)",
}


def on_validation(results: Results) -> str:
    """The best settings of DECAF and of Astec, by nDCG@5."""
    rows = []
    for data, runs in by_data(results, "decaf_choices").items():
        name, own = best(runs)
        _, astec = best(found(results, "astec_choices", data))
        beam = f"{own['beam']['mean']:.0f} of {own['clusters']:,}"
        tried = f"{len(runs)} of {len(CHOICES[data])}"
        figures = [f"{run[figure]['mean']:.1f}" for run in (own, astec) for figure in ("nDCG@5", "P@1")]
        rows.append([data, *figures, name, beam, tried])
    head = ["", "DECAF: nDCG@5", "P@1", "Astec: nDCG@5", "P@1", "DECAF's best settings", "clusters opened", "tried"]
    return table(head, rows)


def best(runs: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return max(runs.items(), key=lambda one: one[1]["nDCG@5"]["mean"])


def accuracy(results: Results) -> str:
    """On the test split: a table for each protocol that was measured."""
    measured = [file for file in PROTOCOLS if file in results]
    if not measured:
        raise NotMeasuredError("`python -m benchmarks.decaf_quality protocol` makes the figures of the test split")
    return joined(*(beside_astec(results, file) for file in measured))


def beside_astec(results: Results, file: str) -> str:
    """DECAF, its ensembles, its lite form and Astec; differences with the standard errors of two means."""
    heading, note = PROTOCOLS[file]
    rows = []
    for data, runs in by_data(results, file).items():
        for name, run in runs.items():
            rows.append([data, name, f"{run['seeds']}", *cells(run)])
            sizes = sorted(key.partition(":")[0] for key in run if key.endswith(" instances: P@1"))
            rows += [[data, f"{name}, {size}", f"{run['seeds']}", *cells(run, f"{size}: ")] for size in sizes]
        if {"DECAF", "Astec"} <= set(runs):
            gaps = apart(runs["DECAF"], runs["Astec"], FIGURES)
            rows.append([data, "DECAF − Astec", "", *(gap.signed for gap in gaps.values())])
    return joined(heading, table(["", "", "seeds", *FIGURES], rows), note)


def ablations(results: Results) -> str:
    """One part changed at a time; differences with the standard errors of two means."""
    rows = []
    for data, runs in by_data(results, "decaf_ablations_laptop").items():
        for name in [part for part in PARTS if part in runs]:
            run, shown = runs[name], [data, name, f"{runs[name]['seeds']}", *cells(runs[name])]
            whole = name == "DECAF" or "DECAF" not in runs
            gaps = [] if whole else list(apart(run, runs["DECAF"], ("P@1", "PSP@5")).values())
            rows.append([*shown, *([gap.signed for gap in gaps] or ["", ""])])
    head = ["", "", "seeds", *FIGURES, "ΔP@1", "ΔPSP@5"]
    command = found(results, "decaf_ablations_laptop")["command"]
    return joined(
        "### One part changed at a time, preset `laptop` (Tables 5 and 6)",
        table(head, rows),
        f"Made by `{command}`; `--texts` is how many of the training texts, by chance, were learnt from.",
    )


def pictures(folder: Path) -> str:
    shown = [
        picture(f"{title}, {path.stem.removeprefix(f'{name}-')}", path.name)
        for name, title in FIGURE_NAMES.items()
        for path in sorted(folder.glob(f"{name}-*.png"))
    ]
    if not shown:
        raise NotMeasuredError("`python -m benchmarks.decaf_quality figure-5 figure-6` draws the pictures")
    return joined("### Ensembles and beams (Figures 5 and 6)", *shown)


def by_data(results: Results, file: str) -> dict[str, dict[str, Any]]:
    """A file's runs; what else it tells is no dict."""
    return {data: runs for data, runs in sorted(found(results, file).items()) if isinstance(runs, dict)}


def cells(run: Mapping[str, Any], prefix: str = "") -> list[str]:
    return [str(Spread.of(run[prefix + name])) for name in FIGURES]
