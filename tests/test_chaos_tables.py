"""The page of the service says what the results say."""

from __future__ import annotations

import json

from benchmarks.chaos_tables import PAGE, claims, load
from benchmarks.common import RESULTS
from benchmarks.plus_tables import filled


def test_the_page_has_the_tables_of_the_results() -> None:
    results = json.loads((RESULTS / "chaos.json").read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page, {"load": load(results["load"]), "claims": claims(results)}) == page


def test_a_claim_that_does_not_hold_is_said_not_to() -> None:
    made = {"command": "c", "load": {"claims": [{"what": "w", "found": "1 of 2", "holds": False}]}}
    assert "| w | 1 of 2 | **no** |" in claims(made)
