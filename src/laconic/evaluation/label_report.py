"""Report precision, recall and F1 of each label, among the labels that are kept of each text."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from laconic.errors import ConfigError
from laconic.evaluation.label_sets import Scored
from laconic.evaluation.metrics.sets import SetCounts, first_places
from laconic.evaluation.thresholds import Found
from laconic.system.files import writing
from laconic.units import counted

FIRST = 5  # labels of a text that are kept where there is no threshold


class LabelFigures(NamedTuple):
    """The figures of one label; None where there is nothing to divide by, or nothing is known."""

    label: str
    training_texts: int | None  # that have the label
    test_texts: int  # that have the label
    predicted: int  # texts for which the label was kept
    right: int  # of these, the texts that have it
    precision: float | None  # in percent
    recall: float | None  # in percent
    f1: float | None  # in percent


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelReport:
    """How often each label was kept, was rightly kept, and is true; with the labels that were kept, in words."""

    kept: str
    counts: SetCounts
    names: Sequence[str]
    training: Int[np.ndarray, "labels"] | None  # training texts of each label; None: they are not known

    @staticmethod
    def of(
        scored: Scored, limits: Found | None, names: Sequence[str], training: Int[np.ndarray, "labels"] | None, k: int
    ) -> LabelReport:
        """Count the labels that reach their thresholds or, without any, the first k of each text."""
        if limits is None:
            kept, words = first_places(scored.judged, k), f"the first {counted(k, 'label')} of each text"
        else:
            kept, words = scored.reached(limits), f"labels with a score of {limits.score:.3g} or more"
        return LabelReport(kept=words, counts=SetCounts.of(scored.judged, kept), names=names, training=training)

    def figures(self) -> list[LabelFigures]:
        """Return the figures of labels that are true of, or kept for, any text; the most frequent in texts first."""
        counts = self.counts
        met = np.flatnonzero(counts.true + counts.kept)
        order = met[np.lexsort([met, -counts.kept[met], -counts.true[met]])]
        return [self._figures(label) for label in order.tolist()]

    def _figures(self, label: int) -> LabelFigures:
        true, kept, hits = (int(part[label]) for part in (self.counts.true, self.counts.kept, self.counts.hits))
        return LabelFigures(
            label=self.names[label],
            training_texts=None if self.training is None else int(self.training[label]),
            test_texts=true,
            predicted=kept,
            right=hits,
            precision=100 * hits / kept if kept else None,
            recall=100 * hits / true if true else None,
            f1=200 * hits / (kept + true),
        )


def check_report_file(path: Path) -> None:
    """Refuse a file whose ending is not that of a report, before any work is done."""
    if path.suffix.lower() not in (".csv", ".tsv", ".jsonl"):
        raise ConfigError(f"--per-label must end in .csv, .tsv or .jsonl, but is {path}")


def write_report(figures: Sequence[LabelFigures], path: Path) -> None:
    """Write a row for each label; what there is not, is an empty cell of a table and null in JSON."""
    with writing(path) as raw, TextIOWrapper(raw, encoding="utf-8", newline="") as file:
        if path.suffix.lower() == ".jsonl":
            file.writelines(json.dumps(one._asdict(), ensure_ascii=False) + "\n" for one in figures)
            return
        table = csv.writer(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", lineterminator="\n")
        table.writerow(LabelFigures._fields)
        table.writerows([_cell(value) for value in one] for one in figures)


def _cell(value: str | int | float | None) -> str | int | None:
    return f"{value:.2f}" if isinstance(value, float) else value
