"""A table's rows as markdown: ours, and under each what the paper prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.papers.datasets import PUBLISHED, Dataset
from benchmarks.tables import Spread, joined, table
from laconic.config import configure
from laconic.methods import astec

SIX = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
LABEL_TEXTS = ("PSP@1", "PSP@5", "P@1", "P@5")
COLUMNS: Mapping[tuple[str, str], Sequence[str]] = {
    ("inceptionxml", "table 2"): SIX,
    ("inceptionxml", "table 3"): SIX,
    ("inceptionxml", "table 4"): ("GFLOPS", "hours", "ms", "GB"),
    ("inceptionxml", "table 6"): ("P@1", "P@5", "PSP@1", "PSP@5"),
    ("inceptionxml", "figure 5"): SIX,
    ("deepxml", "table 1"): (*SIX, "nDCG@5", "hours"),
    ("deepxml", "table 4"): ("P@1", "P@3", "P@5", "PSP@5", "hours"),
    ("deepxml", "table 6"): ("P@1", "P@5", "PSP@5", "shortlist recall"),
    ("deepxml", "figure 2"): ("P@1", "P@5", "PSP@5", "hours"),
    ("deepxml", "reranker"): ("P@1", "P@3", "P@5", "PSP@1", "PSP@5", "alpha"),
    ("decaf", "table 1"): (*LABEL_TEXTS, "tail R@10"),
    ("decaf", "table 2"): (*LABEL_TEXTS, "C@20"),
    ("decaf", "table 4"): LABEL_TEXTS,
    ("decaf", "table 5"): (*LABEL_TEXTS, "R@20", "shortlist recall"),
    ("decaf", "table 6"): (*LABEL_TEXTS, "R@20", "shortlist recall"),
}
BESIDES = ("base", "words shuffled", "nearness alone", "classifier alone", "1 instance", "2 instances")
NOTES = {
    ("deepxml", "table 6"): "Classifiers over Astec's frozen vectors: DiSMEC, a row for each label against all texts; "
    "Parabel, label trees; Slice, rows without transfer against nearest centroids alone. No re-ranker anywhere.",
    ("decaf", "table 4"): "Trees read a label's own text as one more training text of it (`--label-texts`); how the "
    "paper augments its trees is in a supplement that we do not have.",
    ("decaf", "table 5"): "Ours are single models, the paper's ensembles of three. HNSW: nearest centroids, searched "
    "exactly. Parabel: one binary label tree over the vectors of module I, its best 500 labels. Loss and score are the "
    "same in all.",
    ("decaf", "table 6"): "Ours are single models, the paper's ensembles of three. DECAF-8K has 512 clusters on data "
    "that is none of the papers'.",
}
LEADING = {"inceptionxml": "AmazonTitles-670K", "deepxml": "AmazonTitles-670K", "decaf": "LF-AmazonTitles-131K"}


TITLES = {"inceptionxml": "InceptionXML", "deepxml": "DeepXML", "decaf": "DECAF"}


def shown(paper: str, what: str, data: Dataset, rows: Mapping[str, Any]) -> str:
    """Return a table's markdown for one dataset, with a title."""
    return joined(f"## {TITLES[paper]}, {what}: {data.name}", body(paper, what, data, rows))


def body(paper: str, what: str, data: Dataset, rows: Mapping[str, Any]) -> str:
    """Return a table's markdown for one dataset."""
    special: dict[tuple[str, str], Callable[[Dataset, Mapping[str, Any]], str]] = {
        ("inceptionxml", "table 5"): shuffled,
        ("deepxml", "table 3"): statistics,
        ("deepxml", "table 4"): recast,
        ("deepxml", "table 5"): settings,
        ("deepxml", "vectors"): vectors,
        ("decaf", "table 3"): examples,
    }
    if (paper, what) in special:
        return special[paper, what](data, rows)
    usual = ("nDCG@5", "P@1", "epoch") if what == "choices" else LABEL_TEXTS
    columns = COLUMNS.get((paper, what), usual)
    return joined(beside(paper, what, data, rows, columns), NOTES.get((paper, what), ""))


def published(paper: str, what: str, data: Dataset) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return the paper's rows by name with where each is from: this dataset or, where it is no paper's, the papers'."""
    found: Mapping[str, Any] = PUBLISHED[paper].get(what.removeprefix("table "), {})
    if data.known:
        return {name: ("paper", figures) for name, figures in found.get(data.known, {}).items()}
    order = sorted(found, key=lambda name: name != LEADING[paper])
    rows: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for other in order:
        for name, figures in found[other].items():
            rows.setdefault(name, (f"paper, {other}", figures))
    return rows


def beside(paper: str, what: str, data: Dataset, rows: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Return our rows, each followed by the paper's of that name, then what the paper has besides."""
    printed, lines = published(paper, what, data), []
    for name, row in rows.items():
        lines.append([name, f"ours, {row['seeds']} seed{'s' * (row['seeds'] > 1)}", *cells(row, columns)])
        lines += [
            [f"{name}: {kind}", "ours", *cells(row, columns, f"{kind}: ")] for kind in BESIDES if f"{kind}: P@1" in row
        ]
        if name in printed:
            where, figures = printed.pop(name)
            lines.append([name, where, *paper_cells(figures, columns)])
    lines += [[name, where, *paper_cells(figures, columns)] for name, (where, figures) in printed.items()]
    return table(["", "", *columns], lines)


def cells(row: Mapping[str, Any], columns: Sequence[str], prefix: str = "") -> list[str]:
    return [figure(row, prefix + name) for name in columns]


def figure(row: Mapping[str, Any], name: str) -> str:
    if name == "hours" and "seconds" in row:
        return f"{row['seconds']['mean'] / 3600:.3f}"
    return Spread.of(row[name]).told(4 if name == "GFLOPS" else 2) if name in row else ""


def paper_cells(figures: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    values = [figures.get(name, "") for name in columns]
    return [str(Spread(*value)) if isinstance(value, list) else f"{value}" for value in values]


def shuffled(data: Dataset, rows: Mapping[str, Any]) -> str:
    """Table 5 of InceptionXML."""
    columns, lines = ("P@1", "P@3", "P@5"), []
    for name, row in rows.items():
        moved = {
            one: Spread(row[f"words shuffled: {one}"]["mean"], row[f"words shuffled: {one} ±"]["mean"])
            for one in columns
        }
        lost = [Spread(moved[one].mean - row[one]["mean"]).signed for one in columns]
        lines.append([f"{name}, original", "ours", *(f"{row[one]['mean']:.2f}" for one in columns)])
        lines.append(["words shuffled, ± of 10 orders", "ours", *map(str, moved.values())])
        lines.append(["lost", "ours", *lost])
    for name, (where, figures) in published("inceptionxml", "table 5", data).items():
        lines.append([name, where, *paper_cells(figures, columns)])
    return table(["", "", *columns], lines)


def statistics(data: Dataset, rows: Mapping[str, Any]) -> str:
    """Table 3 of DeepXML: what is in the folder."""
    train, test = (data.corpus.split(name) for name in ("train", "test"))
    pairs = train.labels.nnz + test.labels.nnz
    features = train.features.shape[1] if data.has_features and train.features is not None else ""
    mine = {
        "texts": f"{len(train):,}",
        "test": f"{len(test):,}",
        "features": f"{features}",
        "labels": f"{train.labels.shape[1]:,}",
        "labels a text": f"{pairs / (len(train) + len(test)):.2f}",
        "texts a label": f"{pairs / train.labels.shape[1]:.2f}",
    }
    lines = [[data.name, "ours", *mine.values()]]
    for name, (where, figures) in published("deepxml", "table 3", data).items():
        lines.append([name, where, *(f"{figures[one]:,}" for one in mine)])
    return table(["", "", *mine], lines)


def recast(data: Dataset, rows: Mapping[str, Any]) -> str:
    """Table 4 of DeepXML: what recasting brings."""
    lines = []
    for name, (where, figures) in published("deepxml", "table 4", data).items():
        method = name.removeprefix("DeepXML + ")
        for other in [one for one in rows if one.startswith(f"{method} as published") and name in rows]:
            ours, theirs = rows[name], rows[other]
            gain = Spread(ours["P@1"]["mean"] - theirs["P@1"]["mean"]).signed
            speed = theirs["seconds"]["mean"] / ours["seconds"]["mean"]
            lines.append(
                [f"{name}, {other}", "ours", figure(theirs, "P@1"), figure(ours, "P@1"), gain, f"{speed:.1f}×"]
            )
        lines.append([name, where, "", "", f"+{figures['ΔP@1']}", f"{figures['speed-up']}×"])
    head = ["", "", "P@1 as published", "P@1 in DeepXML", "ΔP@1", "speed-up"]
    whole = table(
        ["", "seeds", *SIX, "hours"], [[n, str(r["seeds"]), *cells(r, (*SIX, "hours"))] for n, r in rows.items()]
    )
    return joined(table(head, lines), whole)


def settings(data: Dataset, rows: Mapping[str, Any]) -> str:
    """Table 5 of DeepXML: Astec's settings here."""
    corpus, own = data.corpus.split("train"), data.settings("astec")
    sizes = len(corpus), corpus.labels.shape[1], 8, int(corpus.labels.nnz)
    config = astec.with_sizes(configure(astec.Config, own), *sizes)
    mine = [config.surrogate.count, config.surrogate.learning_rate, config.extreme.learning_rate]
    lines = [[data.name, "ours", *map(str, mine)]]
    for name in PUBLISHED["deepxml"]["5"]:
        figures = PUBLISHED["deepxml"]["5"][name]["Astec"]
        lines.append([name, "paper", *(f"{figures[one]}" for one in ("groups", "surrogate rate", "extreme rate"))])
    return table(["", "", "groups", "surrogate rate", "extreme rate"], lines)


def vectors(data: Dataset, rows: Mapping[str, Any]) -> str:
    """The overlap of shortlists (the paper: more than 87 %) and Theorem 1's numbers."""
    names = [name for row in rows.values() for name in row if name.startswith(("overlap", "theorem 1"))]
    lines = [[name, *(str(Spread.of(row[name])) for row in rows.values())] for name in dict.fromkeys(names)]
    return joined(table(["", *rows], lines), "The paper reports an overlap of more than 87 %.")


def examples(data: Dataset, rows: Mapping[str, Any]) -> str:
    """Table 3 of DECAF: bold is true, bold italics true and never seen with the rest of the truth."""
    marks = {"true": "**{}**", "true, never seen with the others": "***{}***", "not true": "{}"}
    found = next(iter(rows.values()))["examples"] if rows else {}
    lines = [
        [text, ", ".join(marks[one["kind"]].format(one["label"]) for one in labels)] for text, labels in found.items()
    ]
    return table(["text", "best five"], lines)
