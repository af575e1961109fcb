"""Our versions of the InceptionXML paper's Tables 4, 5, 6 and Figures 1, 3, 4, 5 from measured results: no training.

Prints the tables, draws the pictures and writes both into docs/inceptionxml-plus.md between its markers; says what has
not been measured.

    python -m benchmarks.plus_tables
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks._plus_costs import figure_1, shape_of, table_4, table_4_ours
from benchmarks._plus_paper import ATTACHED, LIGHTXML, OURS, TABLE_6
from benchmarks._plus_pictures import plot_bars, plot_permutations, plot_progress, plot_sweep
from benchmarks._plus_results import (
    FIGURES,
    PRECISIONS,
    NotMeasuredError,
    Results,
    Spread,
    apart,
    config_of,
    found,
    how,
    joined,
    listed,
    number,
    picture,
    side_by_side,
    spreads,
    table,
    told,
)
from benchmarks.common import RESULTS
from benchmarks.papers.datasets import PUBLISHED, Dataset
from laconic.methods.costs import Shape
from laconic.system.files import writing

PAGE = Path(__file__).parents[1] / "docs" / "inceptionxml-plus.md"
FILES = (
    "inceptionxml_table_2 inceptionxml_table_3 inceptionxml_table_5 inceptionxml_table_6 inceptionxml_figure_3 "
    "inceptionxml_figure_4 inceptionxml_figure_5 inception_quality training_speed plus_step_3m prediction_speed "
    "gpu_prediction"
).split()
DEBIAN, YSO = "debian-related", "yso-titles"
CLASSIFIERS = {"extreme P@1": "P@1", "meta P@1": "cluster P@1", "shortlist recall": "shortlist recall"}
MODELS = (OURS, ATTACHED, LIGHTXML)  # best first, by the paper
SHORT = {"epochs": 14}  # of Figure 4
OF_TABLE_6 = ("P@1", "P@5", "PSP@1", "PSP@5")


def main() -> None:
    own = Dataset(DEBIAN, "inceptionxml")
    data = own.prepared("inceptionxml+", own.settings("inceptionxml+")).prepared.data
    paths = {name: RESULTS / f"{name}.json" for name in FILES}
    results = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}
    shape = shape_of(data.inputs.shape[1], data.num_labels)
    write_page(PAGE, {name: block(make) for name, make in sections(results, shape, len(data)).items()})


def write_page(path: Path, blocks: Mapping[str, str]) -> None:
    """Write every block between its markers on a page, and print them."""
    for name, text in blocks.items():
        print(f"\n== {name}\n\n{text or 'not measured yet, left out'}")
    page = filled(path.read_text(encoding="utf-8"), blocks)
    with writing(path) as file:
        file.write(page.encode())


def sections(results: Results, shape: Shape, texts: int) -> dict[str, Callable[[], str]]:
    """What makes each block of the page; `shape` and `texts` are of the data that the models were trained on."""
    pictures = PAGE.parent / "pictures"
    return {
        "figure 1": partial(figure_1, results, shape, pictures),
        "table 4": partial(table_4, results),
        "table 4, our data": partial(table_4_ours, results, shape),
        "table 5": partial(table_5, results),
        "table 6": partial(table_6, results),
        "sweep": partial(sweep, results, pictures),
        "figure 3": partial(figure_3, results, texts, pictures),
        "figure 4": partial(figure_4, results, pictures),
        "figure 5": partial(figure_5, results, pictures),
    }


def block(make: Callable[[], str]) -> str:
    try:
        return make()
    except NotMeasuredError as missing:
        return f"**Not measured yet:** {missing}."


def filled(page: str, blocks: Mapping[str, str]) -> str:
    """The page with every block between its two markers; what stands there goes."""
    for name, text in blocks.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, begun, rest = page.partition(begin)
        _, ended, after = rest.partition(end)
        if not (begun and ended):
            raise ValueError(f"the page must have two lines, {begin.strip()} and then {end.strip()}, but has not")
        page = f"{before}{begin}\n{text}\n\n{end}{after}"
    return page


def table_5(results: Results) -> str:
    row = found(results, "inceptionxml_table_5", DEBIAN, "InceptionXML+")
    original = {name: row[name]["mean"] for name in PRECISIONS}
    moved = {
        name: (row[f"words shuffled: {name}"]["mean"], row[f"words shuffled: {name} ±"]["mean"]) for name in PRECISIONS
    }
    rows = shuffled(f"{DEBIAN}, original", original, moved)
    for data, printed in PUBLISHED["inceptionxml"]["5"].items():
        rows += shuffled(f"paper: {data}, original", printed["original"], printed["words shuffled"])
    return joined(
        table(["test words", *PRECISIONS], rows),
        f"One model, seed 1 ({how(DEBIAN)}); 10 shuffles of the test split's words, mean ± deviation.",
    )


def shuffled(name: str, before: Mapping[str, float], after: Mapping[str, Sequence[float]]) -> list[list[str]]:
    """Return three rows: as the words are, shuffled, and what that loses."""
    lost = {one: Spread(after[one][0] - before[one]).signed for one in after}
    return [
        [name, *(number(before.get(one), 2) for one in PRECISIONS)],
        ["words shuffled", *(str(Spread(*after[one])) if one in after else "–" for one in PRECISIONS)],
        ["lost", *(lost.get(one, "–") for one in PRECISIONS)],
    ]


def table_6(results: Results) -> str:
    measured = by_size(found(results, "inceptionxml_table_6", YSO))
    runs = {f"{size}: {model}": figures for size, models in measured.items() for model, figures in models.items()}
    if not runs:
        raise NotMeasuredError(f"`benchmarks/results/inceptionxml_table_6.json` has no model of the table under {YSO}")
    rows = [
        [size, model, *(str(Spread.of(figures[name])) for name in OF_TABLE_6)]
        for size, models in measured.items()
        for model, figures in models.items()
    ]
    missing = [name for size in measured for name in (f"{size}: {model}" for model in MODELS) if name not in runs]
    seeds = sorted({figures["seeds"] for figures in runs.values()})
    epochs = sorted({epochs_of(figures) for figures in runs.values()})
    at_once = side_by_side(found(results, "inceptionxml_table_6"))
    return joined(
        table(["(L', K)", YSO, *OF_TABLE_6], rows),
        f"**Not measured yet:** {listed(missing)}." if missing else "",
        f"{' or '.join(map(str, epochs))} epochs, batches of {config_of(YSO).batch_size}, "
        f"{' or '.join(map(str, seeds))} seeds, mean ± deviation; {at_once}.",
        "The paper's claims as differences, ours ± their standard error:",
        claims(measured),
    )


def epochs_of(row: Mapping[str, Any]) -> int:
    """Return for how many epochs a row was trained, by what is kept of them."""
    return len(row["history"] if "history" in row else row["losses"]["training: epochs"])


def by_size(runs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The models of Table 6 by their fan-out, fewest clusters first; an empty dict where none was trained."""
    measured: dict[str, dict[str, Any]] = {}
    for name in runs:
        size, _, model = name.partition(": ")
        if model in MODELS and size[0].isdigit():
            measured.setdefault(size, {})[model] = runs[name]
    ordered = {size: {model: models[model] for model in MODELS if model in models} for size, models in measured.items()}
    return dict(sorted(ordered.items(), key=lambda one: int(one[0].partition("K")[0])))


def claims(measured: Mapping[str, Mapping[str, Any]]) -> str:
    """Differences that the paper says are positive: its own, ours, and how many of ours are."""
    rows, verdicts = [], []
    for better, worse in pairwise(MODELS):
        for size, printed in TABLE_6.items():
            gaps = [Spread(printed[better][name] - printed[worse][name]).signed for name in OF_TABLE_6]
            rows.append([f"{better} − {worse}", f"paper, {size}", *gaps])
        ours = gaps_of(measured, better, worse)
        for size, gap in ours.items():
            rows.append([f"{better} − {worse}", f"{YSO}, {size}", *(one.signed for one in gap.values())])
        verdicts.append(verdict(f"{better} over {worse}", [one for gap in ours.values() for one in gap.values()]))
    return joined(table(["", "(L', K)", *OF_TABLE_6], rows), "\n".join([*verdicts, *growth(measured)]))


def verdict(claim: str, gaps: Sequence[Spread]) -> str:
    clear = [gap for gap in gaps if abs(gap.mean) >= 2 * gap.deviation > 0]
    return (
        f"- {claim}: {sum(gap.mean > 0 for gap in gaps)} of {len(gaps)} differences are positive here; {len(clear)} "
        f"are two standard errors or more, {sum(gap.mean > 0 for gap in clear)} of those positive."
    )


def growth(measured: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The paper: the more clusters, the more detached training brings."""
    ours = [gap["P@1"].signed for gap in gaps_of(measured, OURS, ATTACHED).values()]
    if len(ours) < 2:
        return []
    printed = [Spread(models[OURS]["P@1"] - models[ATTACHED]["P@1"]).signed for models in TABLE_6.values()]
    return [
        f"- What detaching brings to P@1, from fewest clusters to most: {ours[0]} to {ours[-1]} here, {printed[0]} to "
        f"{printed[-1]} in the paper."
    ]


def gaps_of(measured: Mapping[str, Mapping[str, Any]], better: str, worse: str) -> dict[str, dict[str, Spread]]:
    """By fan-out, where both were trained."""
    return {
        size: apart(models[better], models[worse], OF_TABLE_6)
        for size, models in measured.items()
        if better in models and worse in models
    }


def sweep(results: Results, pictures: Path) -> str:
    points, top = found_sweep(results), config_of(DEBIAN).top
    plot_sweep(points, top, pictures / "plus-sweep.png")
    rows = [
        [
            f"{point['top']}" + (" (as trained)" if point["top"] == top else ""),
            *(number(point[name], 2) for name in ("labels scored", "shortlist recall", *PRECISIONS)),
        ]
        for point in points
    ]
    return joined(
        picture("Shortlist recall and precision against K", "plus-sweep.png"),
        table(["K", "% of labels scored", "shortlist recall", *PRECISIONS], rows),
        f"One model, the first seed ({how(DEBIAN)}), the test split of {DEBIAN}.",
    )


def figure_3(results: Results, texts: int, pictures: Path) -> str:
    histories = {name: found(results, "inceptionxml_figure_3", DEBIAN, name, "history") for name in (OURS, LIGHTXML)}
    config = config_of(DEBIAN, {"validation": 0.02})
    attached = config.detached * config.epochs
    plot_progress(histories, attached, pictures / "plus-figure-3.png")
    rows = [
        [
            label,
            f"{epochs[at - 1]['epoch']}",
            *(number(epochs[at - 1]["figures"][key], 2) for key in CLASSIFIERS.values()),
        ]
        for at in (int(attached), len(histories[OURS]))
        for label, epochs in histories.items()
    ]
    held, share = round(config.validation * texts), histories[OURS][-1]["figures"]["P@1"] / 100
    error = 100 * math.sqrt(share * (1 - share) / held)
    ours, theirs = (histories[name][-1]["figures"] for name in (OURS, LIGHTXML))
    gaps = [f"{name} {Spread(theirs[key] - ours[key]).signed}" for name, key in CLASSIFIERS.items()]
    return joined(
        picture("P@1 of the meta- and the extreme classifier by epoch", "plus-figure-3.png"),
        table(["framework", "epoch", *CLASSIFIERS], rows),
        f"LightXML's framework less ours after the last epoch: {listed(gaps)}. One P@1 on {held:,} texts has a "
        f"standard error of about {error:.1f}; smaller differences mean nothing.",
        f"{DEBIAN}, {how(DEBIAN)}, one seed; {100 * config.validation:.0f} % of the training texts are held out and "
        f"scored after every epoch. The first {attached:g} of our {config.epochs} epochs are detached.",
    )


def figure_4(results: Results, pictures: Path) -> str:
    runs = found(results, "inceptionxml_figure_4", DEBIAN)
    unpermuted = spreads(found(results, "inceptionxml_figure_4", DEBIAN, "permutation 0"))
    others = [spreads(row) for name, row in runs.items() if name != "permutation 0"]
    if not others:
        raise NotMeasuredError("no run with permuted dimensions is there")
    permuted = {name: [run[name].mean for run in others] for name in FIGURES}
    as_they_come = {name: unpermuted[name].mean for name in FIGURES}
    plot_permutations(permuted, as_they_come, pictures / "plus-figure-4.png")
    summaries: dict[str, Callable[[Sequence[float]], float]] = {
        "lowest": min,
        "median": statistics.median,
        "highest": max,
        "deviation": statistics.stdev,
    }
    rows = [
        [f"{len(others)} orders: {name}", *(f"{of(permuted[f]):.2f}" for f in FIGURES)]
        for name, of in summaries.items()
    ]
    rows.append(["as they come", *(f"{as_they_come[name]:.2f}" for name in FIGURES)])
    below = [name for name in FIGURES if as_they_come[name] < min(permuted[name])]
    above = [name for name in FIGURES if as_they_come[name] > max(permuted[name])]
    return joined(
        picture("Spread of ten orders of the dimensions around their medians", "plus-figure-4.png"),
        table(["", *FIGURES], rows),
        f"The order in which the vectors come is below all {len(others)} others in {listed(below)}, above all in "
        f"{listed(above)}.",
        f"{DEBIAN}, {how(DEBIAN, {'epochs': 14})}, one seed for all; the test split.",
    )


def figure_5(results: Results, pictures: Path) -> str:
    models = {name: found(results, "inceptionxml_figure_5", DEBIAN, name) for name in ("with attention", "without")}
    bars = {name: {figure: spreads(model)[figure] for figure in FIGURES} for name, model in models.items()}
    plot_bars(bars, pictures / "plus-figure-5.png")
    gaps = apart(models["with attention"], models["without"], FIGURES)
    rows = [[name, *map(str, figures.values())] for name, figures in bars.items()]
    rows.append(["difference ± its standard error", *(gap.signed for gap in gaps.values())])
    return joined(
        picture("P and PSP with and without the attention layers", "plus-figure-5.png"),
        table(["", *FIGURES], rows),
        f"Higher with attention: {told(gaps, 1)}. Higher without: {told(gaps, -1)}.",
        f"{DEBIAN}, {how(DEBIAN)}, {models['without']['seeds']} seeds each, mean ± deviation.",
    )


def found_sweep(results: Results) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = found(results, "inceptionxml_table_3", DEBIAN, "InceptionXML+", "sweep")
    return points


if __name__ == "__main__":
    main()
