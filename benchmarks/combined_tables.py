"""README's first table and the page of the combined model, from measured results: no training.

python -m benchmarks.combined_tables
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks._peers import shown
from benchmarks.combined_quality import DATASETS, WAYS
from benchmarks.common import RESULTS
from benchmarks.plus_tables import filled
from laconic.system.files import writing

ROOT = Path(__file__).parents[1]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "combined.md"
PAGES = {"first table": README, "channels": PAGE, "on a CPU": PAGE}
FIGURES = ("P@1", "P@5", "PSP@5", "tail R@10")
LABELS = {"debian-related": 36_306, "npm-names-deps": 24_989, "yso-titles": 25_244, "eurlex57k-titles": 4_271}
PEERS = {
    "omikuji, Bonsai-like trees": "omikuji, Bonsai-like",
    "PECOS, XR-Linear": "PECOS, XR-Linear",
    "InceptionXML, its authors' code": "InceptionXML, its authors' code",
    "InceptionXML, its authors' code ¹": "InceptionXML, its authors' code, self pairs kept",
}
ALONE = {
    "inceptionxml": "InceptionXML with label texts learnt, alone",
    "astec": "Astec, narrow, with label texts learnt, alone",
    "trees": "label trees alone",
}


def main() -> None:
    blocks = blocks_of(*(_results(name) for name in ("combined_quality", "combined_cpu")))
    for name, page in PAGES.items():
        text = filled(page.read_text(encoding="utf-8"), {name: blocks[name]})
        with writing(page) as file:
            file.write(text.encode())
    print("\n\n".join(blocks.values()))


def blocks_of(combined: Mapping[str, Any], cpu: Mapping[str, Any]) -> dict[str, str]:
    return {"first table": first_table(combined, cpu), "channels": channels(combined), "on a CPU": channels(cpu)}


def first_table(combined: Mapping[str, Any], cpu: Mapping[str, Any]) -> str:
    """Peers, and what `laconic train` makes by itself."""
    rows = [("test split, %", *FIGURES), ("---",) * (1 + len(FIGURES))]
    for data in DATASETS:
        rows.append((f"**{data}** ({LABELS[data]:,} labels)", *[""] * len(FIGURES)))
        rows += [(name, *map(_number, figures)) for name, figures in shown(data, PEERS).items()]
        if data in cpu:
            run = cpu[data]["combined"]
            named = f"`laconic train --device cpu --budget 10m`{_seeds(run['seeds'])}"
            rows.append((named, *(_number(run[f"all: {one}"]["mean"]) for one in FIGURES)))
        if data in combined:
            run = combined[data]["combined"]
            named = f"**`laconic train`** on a GPU{_seeds(run['seeds'])}"
            rows.append((named, *(f"**{run[f'all: {one}']['mean']:.1f}**" for one in FIGURES)))
    return _table(rows)


def channels(combined: Mapping[str, Any]) -> str:
    """What is lost without each."""
    parts = []
    for data in (one for one in DATASETS if one in combined):
        run = combined[data]["combined"]
        names = {**ALONE, **{way: "all of them" if way == "all" else f"all {way}" for way in WAYS}}
        rows = [(data + _seeds(run["seeds"]), *FIGURES), ("---",) * (1 + len(FIGURES))]
        rows += [
            (named, *(_spread(run[f"{name}: {one}"], run["seeds"]) for one in FIGURES))
            for name, named in names.items()
            if f"{name}: P@1" in run
        ]
        if "all: P@1 ±" in run:
            halves = (f"± {run[f'all: {one} ±']['mean']:.2f}" for one in FIGURES)
            rows.append(("all of them: 95 % of bootstrap samples", *halves))
        parts.append(_table(rows))
    return "\n\n".join(parts)


def _results(name: str) -> dict[str, Any]:
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _seeds(count: int) -> str:
    return ", one seed" if count == 1 else f", mean of {count} seeds"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _spread(figure: Mapping[str, float], seeds: int) -> str:
    return f"{figure['mean']:.2f}" + (f" ± {figure['sd']:.2f}" if seeds > 1 else "")


def _table(rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main()
