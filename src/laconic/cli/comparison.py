"""Tables of two models side by side, and of texts on which they differ."""

from __future__ import annotations

from itertools import zip_longest
from textwrap import shorten

from rich.table import Table
from rich.text import Text

from laconic.analysis.compare import Comparison, Example, Marked
from laconic.data.describe import TAIL


def comparison_tables(comparison: Comparison, title: str) -> list[Table]:
    """Show the metrics of both models with their difference, and on how many texts each of them is right."""
    figures = _numbers_table(title, "%", *comparison.models, "difference", "95 % interval")
    for name, figure in comparison.figures.items():
        low, high = figure.interval
        cells = (
            *(f"{value:.1f}" for value in figure.models),
            f"{figure.difference:+.1f}",
            f"{low:+.1f} to {high:+.1f}",
        )
        figures.add_row(name, *cells)
    one, other = comparison.models
    tallies = _numbers_table("texts", "", f"only {one}", f"only {other}", "both", "neither")
    for k, tally in comparison.right.items():
        right = "first label right" if k == 1 else f"one of the first {k} right"
        tallies.add_row(right, *(f"{count:,}" for count in tally))
    if comparison.k > 1:
        more = (f"{count:,}" for count in comparison.more_right)
        tallies.add_row(f"more of the first {comparison.k} right", *more, "", "")
    return [figures, tallies]


def _numbers_table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    return table


def examples_legend(comparison: Comparison) -> str:
    """Explain how the texts were chosen and what the marks mean."""
    if not any(comparison.more_right):
        return "no text has more right labels from one model than from the other"
    if not comparison.examples:
        return ""
    return f"""
Where they differ most in how many of the first {comparison.k} are right, a text of either model in turn:
✓ right, ✗ wrong
* never together with another true label of the text in training
° of the tail: at most {TAIL} training texts
"""


def example_table(example: Example, comparison: Comparison) -> Table:
    """Show a text with its true labels above the first k labels of both models."""
    most, coded = 2 * comparison.k, comparison.coded
    true = "; ".join(f"{_unseen_or_rare(label)} {_called(label, coded)}".lstrip() for label in example.true[:most])
    more = f"; and {len(example.true) - most:,} more" if len(example.true) > most else ""
    title = Text.assemble((example.text or "(an empty text)", "bold"), f"\ntrue: {true}{more}")
    table = Table(title=title, title_justify="left", title_style="", expand=True)
    for name in comparison.models:
        table.add_column(name, overflow="fold", ratio=1)
    answers = [[_answer(label, coded) for label in answer] for answer in example.answers]
    for cells in zip_longest(*answers, fillvalue=Text()):
        table.add_row(*cells)
    return table


def _answer(label: Marked, coded: bool) -> Text:
    """Dim wrong labels; set right ones in bold that never occur together in training, as the papers' tables do."""
    style = "bold" if label.right and label.unseen_together else "" if label.right else "dim"
    return Text(f"{'✓' if label.right else '✗'}{_unseen_or_rare(label):<2} {_called(label, coded)}", style)


def _unseen_or_rare(label: Marked) -> str:
    return "*" * bool(label.unseen_together) + "°" * label.tail


def _called(label: Marked, coded: bool) -> str:
    """Return a label's name with its own text if there is space for it; only the text where names are codes."""
    space = 56 - len(label.label)
    if not label.text or (space < 10 and not coded):
        return label.label
    return label.text if coded else f"{label.label} ({shorten(label.text, space, placeholder=' …')})"
