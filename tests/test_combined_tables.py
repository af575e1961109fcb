"""README's first table and the page of the combined model say what the results say."""

from __future__ import annotations

from typing import Any

from benchmarks.combined_tables import FIGURES, PAGES, _results, blocks_of, channels, first_table
from benchmarks.plus_tables import filled


def run(seeds: int, *names: str) -> dict[str, Any]:
    figures = {
        f"{name}: {one}": {"mean": 10.0 + place, "sd": 0.5} for place, name in enumerate(names) for one in FIGURES
    }
    return {"debian-related": {"combined": {"seeds": seeds, **figures}}}


def test_the_pages_are_as_the_results_are() -> None:
    blocks = blocks_of(_results("combined_quality"), _results("combined_cpu"))
    for name, page in PAGES.items():
        text = page.read_text(encoding="utf-8")
        assert filled(text, {name: blocks[name]}) == text


def test_what_was_not_measured_has_no_row() -> None:
    table = first_table(run(3, "all"), {})
    assert "| **`laconic train`** on a GPU, mean of 3 seeds | **10.0** |" in table
    assert table.count("laconic train") == 1
    shown = channels(run(1, "all", "without trees"))
    assert "| all without trees | 11.00 |" in shown
    assert "nearest" not in shown


def test_seeds_have_a_spread() -> None:
    assert "| label trees alone | 10.00 ± 0.50 |" in channels(run(2, "trees"))
