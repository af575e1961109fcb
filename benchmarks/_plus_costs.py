"""What models cost beside what they are worth: our versions of the InceptionXML paper's Figure 1 and Table 4."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import training_step
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
from laconic.costs import Shape, inception_cost

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
    return joined(
        picture("P@1 against training time", "plus-figure-1.png"),
        table(["debian-related, test split", *columns, "seconds", "MB"], rows),
        f"{how_trained(results)} {found(results, 'plus_debian', DATA, 'protocol', 'seeds')} seeds, mean ± deviation.",
    )


def all_models(results: Results, shape: Shape) -> list[Model]:
    ours = found(results, "plus_debian", DATA)
    protocol, together = (found(results, "plus_debian", DATA, name) for name in ("protocol", "ensemble of 3"))
    base, authors = (found(results, "inception_quality", DATA, name) for name in ("protocol", "authors' code"))
    seconds, size = Spread.of(protocol["seconds"]).mean, inception_cost(shape).bytes
    product = {name: ours["protocol"][f"by the product: {name}"] for name in PRECISIONS}
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
            shape = SHAPES.get(data)
            cost = inception_cost(shape if method == PLUS else without_clusters(shape)) if shape else None
            size = cost.bytes if cost else parameters_of_3m(results)
            rows.append(
                [
                    f"{data}: {method}",
                    number(cost.gmacs if cost else None, 4),
                    number(printed.gflops, 3),
                    number(projected_hours(results, data, method), 2),
                    number(printed.hours, 1),
                    number(latency(results, "cpu", data, method), 1),
                    number(latency(results, "cuda", data, method), 2),
                    number(printed.milliseconds, 2),
                    number(size and size / GIGA, 2),
                    "–" if printed.gigabytes is None else f"{printed.gigabytes:g}",
                ]
            )
    header = [
        "",
        *("GMACs, counted", "paper's GFLOPS"),
        *("hours, projected", "paper's, V100"),
        *("ms a text, CPU thread", "GPU", "paper's, V100"),
        *("GB, counted", "paper's"),
    ]
    gpu = results.get("plus_step_670k", {}).get("gpu")
    return joined(
        table(header, rows),
        f"Hours: the step's time on one {gpu} × steps of an epoch × the paper's epochs." if gpu else "",
        timing_note(results),
    )


def table_4_ours(results: Results, shape: Shape) -> str:
    protocol = found(results, "plus_debian", DATA, "protocol")
    base = found(results, "inception_quality", DATA, "protocol")
    rows = []
    for method, one, seconds in (
        (PLUS, shape, protocol["seconds"]),
        (BASE, without_clusters(shape), base["seconds"]),
    ):
        cost = inception_cost(one)
        times = [latency(results, device, DATA, method) for device in ("cpu", "cuda")]
        rows.append(
            [
                method,
                number(cost.gmacs, 4),
                str(Spread.of(seconds)),
                number(times[0], 2),
                number(times[1], 2),
                number(cost.bytes / 1e6, 1),
            ]
        )
    return joined(
        table(["debian-related", "GMACs", "seconds of training", "ms a text, CPU thread", "GPU", "MB"], rows),
        f"{how_trained(results)} Steps alone took InceptionXML+ {Spread.of(protocol['seconds of steps'])} s.",
    )


def how_trained(results: Results) -> str:
    ours, base = (side_by_side(found(results, name)) for name in ("plus_debian", "inception_quality"))
    return f"InceptionXML+: {how(DATA)}; {ours}. InceptionXML: {EPOCHS[DATA]} epochs; {base}."


def projected_hours(results: Results, data: str, method: str) -> float | None:
    """From the time of a step; None where none was measured at that shape."""
    epochs = PRINTED[data][method].epochs
    if method == PLUS:
        step = results.get(f"plus_step_{data.split('-')[-1].lower()}")
        return step and step["milliseconds"] * step["steps an epoch"] * epochs / 3.6e6
    step = results.get("training_step")
    if step is None or PAPER_SHAPES[data].labels != training_step.LABELS:
        return None
    return float(step["fp32"]["milliseconds"] * math.ceil(training_step.TEXTS / training_step.BATCH) * epochs / 3.6e6)


def parameters_of_3m(results: Results) -> int | None:
    """In bytes: that model's narrower heads are not among the shapes that costs are counted of."""
    step = results.get("plus_step_3m")
    return step and 4 * step["parameters"]


def latency(results: Results, device: str, data: str, method: str) -> float | None:
    times: float | None = results.get(f"plus_latency_{device}", {}).get(data, {}).get(method)
    return times


def timing_note(results: Results) -> str:
    notes = [
        f"{kind}: {times['machine']}, median of {times['times']}"
        for kind, device in (("one CPU thread", "cpu"), ("GPU", "cuda"))
        if (times := results.get(f"plus_latency_{device}"))
    ]
    what = "ms a text: word ids to the best five labels, an untrained model, batches of one"
    return f"{what} ({'; '.join(notes)})." if notes else "Times of one text have not been measured yet."


def shape_of(words: int, labels: int) -> Shape:
    """Of the models trained on our data."""
    config = config_of(DATA)
    sizes = {"length": config.length, "dim": config.embedding, "clusters": config.clusters, "top": config.top}
    return Shape(words=words, labels=labels, **sizes)
