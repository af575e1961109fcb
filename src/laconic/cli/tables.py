"""Tables for the terminal, made with rich from facts and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from textwrap import shorten
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from laconic.analysis.bench import Point
from laconic.analysis.compare import Comparison, Example, Marked
from laconic.cli.progress import counting
from laconic.data.corpus import TableFacts
from laconic.data.describe import TAIL, DataFacts, SplitFacts
from laconic.data.formats.records import excerpt
from laconic.data.vocabulary import Vocabulary
from laconic.evaluation.evaluate import Evaluation
from laconic.evaluation.metrics import KS
from laconic.packed.folder import PackedModel
from laconic.predict.packing_cost import Cost
from laconic.predict.prediction import Prediction
from laconic.storage.card import SHOWN, score_rows, theorem_rows
from laconic.storage.model_folder import SavedModel
from laconic.training.loop import EpochFacts
from laconic.units import counted, human_bytes, human_seconds, plural

_LONGEST_SHOWN = 100  # characters of a text or a name


def facts_tables(facts: DataFacts) -> list[Table]:
    return [_splits_table(facts), _labels_table(facts)]


def reading_tables(facts: DataFacts) -> list[Table]:
    """Show how data was read: columns and separator of a table, the first rows, and names of labels."""
    names = _titled_table("label names", "most frequent", "texts", "longest names", "texts")
    for pair in zip_longest(facts.labels.frequent, facts.labels.longest):
        names.add_row(
            *(cell for one in pair for cell in (("", "") if one is None else (_line(one.label), f"{one.texts:,}")))
        )
    samples = _titled_table("the first rows, as read", "text", "labels")
    for sample in facts.samples:
        samples.add_row(_line(sample.text or ""), " · ".join(_line(label) for label in sample.labels) or "(none)")
    return [*([] if facts.table is None else [_columns_table(facts.table)]), samples, names]


def _columns_table(table: TableFacts) -> Table:
    """Show the columns of each split's table, and what separates the labels of a cell."""
    shown = _titled_table("columns", "", *table.columns)
    for role in ("text", "labels", "id", "weight"):
        if any(role in used for used in table.used.values()):
            shown.add_row(role, *(_line(used.get(role, "")) for used in table.used.values()))
    unused = (
        [name for name in header if name not in table.used[split].values()] for split, header in table.columns.items()
    )
    shown.add_row("not used", *(_line(", ".join(names)) for names in unused))
    separators = {"": "no separator occurs", "none": "none: each cell is one label"}
    shown.add_row("separator", separators.get(table.separator, table.separator))
    if table.lists:
        shown.add_row("lists", counted(table.lists, "cell"))
    return shown


def _titled_table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _line(text: str) -> str:
    """Return a text on one line, cut where it is long."""
    return excerpt(" ".join(text.split()), _LONGEST_SHOWN)


def metrics_table(evaluations: Mapping[str, Evaluation], title: str) -> Table:
    """Show one evaluation by k with intervals, or the usual metrics of several evaluations side by side."""
    if len(evaluations) > 1:
        return _side_by_side(evaluations, title)
    return _by_k(next(iter(evaluations.values())), title)


def predictions_table(text: str, predictions: Sequence[Prediction], label_texts: Mapping[str, str]) -> Table:
    table = Table(
        title=text or "(an empty text)", title_justify="left", title_style="bold", show_header=False, box=None
    )
    for label, score in predictions:
        table.add_row(f"{score:.3f}", label, label_texts.get(label, ""))
    return table


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


def sweep_table(found: Sequence[Mapping[str, int | float]], title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in found[0]:
        table.add_column(name, justify="right")
    forms = {"top": ",.0f", "texts a second": ",.0f", "alpha": "g", "beta": "g", "tail": "g"}
    for row in found:
        table.add_row(*(format(value, forms.get(name, ".1f")) for name, value in row.items()))
    return table


def speed_table(points: Sequence[Point], title: str) -> Table:
    """Show the speed and the accuracy of a packed model at each search width."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for name in ("p50, ms", "p99, ms", "texts/s", "memory", *points[0].figures):
        table.add_column(name, justify="right")
    for point in points:
        timing = point.timing
        memory = "" if timing.private is None else human_bytes(timing.private)
        cells = (f"{timing.p50:.2f}", f"{timing.p99:.2f}", f"{timing.texts_a_second:,.0f}", memory)
        table.add_row(point.setting.name, *cells, *(f"{value:.2f}" for value in point.figures.values()))
    return table


def comparison_tables(comparison: Comparison, title: str) -> list[Table]:
    """Show the metrics of both models with their difference, and on how many texts each of them is right."""
    figures = Table(title=title, title_justify="left", title_style="bold")
    for column in ("%", *comparison.models, "difference", "95 % interval"):
        figures.add_column(column, justify="right" if column != "%" else "left", overflow="fold")
    for name, figure in comparison.figures.items():
        low, high = figure.interval
        cells = (
            *(f"{value:.1f}" for value in figure.models),
            f"{figure.difference:+.1f}",
            f"{low:+.1f} to {high:+.1f}",
        )
        figures.add_row(name, *cells)
    one, other = comparison.models
    tallies = Table(title="texts", title_justify="left", title_style="bold")
    for column in ("", f"only {one}", f"only {other}", "both", "neither"):
        tallies.add_column(column, justify="right" if column else "left", overflow="fold")
    for k, tally in comparison.right.items():
        right = "first label right" if k == 1 else f"one of the first {k} right"
        tallies.add_row(right, *(f"{count:,}" for count in tally))
    if comparison.k > 1:
        more = (f"{count:,}" for count in comparison.more_right)
        tallies.add_row(f"more of the first {comparison.k} right", *more, "", "")
    return [figures, tallies]


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


def model_table(name: str, model: SavedModel, cost: Mapping[str, Any] | None) -> Table:
    facts, sizes = model.facts, model.facts["sizes"]
    table = _plain_table(name)
    table.add_row("method", facts["method"])
    if reranker := facts["config"].get("reranker"):
        table.add_row("re-ranker", f"{reranker.get('encoder')}, of the best {reranker.get('size')} labels")
    if extra := facts["config"].get("extra_texts"):
        table.add_row("labels' own texts", f"trained on, others above a fraction of {extra.get('threshold')}")
    if fusion := facts["config"].get("fusion"):
        table.add_row("fused with", f"{fusion.get('neighbours')} nearest texts and labels' own texts")
    if "ensemble" in facts:
        table.add_row("members", f"{facts['ensemble']}, whose scores are averaged")
    table.add_row("trained on", f"{facts['data']['name']}: {counted(sizes['texts'], 'text')}")
    table.add_row("labels", f"{len(model.labels):,}")
    table.add_row("words", _words(model.vocabulary))
    table.add_row("tensors", human_bytes(sum(tensor.nbytes for tensor in model.tensors.values())))
    if cost is not None:
        for part, count in cost["parameters"].items():
            table.add_row(f"parameters, {part}", f"{count:,}")
        table.add_row("one text", f"{cost['gmacs']:.4f} GMACs at {counted(cost['length'], 'word')}")
    for metric in SHOWN:
        if metric in facts.get("metrics", {}).get("metrics", {}):
            table.add_row(f"{metric} ({facts['metrics']['split']})", f"{facts['metrics']['metrics'][metric]:.1f}")
    for name, value in (theorem_rows(facts) | score_rows(facts)).items():
        table.add_row(name, value)
    table.add_row("made", facts["created"])
    return table


def packed_table(name: str, packed: PackedModel, size: int) -> Table:
    facts, table = packed.facts, _plain_table(name)
    table.add_row("packed", facts["method"])
    table.add_row("labels", f"{len(packed.labels):,}")
    table.add_row("words", _words(packed.vocabulary))
    table.add_row(
        "training texts",
        f"{packed.num_kept:,} {plural(packed.num_kept, 'is', 'are')} kept" if packed.num_kept else "are not kept",
    )
    table.add_row("files", human_bytes(size))
    for name, value in (packing_rows(facts) | score_rows(facts)).items():
        table.add_row(name, value)
    table.add_row("model made", facts["created"])
    return table


def packing_rows(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the measured cost of packing; nothing if it was not measured."""
    cost = Cost.of_facts(facts.get("packing"))
    if cost is None:
        return {}
    rows = {"of the model's best five": f"{cost.found:.2f} % on {cost.words}"}
    if cost.precision is not None:
        rows["P@5"] = f"{cost.precision.after:.2f} (model: {cost.precision.before:.2f})"
    return rows


def _words(vocabulary: Vocabulary | None) -> str:
    return "none: it reads features" if vocabulary is None else f"{len(vocabulary.words):,}"


def _plain_table(title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    return table


@contextmanager
def training_display(console: Console) -> Iterator[TrainingDisplay]:
    """Report on a run: a progress bar on a terminal, and one line per epoch everywhere."""
    with counting(console) as bar:
        yield TrainingDisplay(bar)


class TrainingDisplay:
    """Prints the progress of a training run."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar

    def planned(self, memory: int, seconds: float) -> None:
        self.bar.console.print(f"this takes about {human_bytes(memory)} of memory and {human_seconds(seconds)}")

    def began(self, how: str, epochs: int, steps: int, done: int) -> None:
        self.epochs = epochs
        resumed = ", done before" if done == epochs * steps else f", resumed at epoch {done // steps + 1}"
        again = resumed if done else ""
        self.bar.console.print(f"{counted(epochs, 'epoch')} of {counted(steps, 'step')}, {how}{again}")
        self.task = self.bar.add_task(f"training, {how}", total=epochs * steps, completed=done)

    def stepped(self) -> None:
        self.bar.advance(self.task)

    def ended(self, facts: EpochFacts) -> None:
        figures = ", ".join(f"{name} {figure:.2f}" for name, figure in facts.figures.items())
        score = f", validation {figures}" if figures else ""
        line = f"epoch {facts.epoch}/{self.epochs}: loss {facts.loss:.6f}{score}, {facts.seconds:.1f} s"
        self.bar.console.print(line)


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
    table = _plain_table("labels")
    table.add_row("labels", f"{labels.labels:,}")
    if facts.features is not None:
        table.add_row("features", f"{facts.features:,}")
    table.add_row("with a text of their own", f"{labels.with_text:,}")
    table.add_row("training texts per label", f"{labels.texts_per_label:.2f}")
    table.add_row("texts per label, all splits", f"{labels.texts_per_label_all:.2f}")
    table.add_row("without a training text", f"{labels.without_training_text:,}")
    table.add_row(f"with at most {TAIL} (the tail)", f"{labels.tail:,}")
    for quantile, count in labels.frequency_quantiles.items():
        table.add_row(_QUANTILE_NAMES.get(quantile, f"{quantile} of labels have at most"), f"{count:,}")
    if labels.unseen_in_training:
        unseen = f"{labels.unseen_in_training:,} ({counted(labels.unseen_occurrences, 'time')})"
        table.add_row("in other splits, never in training", unseen)
    return table


_QUANTILE_NAMES = {"0%": "the rarest label has", "100%": "the most frequent has"}


def _by_k(evaluation: Evaluation, title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("%")
    ks = [k for k in KS if f"P@{k}" in evaluation.metrics]
    for k in ks:
        table.add_column(f"@{k}", justify="right")
    for name in dict.fromkeys(metric.partition("@")[0] for metric in evaluation.metrics):
        table.add_row(name, *(_with_interval(evaluation, f"{name}@{k}") for k in ks))
    return table


def _with_interval(evaluation: Evaluation, metric: str) -> str:
    if metric not in evaluation.metrics:  # not every one is there for every k
        return ""
    value = f"{evaluation.metrics[metric]:.1f}"
    if metric not in evaluation.intervals:
        return value
    low, high = evaluation.intervals[metric]
    return f"{value} ±{(high - low) / 2:.1f}"


def _side_by_side(evaluations: Mapping[str, Evaluation], title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("%")
    for metric in SHOWN:
        table.add_column(metric, justify="right")
    for name, evaluation in evaluations.items():
        table.add_row(name, *(f"{evaluation.metrics[metric]:.1f}" for metric in SHOWN))
    return table
