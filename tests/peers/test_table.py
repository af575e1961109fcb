"""One table for a terminal and for a page."""

from __future__ import annotations

import io

from rich.console import Console

from laconic.analysis.peers.contest import Entry
from laconic.analysis.peers.exam import FIGURES
from laconic.analysis.peers.table import contest_markdown, contest_notes, contest_table

ENTRIES = [
    Entry(
        name="a | b",
        how="laconic train data",
        figures={name: 10.0 + place for place, name in enumerate(FIGURES)},
        seconds=1234.56,
        size=12_345_678,
        p50=0.126,
    ),
    Entry(name="omikuji, Parabel-like", how="omikuji", failure="ended by SIGSEGV: it said nothing"),
]
CELLS = ["10.0", "11.0", "12.0", "13.0", "14.0", "15.0", "16.0", "1,234.6", "12.3", "0.13"]


def test_nothing_is_cut_on_a_terminal_of_80_columns() -> None:
    file = io.StringIO()
    Console(file=file, width=80).print(contest_table(ENTRIES, "data"))
    rows = file.getvalue().splitlines()
    assert next(row.split() for row in rows if "a | b" in row) == ["a", "|", "b", *CELLS]
    assert " ".join(rows[-2].split() + rows[-1].split()) == "omikuji, Parabel-like: failed"


def test_a_page_has_the_figures_the_command_and_what_failed() -> None:
    title, table, command, asked, failed = contest_markdown(ENTRIES, "data", "laconic bench").strip().split("\n\n")
    assert table.splitlines()[2] == "| " + " | ".join(["a \\| b", *CELLS]) + " |"
    assert len({line.replace("\\|", "").count("|") for line in table.splitlines()}) == 1
    assert (title, command) == ("data", "Made by `laconic bench`.")
    assert asked.splitlines() == ["- a \\| b: `laconic train data`", "- omikuji, Parabel-like: `omikuji`"]
    assert failed == "- omikuji, Parabel-like failed: ended by SIGSEGV: it said nothing"


def test_notes_say_how_each_was_asked_and_then_what_failed() -> None:
    assert contest_notes(ENTRIES) == [
        "a | b: laconic train data",
        "omikuji, Parabel-like: omikuji",
        "omikuji, Parabel-like failed: ended by SIGSEGV: it said nothing",
    ]
