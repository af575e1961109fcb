"""What the papers' tables and figures train: each a list of rows, with the part that a row changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.papers.datasets import OURS, Dataset
from laconic.config import Settings, merged, preset_path, read_settings

VECTORS = "?"  # stands for a file of word vectors; rows that want one are left out where there is none
Changes = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A training: the settings of its method on the dataset, with some changed (`group.name` is one of a group)."""

    name: str
    method: str
    changes: Changes = field(default_factory=dict)
    members: int = 1
    looks: tuple[str, ...] = ()
    given: Settings | None = None  # settings instead of the dataset's own

    def settings(self, data: Dataset) -> Settings:
        own = data.settings(self.method) if self.given is None else self.given
        return merged(own, nested(self.changes))


def nested(changes: Changes) -> Settings:
    settings: Settings = {}
    for key, value in changes.items():
        group, _, name = key.rpartition(".")
        settings = merged(settings, {group: {name: value}} if group else {name: value})
    return settings


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
    labels = data.corpus.split("train").labels.shape[1]
    clusters = settings.get("clusters") or 1 << max(0, min(labels // 6, 1 << 17).bit_length() - 1)
    top = settings.get("top") or min(800, round(clusters**0.6))
    frameworks: dict[str, Changes] = {
        "Ours": {},
        "w/o detaching": {"detached": 0.0},
        "in LightXML's framework": {"detached": 0.0, "heads": "lightxml"},
    }
    rows = [
        Row(
            f"{size_of(clusters // part)}, {top // part}: {name}",
            "inceptionxml+",
            {"clusters": clusters // part, "top": max(1, top // part), **changes},
        )
        for part in (8, 4, 2, 1)
        if clusters >= 2 * part and top >= part
        for name, changes in frameworks.items()
    ]
    return [*rows, recast(data, "inception", "in DeepXML")]


def size_of(clusters: int) -> str:
    """As the paper's Table 6 has it: 65,536 is 65K."""
    return f"{clusters // 1000}K" if clusters >= 1000 else str(clusters)


def watched(data: Dataset) -> list[Row]:
    """Figure 3: both classifiers on a validation split, epoch by epoch."""
    held = {"validation": OURS["held"].get(data.name, 0.02)}
    return [
        Row(name, "inceptionxml+", {**held, **changes}, looks=("history",))
        for name, changes in {"Ours": {}, "in LightXML's framework": {"detached": 0.0, "heads": "lightxml"}}.items()
    ]


def permutations(data: Dataset) -> list[Row]:
    """Figure 4; the first leaves dimensions as they are."""
    return [Row(f"permutation {one}", "inceptionxml+", {"vectors": VECTORS, "permutation": one}) for one in range(11)]


def attention(data: Dataset) -> list[Row]:
    """Figure 5."""
    return [Row("with attention", "inceptionxml+"), Row("without", "inceptionxml+", {"attention": False})]


# DeepXML


def astec(data: Dataset, name: str = "Astec", *looks: str, **changes: Any) -> Row:
    return Row(name, "astec", changes, looks=looks)


def recast(data: Dataset, preset: str, name: str) -> Row:
    """Another method's encoder in DeepXML."""
    return Row(name, "astec", read_settings(preset_path("astec", preset), []))


def published_astec(data: Dataset, *looks: str) -> Row:
    """Astec as its figures were published: with a re-ranker on the papers' data; on ours it is better without."""
    return Row("Astec", "astec", {"reranker": fixed_reranker(data)} if data.known else {}, looks=looks)


def fixed_reranker(data: Dataset) -> Settings:
    """Return the re-ranker's settings, with the weight that the published code has for every text."""
    alpha = 0.5 if data.known in ("WikiTitles-500K", "LF-AmazonTitles-1.3M") else 0.6
    own: Settings = OURS["settings"].get(data.name, {}).get("reranker", {"epochs": 10, "learning_rate": 0.002})
    return {"alpha": alpha, **own}


def main_of_deepxml(data: Dataset) -> list[Row]:
    """Tables 1 and 11."""
    fixed = {"reranker": fixed_reranker(data)}
    return [
        astec(data, "Astec without its re-ranker", "blend", "recalls", "quantiles"),
        Row("Astec", "astec", fixed, looks=("base",)),
        Row("Astec-3", "astec", fixed, members=3),
        Row("MACH", "mach", {"members": 32}),
        Row("XML-CNN", "xml-cnn", looks=("quantiles",)),
        *trees_of(data)[:2],
        *([] if data.known else beside_astec(data)),
    ]


def beside_astec(data: Dataset) -> list[Row]:
    """What else stands beside Astec on our own data: three of them, label texts in its shortlist, InceptionXML."""
    return [
        Row("Astec without its re-ranker, ensemble of 3", "astec", members=3),
        astec(data, "Astec, 100 by label texts", label_texts=100),
        Row("InceptionXML", "inceptionxml", looks=("quantiles",)),
    ]


def reranked(data: Dataset) -> list[Row]:
    """The re-ranker with its weight chosen on texts that neither model has learnt from, and its base."""
    own = OURS["settings"].get(data.name, {}).get("reranker", {})
    held = {"validation": OURS["held"].get(data.name, 0.05)}
    return [Row("Astec, weight chosen on validation", "astec", {"reranker": own, **held}, looks=("base", "alphas"))]


def recast_methods(data: Dataset) -> list[Row]:
    """Table 4: XML-CNN and MACH as published, and their encoders in DeepXML."""
    return [
        Row("XML-CNN as published", "xml-cnn"),
        recast(data, "xml-cnn", "DeepXML + XML-CNN"),
        Row("MACH as published", "mach", {"members": 32}),
        recast(data, "mach", "DeepXML + MACH"),
    ]


def parts_of_astec(data: Dataset) -> list[Row]:
    """Table 6: one part changed at a time."""
    parts: dict[str, Changes] = {
        "encoder: CNN": {"encoder": "cnn", "length": 16, "surrogate.learning_rate": 0.001},
        "encoder: MLP": {"encoder": "mlp", "surrogate.learning_rate": 0.002},
        "encoder: Inception": {"encoder": "inception", "length": 16},
        "surrogate: unsupervised": {"surrogate.groups": "none", "vectors": VECTORS},
        "surrogate: random": {"surrogate.groups": "random"},
        "surrogate: selection": {"surrogate.groups": "frequent"},
        "negatives: uniform": {"extreme.negatives": "uniform", "extreme.random": 650},
        "negatives: unigram": {"extreme.negatives": "unigram", "extreme.random": 650},
        "negatives: nearest labels alone": {
            "extreme.random": 0,
            "shortlist.neighbours": 0,
            "shortlist.centroids": 500,
        },
        "classifier: Slice": {
            "extreme.random": 0,
            "extreme.transfer": "none",
            "shortlist.neighbours": 0,
            "shortlist.centroids": 500,
        },
        "shortlist: learnt clusters": {"shortlister": "clusters", "beta": 0.9},
        "shortlist: centroids not smoothed": {"clustering.walks": 0},
        "shortlist: centroids smoothed by rows": {"clustering.smoothing": "rows"},
        "transfer: unbounded": {"extreme.transfer": "unbounded"},
        "transfer: full": {"extreme.transfer": "full"},
        "all fine-tuned": {"extreme.fine_tuned": True},
    }
    return [
        astec(data, "Astec", "blend"),
        *(Row(name, "astec", changes) for name, changes in parts.items()),
        Row("classifier: DiSMEC", "astec", looks=("linear",)),
        Row("classifier: Parabel", "astec", looks=("forest",)),
    ]


def random_negatives(data: Dataset) -> list[Row]:
    """Figure 2: so many random negatives a text, against every label and against the shortlist."""
    return [
        Row(f"{kind}, {count}", "astec", {"extreme.negatives": kind, "extreme.random": count})
        for kind in ("uniform", "unigram")
        for count in (50, 150, 500, 1500, 5000)
    ] + [astec(data, "shortlist"), Row("every label", "astec", looks=("every label",))]


def vectors_of_astec(data: Dataset) -> list[Row]:
    """The overlap of shortlists before and after transfer, and Theorem 1's numbers."""
    return [astec(data, "Astec", "overlap", "theorem 1")]


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
    kinds = {"Parabel": {"fan_out": 2, "pairs": 0}, "Bonsai": {"fan_out": 128, "pairs": 0}}
    plain = [Row(name, "trees", changes, looks=("quantiles",)) for name, changes in kinds.items()]
    return plain + [
        Row(f"{name} + metadata", "trees", {**changes, "extra_texts": {}}) for name, changes in kinds.items()
    ]


def trees_with_label_texts(data: Dataset) -> list[Row]:
    """Table 4. A label's own text is a training text of it here; how the paper augments trees, it does not say."""
    return [decaf("DECAF", members=3), *trees_of(data)]


def shortlists(data: Dataset) -> list[Row]:
    """Table 5."""
    return [
        decaf("DECAF"),
        decaf("+ HNSW shortlist", shortlist="nearest"),
        Row("+ Parabel shortlist", "decaf", looks=("by trees",)),
    ]


def parts_of_decaf(data: Dataset) -> list[Row]:
    """Table 6, then where paper and code differ; one part changed at a time."""
    parts: dict[str, Changes] = {
        "DECAF": {},
        "DECAF-FFT": {"given_vectors": True, "vectors": VECTORS},
        "DECAF-8K": {"clusters": 512 if not data.known else 8192, "beam": 0},
        "DECAF-no-init": {"start": "random"},
        "DECAF-ẑ¹": {"refinement": False},
        "DECAF-ẑ²": {"label_text": False},
        "DECAF-lite": {"lite": True},
        "missing positives left out": {"missing": False},
        "cluster texts apart": {"cluster_text": "apart"},
        "no biases": {"bias": False, "prior": False},
        "biases from 0": {"prior": False},
        "the shortlister reads the ranker's vectors": {"own_vectors": False},
    }
    return [decaf(name, **changes) for name, changes in parts.items()]


def instances(data: Dataset) -> list[Row]:
    """Figure 5."""
    return [decaf("instances", "sizes", members=6)]


def recall_by_fan_out(data: Dataset) -> list[Row]:
    """Figure 6: fan-outs of module II, whose recall is judged on held-out texts."""
    held = {"beam": 0, "validation": OURS["held"].get(data.name, 0.02)}
    labels = data.corpus.split("train").labels.shape[1]
    counts = [count for count in (128, 512, 2048, 8192, 32768, 131072) if 4 * count <= labels] or [1]
    return [Row(f"{count}", "decaf", {**held, "clusters": count}, looks=("recall by beam",)) for count in counts]


def choices(data: Dataset) -> list[Row]:
    """What the settings of our own data were chosen from, on a validation split."""
    methods = {"inceptionxml": "inceptionxml+", "deepxml": "astec", "decaf": "decaf"}
    method = methods[data.paper]
    held = {"validation": OURS["held"].get(data.name, 0.05)}
    tried = OURS["choices"][method].get(data.name, {})
    protocol = {"batch_size": 256} | ({"length": 16, "clusters": 4096} if method == "inceptionxml+" else {})
    return [
        Row(name, method, {**held, **protocol, **one}, looks=("validation",), given={}) for name, one in tried.items()
    ]


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
