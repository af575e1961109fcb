"""docs/papers/inceptionxml-plus.md: the InceptionXML paper's tables and figures on our data."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.blocks.of_papers import of_paper
from benchmarks.blocks.plus_costs import TEXTS, config_of, dots, how
from benchmarks.papers.datasets import PUBLISHED
from benchmarks.papers.plots import plot_bars, plot_permutations, plot_progress, plot_sweep, plot_trade_off
from benchmarks.tables import (
    FIGURES,
    PRECISIONS,
    NotMeasuredError,
    Results,
    Spread,
    apart,
    found,
    joined,
    listed,
    number,
    picture,
    spreads,
    table,
    told,
)

DEBIAN, YSO = "debian-related", "yso-titles"
OURS, ATTACHED, LIGHTXML = "Ours", "w/o detaching", "in LightXML's framework"  # best first, by the paper
CLASSIFIERS = {"extreme P@1": "P@1", "meta P@1": "cluster P@1", "shortlist recall": "shortlist recall"}
HELD = {"validation": 0.02}  # of Figure 3
SHORT = {"epochs": 14}  # of Figure 4


def table_6(results: Results) -> str:
    runs = found(results, "inceptionxml_table_6", YSO)
    sizes = sorted({name.partition(": ")[0] for name in runs if ": " in name}, key=clusters_of)
    differences = [
        f"- {better} − {worse}, P@1: {listed([gap_of(runs, size, better, worse) for size in sizes])}; in the paper "
        f"{printed_range(better, worse)}, more clusters last."
        for better, worse in pairwise((OURS, ATTACHED, LIGHTXML))
    ]
    epochs = sorted(
        {len(row["history"] if "history" in row else row["losses"]["training: epochs"]) for row in runs.values()}
    )
    how_long = f"{' or '.join(map(str, epochs))} epochs, batches of {config_of(YSO).batch_size}."
    return joined(of_paper(results, "inceptionxml", "table 6", order=place_of), how_long, "\n".join(differences))


def place_of(row: str) -> int:
    """Return a row's place in Table 6: fewest clusters first, then as the paper has them."""
    size, _, model = row.partition(": ")
    names = [OURS, ATTACHED, LIGHTXML]
    return 10 * clusters_of(size) + (names.index(model) if model in names else 9)


def clusters_of(size: str) -> int:
    thousands = size.partition("K")[0]
    return int(thousands) if thousands.isdigit() else 1000


def gap_of(runs: Mapping[str, Any], size: str, better: str, worse: str) -> str:
    one, other = f"{size}: {better}", f"{size}: {worse}"
    if one not in runs or other not in runs:
        return f"not trained ({size})"
    return f"{apart(runs[one], runs[other], ('P@1',))['P@1'].signed} ({size})"


def printed_range(better: str, worse: str) -> str:
    printed = PUBLISHED["inceptionxml"]["6"]["AmazonTitles-670K"]
    sizes = [name.partition(": ")[0] for name in printed if name.endswith(f": {better}")]
    gaps = [Spread(printed[f"{one}: {better}"]["P@1"] - printed[f"{one}: {worse}"]["P@1"]).signed for one in sizes]
    return f"{gaps[0]} to {gaps[-1]}"


def sweep(results: Results) -> str:
    top = config_of(DEBIAN).top
    rows = [
        [
            f"{point['top']}" + (" (as trained)" if point["top"] == top else ""),
            *(number(point[name], 2) for name in ("labels scored", "shortlist recall", *PRECISIONS)),
        ]
        for point in points(results)
    ]
    return joined(
        picture("Shortlist recall and precision against K", "plus-sweep.png"),
        table(["K", "% of labels scored", "shortlist recall", *PRECISIONS], rows),
        f"One model, the first seed ({how(DEBIAN)}), the test split of {DEBIAN}. Beyond the K of training labels are "
        "ranked by the product with their cluster's probability.",
    )


def points(results: Results) -> list[dict[str, Any]]:
    found_points: list[dict[str, Any]] = found(results, "inceptionxml_table_3", DEBIAN, "InceptionXML+", "sweep")
    return found_points


def wide_beams(results: Results) -> str:
    """Return what becomes of both rankings where more clusters are opened than in training."""
    rows = [
        [
            data,
            f"{int(opened):,}",
            *(f"{ranked[kind][name]:.2f}" for kind in ("extreme", "product") for name in ("P@1", "P@5")),
        ]
        for data, one in found(results, "wide_beams", "data").items()
        for opened, ranked in one["opened"].items()
    ]
    head = ["", "clusters opened", "by the extreme classifier: P@1", "P@5", "by the product: P@1", "P@5"]
    about = results["wide_beams"]
    return joined(
        table(head, rows),
        f"{about['held-out texts']:,} held-out texts, default settings, one seed; the fewest clusters are those of "
        f"training. Made by `{about['command']}`.",
    )


def left_out(results: Results) -> str:
    """Return the figures with pairs of a text with itself left out of training and of evaluation."""
    runs = [run["metrics"] for run in found(results, "inceptionxml_plus_left_out", "runs").values()]
    values = {name: [run[name] for run in runs] for name in FIGURES}
    shown = [str(Spread(statistics.mean(one), statistics.stdev(one))) for one in values.values()]
    return joined(
        table(["self pairs left out", *FIGURES], [["InceptionXML+", *shown]]),
        f"{len(runs)} seeds, mean ± deviation; settings as in Figure 1.",
    )


def figure_3(results: Results) -> str:
    both, config = histories(results), config_of(DEBIAN, HELD)
    attached = config.detached * config.epochs
    rows = [
        [
            label,
            f"{epochs[at - 1]['epoch']}",
            *(number(epochs[at - 1]["figures"][key], 2) for key in CLASSIFIERS.values()),
        ]
        for at in (int(attached), len(both[OURS]))
        for label, epochs in both.items()
    ]
    ours, theirs = (both[name][-1]["figures"] for name in (OURS, LIGHTXML))
    gaps = [f"{name} {Spread(theirs[key] - ours[key]).signed}" for name, key in CLASSIFIERS.items()]
    held, share = round(HELD["validation"] * TEXTS), ours["P@1"] / 100
    behind = theirs["cluster P@1"] < ours["cluster P@1"]
    return joined(
        picture("P@1 of the meta- and the extreme classifier by epoch", "plus-figure-3.png"),
        table(["framework", "epoch", *CLASSIFIERS], rows),
        f"LightXML's framework less ours after the last epoch: {listed(gaps)}. One P@1 on {held:,} texts has a "
        f"standard error of about {100 * math.sqrt(share * (1 - share) / held):.1f}; smaller differences mean nothing. "
        f"In the paper the meta-classifier stays behind in LightXML's framework; here it does{' not' * (not behind)}.",
        f"{DEBIAN}, {how(DEBIAN)}, one seed; {100 * config.validation:.0f} % of the training texts are held out and "
        f"scored after every epoch. The first {attached:g} of our {config.epochs} epochs are detached.",
    )


def histories(results: Results) -> dict[str, Any]:
    return {name: found(results, "inceptionxml_figure_3", DEBIAN, name, "history") for name in (OURS, LIGHTXML)}


def figure_4(results: Results) -> str:
    as_they_come, permuted = orders(results)
    summaries: dict[str, Callable[[Sequence[float]], float]] = {
        "lowest": min,
        "median": statistics.median,
        "highest": max,
        "deviation": statistics.stdev,
    }
    count = len(permuted["P@1"])
    rows = [[f"{count} orders: {name}", *(f"{of(permuted[f]):.2f}" for f in FIGURES)] for name, of in summaries.items()]
    rows.append(["as they come", *(f"{as_they_come[name]:.2f}" for name in FIGURES)])
    below = [name for name in FIGURES if as_they_come[name] < min(permuted[name])]
    above = [name for name in FIGURES if as_they_come[name] > max(permuted[name])]
    return joined(
        picture("Spread of ten orders of the dimensions around their medians", "plus-figure-4.png"),
        table(["", *FIGURES], rows),
        f"The order in which the vectors come is below all {count} others in {listed(below)}, above all in "
        f"{listed(above)}.",
        f"{DEBIAN}, {how(DEBIAN, SHORT)}, one seed for all; the test split.",
    )


def orders(results: Results) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Return the figures with dimensions as they come, and those of every other order."""
    runs = {name: spreads(row) for name, row in found(results, "inceptionxml_figure_4", DEBIAN).items()}
    unpermuted = runs.pop("permutation 0", None)
    if unpermuted is None or not runs:
        raise NotMeasuredError("no runs with and without permuted dimensions are there")
    permuted = {name: [run[name].mean for run in runs.values()] for name in FIGURES}
    return {name: unpermuted[name].mean for name in FIGURES}, permuted


def figure_5(results: Results) -> str:
    models = {name: found(results, "inceptionxml_figure_5", DEBIAN, name) for name in ("with attention", "without")}
    gaps = apart(models["with attention"], models["without"], FIGURES)
    rows = [[name, *(str(spreads(model)[one]) for one in FIGURES)] for name, model in models.items()]
    rows.append(["difference ± its standard error", *(gap.signed for gap in gaps.values())])
    return joined(
        picture("P and PSP with and without the attention layers", "plus-figure-5.png"),
        table(["", *FIGURES], rows),
        f"Higher with attention: {told(gaps, 1)}. Higher without: {told(gaps, -1)}.",
        f"{DEBIAN}, {how(DEBIAN)}, {models['without']['seeds']} seeds each, mean ± deviation.",
    )


def drawings(results: Results) -> dict[str, Callable[[Path], None]]:
    config = config_of(DEBIAN, HELD)
    as_they_come, permuted = orders(results)
    rows = found(results, "inceptionxml_figure_5", DEBIAN)
    bars = {name: {one: spreads(rows[name])[one] for one in FIGURES} for name in ("with attention", "without")}
    return {
        "plus-figure-1.png": partial(plot_trade_off, dots(results)),
        "plus-sweep.png": partial(plot_sweep, points(results), config.top),
        "plus-figure-3.png": partial(plot_progress, histories(results), config.detached * config.epochs),
        "plus-figure-4.png": partial(plot_permutations, permuted, as_they_come),
        "plus-figure-5.png": partial(plot_bars, bars),
    }
