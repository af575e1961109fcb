"""Tables that describe data: splits, labels, how a file was read, and what training on it would cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rich.table import Table

from laconic.cli.tables import attribute_rows, plain_table, titled_table
from laconic.data.corpus import TableFacts
from laconic.data.describe import TAIL, DataFacts, SplitFacts
from laconic.data.formats.records import excerpt
from laconic.units import counted, human_bytes, human_seconds

_LONGEST_SHOWN = 100  # characters of a text or a name


def facts_tables(facts: DataFacts) -> list[Table]:
    return [_splits_table(facts), _labels_table(facts)]


def reading_tables(facts: DataFacts) -> list[Table]:
    """Show how data was read: columns and separator of a table, the first rows, and names of labels."""
    names = titled_table("label names", "most frequent", "texts", "longest names", "texts")
    for pair in zip_longest(facts.labels.frequent, facts.labels.longest):
        names.add_row(
            *(cell for one in pair for cell in (("", "") if one is None else (_line(one.label), f"{one.texts:,}")))
        )
    samples = titled_table("the first rows, as read", "text", "labels")
    for sample in facts.samples:
        samples.add_row(_line(sample.text or ""), " · ".join(_line(label) for label in sample.labels) or "(none)")
    return [*([] if facts.table is None else [_columns_table(facts.table)]), samples, names]


def _columns_table(table: TableFacts) -> Table:
    """Show the columns of each split's table, and what separates the labels of a cell."""
    shown = titled_table("columns", "", *table.columns)
    for role in dict.fromkeys(role for used in table.used.values() for role in used):
        if any(role in used for used in table.used.values()):
            shown.add_row(role, *(_line(used.get(role, "")) for used in table.used.values()))
    unused = (
        [name for name in header if name not in table.used[split].values()] for split, header in table.columns.items()
    )
    shown.add_row("not used", *(_line(", ".join(names)) for names in unused))
    if table.fields:
        shown.add_row("joined as", table.fields)
    separators = {"": "no separator occurs", "none": "none: each cell is one label"}
    shown.add_row("separator", separators.get(table.separator, table.separator))
    if table.lists:
        shown.add_row("lists", counted(table.lists, "cell"))
    return shown


def _line(text: str) -> str:
    """Return a text on one line, cut where it is long."""
    return excerpt(" ".join(text.split()), _LONGEST_SHOWN)


def cost_table(costs: Mapping[str, Mapping[str, Any]]) -> Table:
    """Show what the default model of each method would cost."""
    table = Table(title="Estimated training cost", title_justify="left", title_style="bold")
    table.add_column("")
    for method in costs:
        table.add_column(method, justify="right")
    rows: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "parameters": lambda cost: f"{sum(cost['parameters'].values()):,}",
        "model size": lambda cost: human_bytes(cost["bytes"]),
        "one text": lambda cost: f"{cost['gmacs']:.4f} GMACs at {counted(cost['length'], 'word')}",
        "training": lambda cost: (
            f"{counted(cost['epochs'], 'epoch')} in {human_bytes(cost['training_bytes'])} of memory"
        ),
        "on a gpu": lambda cost: (
            human_seconds(cost["training_seconds"]["gpu"])
            + (f" in {human_bytes(cost['gpu_bytes'])}" if "gpu_bytes" in cost else "")
        ),
        "on a cpu core": lambda cost: human_seconds(cost["training_seconds"]["cpu_core"]),
    }
    for title, cell in rows.items():
        table.add_row(title, *(cell(cost) for cost in costs.values()))
    return table


def _splits_table(facts: DataFacts) -> Table:
    table = Table(title=Path(facts.source).name, title_justify="left", title_style="bold")
    table.add_column("")
    for name in facts.splits:
        table.add_column(name, justify="right")
    rows = {
        "texts": lambda split: f"{split.texts:,}",
        "labels per text": lambda split: f"{split.labels_per_text:.2f}",
        "vocabulary": lambda split: f"{split.words.vocabulary:,}" if split.words else "",
        "words per text": lambda split: f"{split.words.mean:.1f}" if split.words else "",
        "texts of up to 4 words": lambda split: f"{split.words.at_most_4:.0%}" if split.words else "",
        "texts of up to 8 words": lambda split: f"{split.words.at_most_8:.0%}" if split.words else "",
        f"longer than {counted(facts.length, 'token')}": lambda split: f"{split.words.cut:.1%}" if split.words else "",
        "without labels": lambda split: f"{split.without_labels:,}",
        "empty texts": lambda split: f"{split.empty_texts:,}",
        "duplicate texts": lambda split: f"{split.repeated_texts:,}",
        "also in training": lambda split: f"{split.also_in_training:,}",
        "pairs left out": lambda split: f"{split.left_out_pairs:,}",
        "weights": _weights,
    }
    for title, cell in rows.items():
        cells = [cell(split) for split in facts.splits.values()]
        if any(text not in ("", "0") for text in cells):
            table.add_row(title, *cells)
    return table


def _weights(split: SplitFacts) -> str:
    return " and ".join(["of texts"] * split.weighted_texts + ["of labels"] * split.weighted_labels)


def _labels_table(facts: DataFacts) -> Table:
    labels = facts.labels
    table = plain_table("labels")
    table.add_row("labels", f"{labels.labels:,}")
    if facts.features is not None:
        table.add_row("features", f"{facts.features:,}")
    table.add_row("with a text of their own", f"{labels.with_text:,}")
    for name, values in attribute_rows(labels.attributes).items():
        table.add_row(name, values)
    table.add_row("training texts per label", f"{labels.texts_per_label:.2f}")
    table.add_row("texts per label, all splits", f"{labels.texts_per_label_all:.2f}")
    table.add_row("without a training text", f"{labels.without_training_text:,}")
    table.add_row(f"with at most {TAIL} (the tail)", f"{labels.tail:,}")
    for quantile, count in labels.frequency_quantiles.items():
        table.add_row(_QUANTILE_NAMES.get(quantile, f"{quantile} of labels have at most"), f"{count:,}")
    if labels.unseen_in_training:
        unseen = f"{labels.unseen_in_training:,} ({counted(labels.unseen_occurrences, 'time')})"
        table.add_row("in other splits, never in training", unseen)
    if labels.alike:
        earlier, later = labels.alike_examples[0]
        table.add_row("alike but for case and spaces", f"{labels.alike:,} ({_line(earlier)} · {_line(later)})")
    return table


_QUANTILE_NAMES = {"0%": "the rarest label has", "100%": "the most frequent has"}
