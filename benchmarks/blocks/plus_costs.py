"""What InceptionXML and InceptionXML+ cost beside what they are worth: the paper's Figure 1 and Table 4."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from benchmarks.blocks.of_papers import signs
from benchmarks.papers.datasets import PUBLISHED, Dataset
from benchmarks.papers.plots import Dot
from benchmarks.shapes import PAPER_SHAPES
from benchmarks.tables import (
    PRECISIONS,
    Results,
    Spread,
    found,
    joined,
    number,
    picture,
    side_by_side,
    spreads,
    table,
)
from laconic.config import configure, merged, preset_path, read_settings
from laconic.methods.costs import Shape, inception_cost
from laconic.methods.inceptionxml_plus import Config

DATA = "debian-related"
TEXTS, WORDS, LABELS = 45_124, 17_311, 36_306  # of its training split, with padding and the unknown word
PLUS, BASE = "InceptionXML+", "InceptionXML"
PRINTED: Mapping[str, Any] = PUBLISHED["inceptionxml"]["4"]  # the hours of AmazonTitles-3M stand in section 6.2
GIGA = 2**30  # as Table 4 counts gigabytes
COLUMNS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5")
HEADER = (
    "",
    *("GMACs, counted", "paper's GFLOPS"),
    *("hours, projected", "paper's, V100"),
    *("ms a text, packed, one CPU thread", "GPU", "paper's, V100"),
    *("GB, counted", "paper's"),
)


@dataclass(frozen=True, kw_only=True)
class Model:
    name: str
    figures: Mapping[str, Spread]
    seconds: float | None = None
    bytes: int | None = None
    digits: int = 2  # that its figures were reported with

    def cells(self, names: Sequence[str]) -> list[str]:
        there = {name: figure.told(self.digits) for name, figure in self.figures.items()}
        return [there.get(name, "–") for name in names]


def figure_1(results: Results) -> str:
    rows = [
        [
            one.name,
            *one.cells(COLUMNS),
            number(one.seconds, 0 if (one.seconds or 0) > 99 else 1),
            number(one.bytes and one.bytes / 1e6, 0),
        ]
        for one in models(results)
    ]
    both = {PLUS: found(results, "inceptionxml_table_3", DATA, PLUS), BASE: base(results)}
    return joined(
        picture("P@1 against training time", "plus-figure-1.png"),
        table([f"{DATA}, test split", *COLUMNS, "seconds", "MB"], rows),
        signs("inceptionxml", "table 3", both),
        f"{how_trained(results)} {both[PLUS]['seeds']} seeds, mean ± deviation.",
    )


def dots(results: Results) -> list[Dot]:
    """Return what Figure 1 shows: models whose training time is known."""
    return [
        Dot(one.name, one.seconds, one.figures["P@1"].mean, one.bytes / 1e6 if one.bytes else None)
        for one in models(results)
        if one.seconds is not None
    ]


def models(results: Results) -> list[Model]:
    plus = found(results, "inceptionxml_table_3", DATA, PLUS)
    together = found(results, "inceptionxml_table_2", DATA, f"{PLUS}*")
    alone, authors = base(results), found(results, "peers", DATA)
    seconds, size = Spread.of(plus["seconds"]).mean, inception_cost(shape_of_ours()).bytes
    product = {name: plus[f"by the product: {name}"] for name in PRECISIONS}
    peers = [
        Model(name=name, figures=spreads(run), seconds=run.get("train seconds"), digits=1)
        for name, run in authors.items()
        if "P@3" in run
    ]
    return [
        Model(name=PLUS, figures=spreads(plus), seconds=seconds, bytes=size),
        Model(name=f"{PLUS}, ranked by the product of both classifiers", figures=spreads(product)),
        Model(name=f"three {PLUS} together", figures=spreads(together)),
        Model(
            name=BASE,
            figures=spreads(alone),
            seconds=Spread.of(alone["seconds"]).mean,
            bytes=inception_cost(without_clusters(shape_of_ours())).bytes,
        ),
        *peers,
    ]


def base(results: Results) -> dict[str, Any]:
    """Return InceptionXML's figures on our data, of three seeds."""
    return {"seeds": 3, **found(results, "inception_quality", DATA, "protocol")}


def table_4(results: Results) -> str:
    """Counted, projected and measured, each beside what the paper prints."""
    rows = [
        costs_row(results, data, method, methods[method])
        for data, methods in PRINTED.items()
        for method in (PLUS, BASE)
        if method in methods
    ]
    return joined(table(HEADER, rows), notes(results))


def costs_row(results: Results, data: str, method: str, printed: Mapping[str, float]) -> list[str]:
    shape = paper_shapes().get(data)
    cost = inception_cost(shape if method == PLUS else without_clusters(shape)) if shape else None
    size = cost.bytes if cost else parameters_of_3m(results)
    return [
        f"{data}: {method}",
        number(cost.gmacs if cost else None, 4),
        number(printed.get("GFLOPS"), 3),
        number(projected_hours(results, data, method), 2),
        number(printed["hours"], 1),
        number(packed_ms(results, data, method), 2),
        number(gpu_ms(results, data, method), 2),
        number(printed.get("ms"), 2),
        number(size and size / GIGA, 2),
        "–" if "GB" not in printed else f"{printed['GB']:g}",
    ]


def table_4_ours(results: Results) -> str:
    plus = found(results, "inceptionxml_table_3", DATA, PLUS)
    packed = results.get("prediction_speed", {}).get("models", {})
    rows = []
    for method, shape, seconds in (
        (PLUS, shape_of_ours(), plus["seconds"]),
        (BASE, without_clusters(shape_of_ours()), base(results)["seconds"]),
    ):
        cost, times = inception_cost(shape), packed.get(f"{DATA}, {method.lower()}", {})
        measured = [str(Spread.of(seconds)), number(times.get("p50_ms"), 2)]
        rows.append([method, number(cost.gmacs, 4), *measured, number(cost.bytes / 1e6, 1)])
    return joined(
        table([DATA, "GMACs", "seconds of training", "ms a text, packed, one CPU thread", "MB"], rows),
        f"{how_trained(results)} Steps alone took InceptionXML+ {Spread.of(plus['seconds of steps'])} s.",
    )


def how_trained(results: Results) -> str:
    ours, other = (side_by_side(found(results, name)) for name in ("inceptionxml_table_3", "inception_quality"))
    epochs = Dataset(DATA, "inceptionxml").settings("inceptionxml")["epochs"]
    return f"InceptionXML+: {how(DATA)}; {ours} on one GPU. InceptionXML: {epochs} epochs; {other} on one GPU."


def projected_hours(results: Results, data: str, method: str) -> float | None:
    """Multiply the time of a step with Adam by the paper's steps; None where none was measured at that shape."""
    short = data.rpartition("-")[2]
    step = results.get("training_speed", {}).get(f"{method}, {short}", {}).get("adam")
    if step is None and method == PLUS:
        step = results.get(f"plus_step_{short.lower()}")
    if step is None:
        return None
    settings = read_settings(preset_path("inceptionxml+" if method == PLUS else "inceptionxml", data), [])
    steps = math.ceil(PAPER_SHAPES[data].texts / settings["batch_size"])
    return float(step["milliseconds"] * steps * settings["epochs"] / 3.6e6)


def parameters_of_3m(results: Results) -> int | None:
    """Return bytes: that model's narrower heads are not among the shapes that costs are counted of."""
    step = results.get("plus_step_3m")
    return step and 4 * step["parameters"]


def packed_ms(results: Results, data: str, method: str) -> float | None:
    """Return the median of one text, from words to labels, by a packed model of InceptionXML+ at that shape."""
    times: float | None = results.get("prediction_speed", {}).get("shapes", {}).get(data, {}).get("p50_ms")
    return times if method == PLUS else None


def gpu_ms(results: Results, data: str, method: str) -> float | None:
    """Return the median of one text on a GPU, from token ids to labels on the host."""
    measured = results.get("gpu_prediction", {})
    if measured.get("labels") != PAPER_SHAPES[data].labels:
        return None
    if method == PLUS:
        return float(measured["shortlist"]["quickened"]["p50_ms"])
    return float(measured["all labels"]["quickened, batches of 1"]["batch_ms"])


def notes(results: Results) -> str:
    """Say where each time is from."""
    told = {
        "training_speed": "Hours: the step's time with Adam on one {gpu} × steps of an epoch × the paper's epochs.",
        "plus_step_3m": "AmazonTitles-3M's step, of {milliseconds:.1f} ms, is from before label rows had kernels.",
        "prediction_speed": "Packed: {machine}; the beam of the packed model, not the paper's K.",
        "gpu_prediction": "GPU: {gpu}, an untrained model.",
    }
    there = [text.format(**results[name]) for name, text in told.items() if name in results]
    steps = {
        method: results.get("training_speed", {}).get(f"{method}, 670K", {}).get("adam", {}).get("milliseconds")
        for method in (PLUS, BASE)
    }
    there += [f"A step of {method} at 670K takes {took:.1f} ms." for method, took in steps.items() if took]
    return " ".join(there) or "Times have not been measured yet."


def shape_of_ours() -> Shape:
    """Return the shape of the models trained on our data."""
    config = config_of(DATA)
    sizes = {"length": config.length, "dim": config.embedding, "clusters": config.clusters, "top": config.top}
    return Shape(words=WORDS, labels=LABELS, **sizes)


@cache
def paper_shapes() -> dict[str, Shape]:
    """Return shapes with the lengths by which Table 4's arithmetic comes out."""
    lengths = {
        "AmazonTitles-670K": (32, 65_536),
        "WikiSeeAlsoTitles-350K": (14, 32_768),
        "WikiTitles-500K": (14, 32_768),
    }
    return {  # the published sizes count padding among the words, but not the unknown word
        name: Shape(
            words=PAPER_SHAPES[name].words + 1,
            labels=PAPER_SHAPES[name].labels,
            length=length,
            clusters=clusters,
            top=800,
        )
        for name, (length, clusters) in lengths.items()
    }


def without_clusters(shape: Shape) -> Shape:
    return replace(shape, clusters=0, top=0)


def config_of(data: str, settings: Mapping[str, Any] | None = None) -> Config:
    """Return what InceptionXML+ is trained with on our data; `settings` are an ablation's own."""
    own = Dataset(data, "inceptionxml").settings("inceptionxml+")
    return configure(Config, merged(own, dict(settings or {})))


def how(data: str, settings: Mapping[str, Any] | None = None) -> str:
    config = config_of(data, settings)
    return f"{config.epochs} epochs, batches of {config.batch_size}, {config.clusters:,} clusters, K = {config.top}"
