"""What label texts are worth, in tables from measured results: no training.

Writes docs/label-text.md between its markers. What has not been measured is left out of the page.

    python -m benchmarks.label_text_tables
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._decaf_tables import ablations, accuracy, by_data, of_paper, on_validation, pictures
from benchmarks._peers import shown
from benchmarks._plus_results import NotMeasuredError, Results, Spread, apart, joined, table, told
from benchmarks.common import RESULTS
from benchmarks.label_text_quality import SHARES, TAILS, chosen
from benchmarks.plus_tables import write_page

PAGE = Path(__file__).parents[1] / "docs" / "label-text.md"
FILES = (
    "label_text_protocol label_text_choices label_text_protocol_laptop nearest_quality "
    "decaf_choices deepxml_choices decaf_table_1 decaf_table_1_laptop decaf_table_4 decaf_table_5 decaf_table_6 "
    "decaf_table_6_laptop decaf_figure_5 decaf_figure_6"
).split()
FIGURES = ("P@1", "P@5", "PSP@5", "tail R@10")
NAMES = {"astec": "Astec", "inceptionxml": "InceptionXML", "decaf": "DECAF"}
LEARNT = ", label texts learnt"
PEERS = {
    "omikuji, Parabel-like": "omikuji, Parabel-like",
    "omikuji, Bonsai-like": "omikuji, Bonsai-like",
    "PECOS and label texts ¹": "PECOS and label texts",
    "PECOS, nearest texts and label texts ¹": "PECOS, nearest texts and label texts",
}


def main() -> None:
    paths = {name: RESULTS / f"{name}.json" for name in FILES}
    results = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}
    write_page(PAGE, {name: block(make) for name, make in sections(results).items()})


def sections(results: Results) -> dict[str, Callable[[], str]]:
    """What makes each block of the page."""
    return {
        "recommended": partial(recommended, results),
        "learnt": partial(learnt, results),
        "fused": partial(fused, results),
        "choices": partial(choices, results),
        "laptop": partial(laptop, results),
        "decaf, validation": partial(on_validation, results),
        "decaf, accuracy": partial(accuracy, results),
        "decaf, ablations": partial(ablations, results),
        "decaf, shortlists": partial(of_paper, results, "table 5", "### Other shortlists (Table 5)"),
        "decaf, trees": partial(of_paper, results, "table 4", "### Label trees with label texts (Table 4)"),
        "decaf, pictures": partial(pictures, results, PAGE.parent / "pictures"),
    }


def block(make: Callable[[], str]) -> str:
    try:
        return make()
    except NotMeasuredError:
        return ""


def recommended(results: Results) -> str:
    """Beside the peers, and with the dial turned where that was scored."""
    rows, behind = [], []
    for data, runs in by_data(results, "label_text_protocol").items():
        best, others = runs[f"astec{LEARNT}"], peers(results, data)
        rows += [[data, name, "", *(f"{figure:.1f}" for figure in figures)] for name, figures in others.items()]
        rows.append([data, "**Astec, label texts learnt, fused**", f"{best['seeds']}", *cells(best, "fused")])
        rows += [[data, f"the same, `tail={tail}`", "1", *dialled] for tail, dialled in turned(best).items()]
        if f"inceptionxml{LEARNT}" in runs:
            other = runs[f"inceptionxml{LEARNT}"]
            rows.append([data, "InceptionXML, likewise", f"{other['seeds']}", *cells(other, "fused")])
        behind.append(f"- {data}: {higher(others, best) or 'none'}.")
    return joined(table(["", "", "seeds", *FIGURES], rows), "What others have more of:", "\n".join(behind))


def peers(results: Results, data: str) -> dict[str, tuple[float, ...]]:
    untrained = results.get("nearest_quality", {}).get(data)
    own = {"`nearest`, untrained": tuple(untrained["nearest"][name] for name in FIGURES)} if untrained else {}
    return shown(data, PEERS) | own


def higher(others: Mapping[str, tuple[float, ...]], run: Mapping[str, Any]) -> str:
    """In what others are above a fused model."""
    ahead = [
        f"{name} {figures[place]:.1f} ({other})"
        for place, name in enumerate(FIGURES)
        for other, figures in others.items()
        if figures[place] > run[f"fused: {name}"]["mean"]
    ]
    return ", ".join(ahead)


def learnt(results: Results) -> str:
    rows, verdicts = [], []
    for data, runs in by_data(results, "label_text_protocol").items():
        for method, (plain, other) in pairs(runs).items():
            gaps = apart(other, plain, FIGURES)
            rows.append([data, method, f"{plain['seeds']}", *cells(plain)])
            rows.append([data, f"{method}{LEARNT}", f"{other['seeds']}", *cells(other)])
            rows.append([data, "difference", "", *(gap.signed for gap in gaps.values())])
            verdicts.append(f"- {method} on {data}: gains {told(gaps, 1)}; loses {told(gaps, -1)}.")
    return joined(table(["", "", "seeds", *FIGURES], rows), "\n".join(verdicts))


def fused(results: Results) -> str:
    rows, verdicts = [], []
    for data, runs in by_data(results, "label_text_protocol").items():
        for method, (plain, other) in pairs(runs).items():
            for name, run in {method: plain, f"{method}{LEARNT}": other}.items():
                gaps = apart(only(run, "fused"), run, FIGURES)
                rows.append([data, f"{name}, fused", f"{run['seeds']}", *cells(run, "fused")])
                rows.append([data, "over itself alone", "", *(gap.signed for gap in gaps.values())])
            gaps = apart(only(other, "fused"), only(plain, "fused"), FIGURES)
            verdicts.append(f"- {method} on {data}: gains {told(gaps, 1)}; loses {told(gaps, -1)}.")
    between = "What learning label texts changes where the answers are fused anyway:"
    return joined(table(["", "", "seeds", *FIGURES], rows), between, "\n".join(verdicts))


def choices(results: Results) -> str:
    """nDCG@5 and P@1 of every way of learning label texts, on the validation split."""
    rows = []
    for data, runs in by_data(results, "label_text_choices").items():
        for method in methods(runs):
            ways = [method, *(f"{method}, label texts {kind}" for kind in SHARES)]
            if all(way in runs for way in ways):
                figures = [f"{runs[way]['nDCG@5']['mean']:.1f} / {runs[way]['P@1']['mean']:.1f}" for way in ways]
                taken = list(SHARES.values()).index(chosen(data, method, "")) + 1
                figures[taken] = f"**{figures[taken]}**"
                rows.append([data, NAMES[method], *figures])
    return table(["nDCG@5 / P@1", "", "without", *SHARES], rows)


def laptop(results: Results) -> str:
    """The same on a CPU, where it was run."""
    rows = []
    for data, runs in by_data(results, "label_text_protocol_laptop").items():
        for name, run in runs.items():
            method, comma, rest = name.partition(",")
            shown = NAMES[method] + comma + rest
            rows.append([data, shown, f"{run['seeds']}", *cells(run)])
            rows.append([data, f"{shown}, fused", f"{run['seeds']}", *cells(run, "fused")])
            rows += [[data, f"the same, `tail={tail}`", "1", *dialled] for tail, dialled in turned(run).items()]
    return joined("## On a CPU, preset `laptop`", table(["", "", "seeds", *FIGURES], rows))


def methods(runs: Mapping[str, Any]) -> list[str]:
    return [name for name in NAMES if name in runs]


def pairs(runs: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Each method without and with label texts, where both were trained."""
    return {NAMES[name]: (runs[name], runs[f"{name}{LEARNT}"]) for name in methods(runs) if f"{name}{LEARNT}" in runs}


def cells(run: Mapping[str, Any], kind: str = "") -> list[str]:
    return [str(Spread.of(only(run, kind)[name])) for name in FIGURES]


def only(run: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A run's figures of one kind, under their plain names."""
    prefix = f"{kind}: " if kind else ""
    return {"seeds": run["seeds"]} | {name: run[prefix + name] for name in FIGURES}


def turned(run: Mapping[str, Any]) -> dict[float, list[str]]:
    """The fused model's figures by the places of its dial that were scored."""
    return {tail: cells(run, f"fused, tail {tail}") for tail in TAILS if f"fused, tail {tail}: P@1" in run}


if __name__ == "__main__":
    main()
