"""What the service was put through, in tables from measured results: nothing is run.

Writes docs/serving.md between its markers.

    python -m benchmarks.chaos_tables
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks._plus_results import table
from benchmarks.common import RESULTS
from benchmarks.plus_tables import filled
from laconic.system.files import writing

PAGE = Path(__file__).parents[1] / "docs" / "serving.md"
LOADS = ("offered", "sent", "goodput", "p50_ms", "p99_ms")
NAMES = {"laconic": "`laconic serve`", "bare": "bare FastAPI, no batches"}


def main() -> None:
    results = json.loads((RESULTS / "chaos.json").read_text(encoding="utf-8"))
    page = filled(PAGE.read_text(encoding="utf-8"), {"load": load(results["load"]), "claims": claims(results)})
    with writing(PAGE) as file:
        file.write(page.encode())


def load(figures: Mapping[str, Any]) -> str:
    """Requests a second and milliseconds, at each load and one at a time."""
    rows = [
        [NAMES[name], *(f"{one[key]:,.0f}" for key in LOADS), f"{one['megabytes'][1]:.0f}"]
        for name in NAMES
        for one in figures[name]["loads"]
    ]
    header = ["", "offered, a second", "sent", "answered in time", "p50 ms", "p99 ms", "MB"]
    alone = (f"{NAMES[name]} {figures[name]['one_at_a_time']['p50_ms']:.2f} ms" for name in NAMES)
    annif = f"Annif's REST interface is known to take {figures['annif_p50_ms']:.0f} ms (not measured here)"
    return f"{table(header, rows)}\n\nOne client at a time waits (p50): {', '.join(alone)}; {annif}."


def claims(results: Mapping[str, Any]) -> str:
    rows = [
        [claim["what"], claim["found"], "yes" if claim["holds"] else "**no**"]
        for figures in results.values()
        if isinstance(figures, dict)
        for claim in figures["claims"]
    ]
    return table(["wanted", "seen", "holds"], rows)


if __name__ == "__main__":
    main()
