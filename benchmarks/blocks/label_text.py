"""docs/label-text.md and docs/papers/decaf.md: what label texts are worth, learnt, fused, and in DECAF's rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.blocks.of_papers import of_paper
from benchmarks.label_text_quality import SHARES, TAILS, chosen
from benchmarks.papers import figures
from benchmarks.papers.datasets import OURS
from benchmarks.tables import (
    USUAL,
    Results,
    Spread,
    apart,
    by_data,
    cells,
    found,
    joined,
    picture,
    table,
    told,
)

NAMES = {"astec": "Astec", "inceptionxml": "InceptionXML", "decaf": "DECAF"}
LEARNT = ", label texts learnt"
PEERS = {
    "omikuji, Parabel-like": "",
    "omikuji, Bonsai-like": "",
    "PECOS and label texts": " ¹",
    "PECOS, nearest texts and label texts": " ¹",
}
HEADER = ["", "", "seeds", *USUAL]
FUSED = "fused: "
DECAF = ("P@1", "P@5", "PSP@1", "PSP@5", "tail R@10")
DRAWN = {  # figures of DECAF by the file of results
    "decaf_table_1": ("figure-4", "Where P@5 comes from (Figure 4)", "figure 4"),
    "decaf_figure_5": ("figure-5", "What further instances bring (Figure 5)", "figure 5"),
    "decaf_figure_6": ("figure-6", "Recall by beam for each fan-out (Figure 6)", "figure 6"),
}


def beside(results: Results) -> str:
    """Return what others have more of than a fused Astec, trees with label texts, and Astec with a tail bias."""
    rows, behind = [], []
    for data, runs in by_data(results, "label_text_protocol").items():
        best, others = runs[f"astec{LEARNT}"], peers(results, data)
        rows += [[data, name, "", *cells(run, digits=1)] for name, run in others.items() if name.endswith("¹")]
        rows += with_tail_bias(data, f"Astec{LEARNT}, fused", best)
        behind.append(f"- {data}: {higher(others, best) or 'none'}.")
    return joined(
        "What others have more of than Astec, label texts learnt, fused:", "\n".join(behind), table(HEADER, rows)
    )


def peers(results: Results, data: str) -> dict[str, Mapping[str, float]]:
    there = results.get("peers", {}).get(data, {})
    untrained = results.get("nearest_quality", {}).get(data)
    own = {"`nearest`, untrained": untrained["nearest"]} if untrained else {}
    return {f"{name}{mark}": there[name] for name, mark in PEERS.items() if name in there} | own


def higher(others: Mapping[str, Mapping[str, float]], run: Mapping[str, Any]) -> str:
    """Return in what others are above a fused model."""
    ahead = [
        f"{name} {theirs[name]:.1f} ({other})"
        for name in USUAL
        for other, theirs in others.items()
        if theirs[name] > run[FUSED + name]["mean"]
    ]
    return ", ".join(ahead)


def learnt(results: Results) -> str:
    rows, verdicts = [], []
    for data, runs in by_data(results, "label_text_protocol").items():
        for method, (plain, other) in pairs(runs).items():
            gaps = apart(other, plain, USUAL)
            rows.append([data, method, f"{plain['seeds']}", *cells(plain)])
            rows.append([data, f"{method}{LEARNT}", f"{other['seeds']}", *cells(other)])
            rows.append([data, "difference", "", *(gap.signed for gap in gaps.values())])
            verdicts.append(f"- {method} on {data}: gains {told(gaps, 1)}; loses {told(gaps, -1)}.")
    return joined(table(HEADER, rows), "\n".join(verdicts))


def fused(results: Results) -> str:
    rows, verdicts = [], []
    for data, runs in by_data(results, "label_text_protocol").items():
        for method, (plain, other) in pairs(runs).items():
            for name, run in {method: plain, f"{method}{LEARNT}": other}.items():
                gaps = apart(only(run, FUSED), run, USUAL)
                rows.append([data, f"{name}, fused", f"{run['seeds']}", *cells(run, FUSED)])
                rows.append([data, "over itself alone", "", *(gap.signed for gap in gaps.values())])
            gaps = apart(only(other, FUSED), only(plain, FUSED), USUAL)
            verdicts.append(f"- {method} on {data}: gains {told(gaps, 1)}; loses {told(gaps, -1)}.")
    between = "What learning label texts changes where the answers are fused anyway:"
    return joined(table(HEADER, rows), between, "\n".join(verdicts))


def choices(results: Results) -> str:
    """Return nDCG@5 and P@1 of every way of learning label texts, on the validation split."""
    rows = []
    for data, runs in by_data(results, "label_text_choices").items():
        for method in (name for name in NAMES if name in runs):
            ways = [method, *(f"{method}, label texts {kind}" for kind in SHARES)]
            if all(way in runs for way in ways):
                shown = [f"{runs[way]['nDCG@5']['mean']:.1f} / {runs[way]['P@1']['mean']:.1f}" for way in ways]
                taken = list(SHARES.values()).index(chosen(data, method, "")) + 1
                shown[taken] = f"**{shown[taken]}**"
                rows.append([data, NAMES[method], *shown])
    return table(["nDCG@5 / P@1", "", "without", *SHARES], rows)


def laptop(results: Results) -> str:
    rows = []
    for data, runs in by_data(results, "label_text_protocol_laptop").items():
        for name, run in runs.items():
            method, comma, rest = name.partition(",")
            shown = NAMES[method] + comma + rest
            rows.append([data, shown, f"{run['seeds']}", *cells(run)])
            rows.append([data, f"{shown}, fused", f"{run['seeds']}", *cells(run, FUSED)])
            rows += with_tail_bias(data, f"{shown}, fused", run)
    return table(HEADER, rows)


def with_tail_bias(data: str, name: str, run: Mapping[str, Any]) -> list[list[str]]:
    """Return the fused model's figures by the values of its tail bias that were evaluated."""
    there = [tail for tail in TAILS if f"fused, tail {tail}: P@1" in run]
    return [[data, f"{name}, `tail={tail}`", "1", *cells(run, f"fused, tail {tail}: ")] for tail in there]


def pairs(runs: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return each method without and with label texts, where both were trained."""
    both = [name for name in NAMES if name in runs and f"{name}{LEARNT}" in runs]
    return {NAMES[name]: (runs[name], runs[f"{name}{LEARNT}"]) for name in both}


def only(run: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return a run's figures of one kind, under their plain names."""
    return {"seeds": run["seeds"]} | {name: run[prefix + name] for name in DECAF if prefix + name in run}


def decaf_on_validation(results: Results) -> str:
    """Return the best settings of DECAF and of Astec, by nDCG@5."""
    rows = []
    for data, runs in by_data(results, "decaf_choices").items():
        name, own = best(runs)
        _, astec = best(found(results, "deepxml_choices", data))
        beam = f"{own['beam']['mean']:.0f} of {round(Spread.of(own['clusters']).mean):,}"
        tried = f"{len(runs)} of {len(OURS['choices']['decaf'][data])}"
        shown = [f"{run[figure]['mean']:.1f}" for run in (own, astec) for figure in ("nDCG@5", "P@1")]
        rows.append([data, *shown, name, beam, tried])
    head = ["", "DECAF: nDCG@5", "P@1", "Astec: nDCG@5", "P@1", "DECAF's best settings", "clusters opened", "tried"]
    return table(head, rows)


def best(runs: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return max(runs.items(), key=lambda one: one[1]["nDCG@5"]["mean"])


def decaf_accuracy(results: Results, file: str = "decaf_table_1") -> str:
    """Return DECAF, its ensembles, Astec and others; differences with the standard errors of two means."""
    rows = []
    for data, runs in by_data(results, file).items():
        for name, run in runs.items():
            rows += [
                [data, shown, f"{run['seeds']}", *cells(run, prefix, DECAF)] for shown, prefix in instances(name, run)
            ]
        if {"DECAF", "Astec"} <= set(runs):
            prefix = "1 instance: " if "1 instance: P@1" in runs["DECAF"] else ""
            gaps = apart(only(runs["DECAF"], prefix), runs["Astec"], DECAF)
            rows.append([data, "DECAF − Astec", "", *(gap.signed for gap in gaps.values())])
    return table(["", "", "seeds", *DECAF], rows)


def instances(name: str, run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the first instance alone, the first two, and so on up to all, and the prefix of their figures."""
    sizes = sorted(int(key.split()[0]) for key in run if key.endswith((" instance: P@1", " instances: P@1")))
    if not sizes:
        return [(name, "")]
    several = [(f"{name}, {size} instances", f"{size} instances: ") for size in sizes[1:]]
    return [(name, "1 instance: "), *several, (f"{name}, {sizes[-1] + 1} instances", "")]


def decaf_laptop(results: Results) -> str:
    return decaf_accuracy(results, "decaf_table_1_laptop")


def decaf_parts(results: Results) -> str:
    return of_paper(results, "decaf", "table 6")


def decaf_parts_laptop(results: Results) -> str:
    return of_paper(results, "decaf", "table 6", suffix="_laptop")


def decaf_pictures(results: Results) -> str:
    return joined(*(picture(f"{title}, {data}", name) for name, title, data in pictures(results)))


def pictures(results: Results) -> list[tuple[str, str, str]]:
    """Return file name, title and dataset of Figures 4, 5 and 6, where they were measured."""
    return [
        (f"decaf-{name}-{data}.png", title, data)
        for file, (name, title, _) in DRAWN.items()
        for data, rows in (by_data(results, file) if file in results else {}).items()
        if name != "figure-4" or any("quantiles" in row for row in rows.values())
    ]


def drawings(results: Results) -> dict[str, Callable[[Path], Any]]:
    wanted = {name for name, _, _ in pictures(results)}
    return {
        f"decaf-{name}-{data}.png": partial(figures.FIGURES["decaf", what], rows)
        for file, (name, _, what) in DRAWN.items()
        for data, rows in (by_data(results, file) if file in results else {}).items()
        if f"decaf-{name}-{data}.png" in wanted
    }
