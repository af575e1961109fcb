"""What the papers' tables and figures train: each a list of rows, with the part that a row changes."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.papers.datasets import HERE, OURS, Dataset
from laconic.config import Settings, merged, preset_path, read_settings

PARTS: dict[str, dict[str, Settings]] = tomllib.loads((HERE / "parts.toml").read_text(encoding="utf-8"))
VECTORS = "?"  # stands for a file of word vectors; rows that want one are left out where there is none
_FEW_CLUSTERS = 512  # for DECAF-8K on data that has fewer labels than the papers'


@dataclass(frozen=True)
class Row:
    """A training: a method's settings on the dataset, with some changed."""

    name: str
    method: str
    changes: Settings = field(default_factory=dict)
    members: int = 1
    looks: tuple[str, ...] = ()  # what else is measured of the model
    given: Settings | None = None  # settings instead of the dataset's own

    def settings(self, data: Dataset) -> Settings:
        return merged(data.settings(self.method) if self.given is None else self.given, self.changes)


def held(data: Dataset) -> Settings:
    """Return the share of training texts that is held out where something is chosen or watched."""
    return {"validation": OURS["held"].get(data.name, 0.05)}


# InceptionXML


def single(data: Dataset) -> list[Row]:
    """Table 3. InceptionXML scores every label; on the largest data its authors did without it."""
    plus = Row("InceptionXML+", "inceptionxml+", looks=("product", "sweep"))
    base = [] if data.known == "AmazonTitles-3M" else [Row("InceptionXML", "inceptionxml")]
    return [plus, *base, published_astec(data)]


def ensembles(data: Dataset) -> list[Row]:
    """Table 2: three models, whose seeds are one apart."""
    if data.known == "AmazonTitles-3M":
        return single(data)
    return [Row(f"{row.name}*", row.method, row.changes, 3, ("sizes",)) for row in single(data)]


def costs(data: Dataset) -> list[Row]:
    return [Row(row.name, row.method, row.changes, 1, ("costs",)) for row in single(data)]


def shuffled_words(data: Dataset) -> list[Row]:
    return [Row("InceptionXML+", "inceptionxml+", looks=("shuffles",))]


def fan_outs(data: Dataset) -> list[Row]:
    """Table 6: fewer clusters, the same share of labels; heads and schedule of LightXML; the encoder in DeepXML."""
    settings = data.fitted(data.settings("inceptionxml+"))
    clusters = settings.get("clusters") or 1 << max(0, min(data.num_labels // 6, 1 << 17).bit_length() - 1)
    top = settings.get("top") or min(800, round(clusters**0.6))
    sizes = [(clusters // part, top // part) for part in (8, 4, 2, 1) if clusters >= 2 * part and top >= part]
    rows = [
        Row(f"{size_of(count)}, {opened}: {name}", "inceptionxml+", {"clusters": count, "top": opened, **changes})
        for count, opened in sizes
        for name, changes in PARTS["inceptionxml, table 6"].items()
    ]
    return [*rows, recast("inception", "in DeepXML")]


def size_of(clusters: int) -> str:
    """As the paper's Table 6 has it: 65,536 is 65K."""
    return f"{clusters // 1000}K" if clusters >= 1000 else str(clusters)


def watched(data: Dataset) -> list[Row]:
    """Figure 3: both classifiers on a validation split, epoch by epoch."""
    parts = PARTS["inceptionxml, table 6"].items()
    rows = [Row(name, "inceptionxml+", held(data) | changes, looks=("history",)) for name, changes in parts]
    return [row for row in rows if row.name != "w/o detaching"]


def permutations(data: Dataset) -> list[Row]:
    """Figure 4; the first leaves dimensions as they are."""
    return [Row(f"permutation {one}", "inceptionxml+", {"vectors": VECTORS, "permutation": one}) for one in range(11)]


def attention(data: Dataset) -> list[Row]:
    """Figure 5."""
    return [Row("with attention", "inceptionxml+"), Row("without", "inceptionxml+", {"attention": False})]


# DeepXML


def astec(name: str = "Astec", *looks: str, members: int = 1, **changes: Any) -> Row:
    return Row(name, "astec", changes, members, looks)


def recast(preset: str, name: str) -> Row:
    """Another method's encoder in DeepXML."""
    return astec(name, **read_settings(preset_path("astec", preset), []))


def published_astec(data: Dataset, *looks: str) -> Row:
    """Astec as its figures were published: with a re-ranker on the papers' data; on ours it is better without."""
    return Row("Astec", "astec", {"reranker": fixed_reranker(data)} if data.known else {}, looks=looks)


def fixed_reranker(data: Dataset) -> Settings:
    """Return the re-ranker's settings, with the weight that the published code has for every text."""
    alpha = 0.5 if data.known in ("WikiTitles-500K", "LF-AmazonTitles-1.3M") else 0.6
    own: Settings = OURS["settings"].get(data.name, {}).get("reranker", {"epochs": 10, "learning_rate": 0.002})
    return {"alpha": alpha, **own}


def main_of_deepxml(data: Dataset) -> list[Row]:
    """Tables 1 and 11; on our own data also what else stands beside Astec there."""
    fixed = fixed_reranker(data)
    rows = [
        astec("Astec without its re-ranker", "blend", "recalls", "quantiles"),
        astec("Astec", "base", reranker=fixed),
        astec("Astec-3", members=3, reranker=fixed),
        Row("MACH", "mach", {"members": 32}),
        Row("XML-CNN", "xml-cnn", looks=("quantiles",)),
        *trees_of(data)[:2],
    ]
    if data.known:
        return rows
    return [
        *rows,
        astec("Astec without its re-ranker, ensemble of 3", members=3),
        astec("Astec, 100 by label texts", label_texts=100),
        Row("InceptionXML", "inceptionxml", looks=("quantiles",)),
    ]


def reranked(data: Dataset) -> list[Row]:
    """The re-ranker with its weight chosen on texts that neither model has learnt from, and its base."""
    own = OURS["settings"].get(data.name, {}).get("reranker", {})
    return [astec("Astec, weight chosen on validation", "base", "alphas", reranker=own, **held(data))]


def recast_methods(data: Dataset) -> list[Row]:
    """Table 4: XML-CNN and MACH as published, and their encoders in DeepXML."""
    return [
        Row("XML-CNN as published", "xml-cnn"),
        recast("xml-cnn", "DeepXML + XML-CNN"),
        Row("MACH as published", "mach", {"members": 32}),
        recast("mach", "DeepXML + MACH"),
    ]


def parts_of_astec(data: Dataset) -> list[Row]:
    """Table 6: one part changed at a time."""
    return [
        astec("Astec", "blend"),
        *(astec(name, **changes) for name, changes in PARTS["deepxml, table 6"].items()),
        astec("classifier: DiSMEC", "linear"),
        astec("classifier: Parabel", "forest"),
    ]


def random_negatives(data: Dataset) -> list[Row]:
    """Figure 2: so many random negatives a text, against every label and against the shortlist."""
    counts = [(kind, count) for kind in ("uniform", "unigram") for count in (50, 150, 500, 1500, 5000)]
    rows = [astec(f"{kind}, {count}", extreme={"negatives": kind, "random": count}) for kind, count in counts]
    return [*rows, astec("shortlist"), astec("every label", "every label")]


def vectors_of_astec(data: Dataset) -> list[Row]:
    """The overlap of shortlists before and after transfer, and Theorem 1's numbers."""
    return [astec("Astec", "overlap", "theorem 1")]


# DECAF


def decaf(name: str, *looks: str, members: int = 1, **changes: Any) -> Row:
    return Row(name, "decaf", changes, members, ("shortlist", *looks))


def main_of_decaf(data: Dataset) -> list[Row]:
    """Tables 1 and 2: DECAF is an ensemble of three that share module I."""
    return [
        decaf("DECAF", "sizes", "quantiles", members=3),
        decaf("DECAF-lite", lite=True),
        published_astec(data, "quantiles"),
        Row("MACH", "mach", {"members": 32}),
        *trees_of(data)[:2],
    ]


def examples(data: Dataset) -> list[Row]:
    """Table 3: what DECAF predicts for a few test texts."""
    return [decaf("DECAF", "examples")]


def trees_of(data: Dataset) -> list[Row]:
    """Label trees like Parabel (binary) and Bonsai (about 100 children), then both with label texts to learn from."""
    kinds: dict[str, Settings] = {"Parabel": {"fan_out": 2, "pairs": 0}, "Bonsai": {"fan_out": 128, "pairs": 0}}
    plain = [Row(name, "trees", changes, looks=("quantiles",)) for name, changes in kinds.items()]
    return plain + [
        Row(f"{name} + metadata", "trees", changes | {"extra_texts": {}}) for name, changes in kinds.items()
    ]


def trees_with_label_texts(data: Dataset) -> list[Row]:
    """Table 4. A label's own text is a training text of it here; how the paper augments trees, it does not say."""
    return [decaf("DECAF", members=3), *trees_of(data)]


def shortlists(data: Dataset) -> list[Row]:
    """Table 5."""
    parabel = Row("+ Parabel shortlist", "decaf", looks=("by trees",))
    return [decaf("DECAF"), decaf("+ HNSW shortlist", shortlist="nearest"), parabel]


def parts_of_decaf(data: Dataset) -> list[Row]:
    """Table 6, then where paper and code differ; one part changed at a time."""
    parts = PARTS["decaf, table 6"]
    if not data.known:
        parts = parts | {"DECAF-8K": parts["DECAF-8K"] | {"clusters": _FEW_CLUSTERS}}
    return [decaf(name, **changes) for name, changes in parts.items()]


def instances(data: Dataset) -> list[Row]:
    """Figure 5."""
    return [decaf("instances", "sizes", members=6)]


def recall_by_fan_out(data: Dataset) -> list[Row]:
    """Figure 6: fan-outs of module II, whose recall is judged on held-out texts."""
    counts = [count for count in (128, 512, 2048, 8192, 32768, 131072) if 4 * count <= data.num_labels] or [1]
    return [decaf(f"{count}", clusters=count, beam=0, **held(data)) for count in counts]


def choices(data: Dataset) -> list[Row]:
    """What the settings of our own data were chosen from, on a validation split."""
    method = {"inceptionxml": "inceptionxml+", "deepxml": "astec", "decaf": "decaf"}[data.paper]
    protocol: Settings = {"length": 16, "clusters": 4096} if method == "inceptionxml+" else {}
    given = {"batch_size": 256} | protocol | held(data)
    tried = OURS["choices"][method].get(data.name, {})
    return [Row(name, method, changes, looks=("validation",), given=given) for name, changes in tried.items()]


ROWS: dict[str, dict[str, Callable[[Dataset], list[Row]]]] = {
    "inceptionxml": {
        "table 2": ensembles,
        "table 3": single,
        "table 4": costs,
        "table 5": shuffled_words,
        "table 6": fan_outs,
        "figure 3": watched,
        "figure 4": permutations,
        "figure 5": attention,
        "choices": choices,
    },
    "deepxml": {
        "table 1": main_of_deepxml,
        "table 3": lambda data: [],
        "table 4": recast_methods,
        "table 5": lambda data: [],
        "table 6": parts_of_astec,
        "figure 2": random_negatives,
        "reranker": reranked,
        "vectors": vectors_of_astec,
        "choices": choices,
    },
    "decaf": {
        "table 1": main_of_decaf,
        "table 3": examples,
        "table 4": trees_with_label_texts,
        "table 5": shortlists,
        "table 6": parts_of_decaf,
        "figure 5": instances,
        "figure 6": recall_by_fan_out,
        "choices": choices,
    },
}
SHARED = {  # tables and figures that show the trainings of another table
    ("decaf", "table 2"): "table 1",
    ("decaf", "figure 4"): "table 1",
    ("deepxml", "figure 3"): "table 1",
}
