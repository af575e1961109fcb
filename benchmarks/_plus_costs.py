"""What models cost beside what they are worth: our versions of the InceptionXML paper's Figure 1 and Table 4."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks._plus_paper import AUTHORS_PLUS, BASE, PEERS, PLUS, PRINTED, SHAPES, without_clusters
from benchmarks._plus_pictures import Dot, plot_trade_off
from benchmarks._plus_results import (
    PRECISIONS,
    Results,
    Spread,
    config_of,
    found,
    how,
    joined,
    number,
    picture,
    side_by_side,
    spreads,
    table,
)
from benchmarks.inception_quality import EPOCHS
from benchmarks.shapes import PAPER_SHAPES
from laconic.config import preset_path, read_settings
from laconic.methods.costs import Shape, inception_cost

DATA = "debian-related"
GIGA = 2**30  # as Table 4 counts gigabytes


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


def figure_1(results: Results, shape: Shape, pictures: Path) -> str:
    models = all_models(results, shape)
    dots = [
        Dot(one.name, one.seconds, one.figures["P@1"].mean, one.bytes / 1e6 if one.bytes else None)
        for one in models
        if one.seconds is not None
    ]
    plot_trade_off(dots, pictures / "plus-figure-1.png")
    columns = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5")
    rows = [
        [
            one.name,
            *one.cells(columns),
            number(one.seconds, 0 if (one.seconds or 0) > 99 else 1),
            number(one.bytes and one.bytes / 1e6, 0),
        ]
        for one in models
    ]
    seeds = found(results, "inceptionxml_table_3", DATA, PLUS, "seeds")
    return joined(
        picture("P@1 against training time", "plus-figure-1.png"),
        table(["debian-related, test split", *columns, "seconds", "MB"], rows),
        f"{how_trained(results)} {seeds} seeds, mean ± deviation.",
    )


def all_models(results: Results, shape: Shape) -> list[Model]:
    protocol = found(results, "inceptionxml_table_3", DATA, PLUS)
    together = found(results, "inceptionxml_table_2", DATA, f"{PLUS}*")
    base, authors = (found(results, "inception_quality", DATA, name) for name in ("protocol", "authors' code"))
    seconds, size = Spread.of(protocol["seconds"]).mean, inception_cost(shape).bytes
    product = {name: protocol[f"by the product: {name}"] for name in PRECISIONS}
    peers = [
        Model(name=name, figures=spreads(figures), seconds=time, digits=1) for name, (figures, time) in PEERS.items()
    ]
    return [
        Model(name=PLUS, figures=spreads(protocol), seconds=seconds, bytes=size),
        Model(name="the same, ranked by the product of both classifiers", figures=spreads(product)),
        Model(name="three of them", figures=spreads(together), seconds=3 * seconds, bytes=3 * size),
        Model(
            name=BASE,
            figures=spreads(base),
            seconds=Spread.of(base["seconds"]).mean,
            bytes=inception_cost(without_clusters(shape)).bytes,
        ),
        Model(name="authors' InceptionXML+", figures=spreads(AUTHORS_PLUS), digits=1),
        Model(name="authors' InceptionXML", figures=spreads(authors), digits=1),
        *peers,
    ]


def table_4(results: Results) -> str:
    """Counted, projected and measured, each beside what the paper prints."""
    rows = []
    for data, methods in PRINTED.items():
        for method, printed in methods.items():
            if method not in (PLUS, BASE):
                continue
            shape = SHAPES.get(data)
            cost = inception_cost(shape if method == PLUS else without_clusters(shape)) if shape else None
            size = cost.bytes if cost else parameters_of_3m(results)
            rows.append(
                [
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
            )
    header = [
        "",
        *("GMACs, counted", "paper's GFLOPS"),
        *("hours, projected", "paper's, V100"),
        *("ms a text, packed, one CPU thread", "GPU", "paper's, V100"),
        *("GB, counted", "paper's"),
    ]
    return joined(table(header, rows), notes(results))


def table_4_ours(results: Results, shape: Shape) -> str:
    protocol = found(results, "inceptionxml_table_3", DATA, PLUS)
    base = found(results, "inception_quality", DATA, "protocol")
    rows = []
    for method, one, seconds in (
        (PLUS, shape, protocol["seconds"]),
        (BASE, without_clusters(shape), base["seconds"]),
    ):
        cost = inception_cost(one)
        rows.append(
            [
                method,
                number(cost.gmacs, 4),
                str(Spread.of(seconds)),
                number(packed_ms_of_ours(results, method), 2),
                number(cost.bytes / 1e6, 1),
            ]
        )
    return joined(
        table(["debian-related", "GMACs", "seconds of training", "ms a text, packed, one CPU thread", "MB"], rows),
        f"{how_trained(results)} Steps alone took InceptionXML+ {Spread.of(protocol['seconds of steps'])} s.",
    )


def how_trained(results: Results) -> str:
    ours, base = (side_by_side(found(results, name)) for name in ("inceptionxml_table_3", "inception_quality"))
    return f"InceptionXML+: {how(DATA)}; {ours}. InceptionXML: {EPOCHS[DATA]} epochs; {base}."


def projected_hours(results: Results, data: str, method: str) -> float | None:
    """From the time of a step with Adam; None where none was measured at that shape."""
    shape, short = PAPER_SHAPES[data], data.rpartition("-")[2]
    step = results.get("training_speed", {}).get(f"{method}, {short}", {}).get("adam")
    if step is None and method == PLUS:
        step = results.get(f"plus_step_{short.lower()}")
    if step is None:
        return None
    settings = read_settings(preset_path("inceptionxml+" if method == PLUS else "inceptionxml", data), [])
    steps = math.ceil(shape.texts / settings["batch_size"])
    return float(step["milliseconds"] * steps * settings["epochs"] / 3.6e6)


def parameters_of_3m(results: Results) -> int | None:
    """In bytes: that model's narrower heads are not among the shapes that costs are counted of."""
    step = results.get("plus_step_3m")
    return step and 4 * step["parameters"]


def packed_ms(results: Results, data: str, method: str) -> float | None:
    """The median of one text, from words to labels, by a packed model of InceptionXML+ at that shape."""
    times: float | None = results.get("prediction_speed", {}).get("shapes", {}).get(data, {}).get("p50_ms")
    return times if method == PLUS else None


def gpu_ms(results: Results, data: str, method: str) -> float | None:
    """The median of one text on a GPU, from token ids to labels on the host."""
    measured = results.get("gpu_prediction", {})
    if measured.get("labels") != PAPER_SHAPES[data].labels:
        return None
    if method == PLUS:
        return float(measured["shortlist"]["optimise"]["p50_ms"])
    return float(measured["all labels"]["optimise, batches of 1"]["batch_ms"])


def packed_ms_of_ours(results: Results, method: str) -> float | None:
    models = results.get("prediction_speed", {}).get("models", {})
    times: float | None = models.get(f"{DATA}, {method.lower()}", {}).get("p50_ms")
    return times


def notes(results: Results) -> str:
    """Say where each time is from."""
    told = {
        "training_speed": "Hours: the step's time with Adam on one {gpu} × steps of an epoch × the paper's epochs.",
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


def shape_of(words: int, labels: int) -> Shape:
    """Of the models trained on our data."""
    config = config_of(DATA)
    sizes = {"length": config.length, "dim": config.embedding, "clusters": config.clusters, "top": config.top}
    return Shape(words=words, labels=labels, **sizes)
