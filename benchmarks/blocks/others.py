"""Blocks of README and of the pages on the combined model, the service, changed labels, peers and single methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any

from benchmarks.combined_quality import DATASETS, WAYS
from benchmarks.static_vectors import PLAIN, STARTED
from benchmarks.tables import USUAL, Results, Spread, apart, by_data, cells, found, joined, number, seeds_of, table

LABELS = {"debian-related": 36_306, "npm-names-deps": 24_989, "yso-titles": 25_244, "eurlex57k-titles": 4_271}
PEERS = ("omikuji, Parabel-like", "omikuji, Bonsai-like", "PECOS, XR-Linear", "authors' InceptionXML")
ALONE = {
    "inceptionxml": "InceptionXML with label texts learnt, alone",
    "astec": "Astec, narrow, with label texts learnt, alone",
    "trees": "label trees alone",
    "siamese": "siamese alone",
}
ANNIF = {
    "mllm": "`mllm`",
    "fasttext": "`fasttext`, learning rate 0.25, 5 epochs",
    "fasttext-long": "`fasttext`, learning rate 1, 50 epochs",
    "omikuji": "`omikuji`, Bonsai-like",
    "ensemble": "`ensemble` of mllm and omikuji",
    "laconic-nearest": "`laconic`, `method=nearest`",
    "laconic-trees": "`laconic`, `method=trees`",
    "laconic-auto": "**`laconic`**, which chooses by itself",
}
LOADS = ("offered", "sent", "goodput", "p50_ms", "p99_ms")
SERVERS = {
    "laconic": "`laconic serve`",
    "proxied": "`laconic serve` behind HAProxy",
    "bare": "bare FastAPI, no batches",
}
COUNTED = {"training texts": "training texts", "texts": "held-out texts", "labels": "labels"}
DEBIAN, NPM, YSO = "debian-related", "npm-names-deps", "yso-titles"
ON_CPU = "combined_cpu"


def first_table(results: Results) -> str:
    """Return peers, and what `laconic train` makes by itself."""
    rows: list[list[str]] = []
    for data in DATASETS:
        rows.append([f"**{data}** ({LABELS[data]:,} labels)", *[""] * len(USUAL)])
        theirs = results.get("peers", {}).get(data, {})
        kept = {"authors' InceptionXML": " ¹"} if data == DEBIAN else {}
        rows += [[f"{name}{kept.get(name, '')}", *cells(theirs[name], digits=1)] for name in PEERS if name in theirs]
        for file, named in (
            (ON_CPU, "`laconic train --device cpu --budget 10m`"),
            ("combined_quality", "**`laconic train`** on a GPU"),
        ):
            if data in results.get(file, {}):
                run = results[file][data]["combined"]
                shown = [f"{run[f'all: {one}']['mean']:.1f}" for one in USUAL]
                bold = [f"**{one}**" for one in shown] if file == "combined_quality" else shown
                rows.append([f"{named}, {seeds_of(run['seeds'])}", *bold])
    return table(["test split, %", *USUAL], rows)


def channels(results: Results, file: str = "combined_quality") -> str:
    """Return how far each channel alone, and the model without it, is from the combined model."""
    names = {**ALONE, **{way: way for way in WAYS if way != "all"}}
    parts = []
    for data in (one for one in DATASETS if one in found(results, file)):
        run = results[file][data]["combined"]
        whole = _figures(run, "all")
        rows = [
            [named, *(gap.signed for gap in apart(_figures(run, name), whole, USUAL).values())]
            for name, named in names.items()
            if f"{name}: P@1" in run
        ]
        if "all: P@1 ±" in run:
            halves = (f"± {run[f'all: {one} ±']['mean']:.2f}" for one in USUAL)
            rows.append(["the combined model's own 95 % interval (bootstrap)", *halves])
        parts.append(table([f"{data}, {seeds_of(run['seeds'])}", *USUAL], rows))
    return joined(*parts, below_a_channel(results, file))


def below_a_channel(results: Results, file: str) -> str:
    """Return where the combined model is below one of its channels alone."""
    below = [
        f"{ALONE[name]} in {one} of {data} ({run[f'all: {one}']['mean']:.2f}, it {run[f'{name}: {one}']['mean']:.2f})"
        for data, runs in by_data(results, file).items()
        for run in [runs["combined"]]
        for name in ALONE
        for one in USUAL
        if f"{name}: {one}" in run and run[f"all: {one}"]["mean"] < run[f"{name}: {one}"]["mean"]
    ]
    return f"The combined model is below {'; '.join(below)}." if below else ""


def _figures(run: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the figures of one part of a combined run, under their plain names."""
    return {"seeds": run["seeds"]} | {one: run[f"{name}: {one}"] for one in USUAL}


def channels_on_cpu(results: Results) -> str:
    """Return the channels' figures on a CPU."""
    return channels(results, ON_CPU)


def with_transformer(results: Results) -> str:
    """Return the figures of the combined model with a transformer as one more channel, and of its parts."""
    parts = []
    for data, runs in by_data(results, "encoder_channel").items():
        run = runs["combined"]
        names = [key.removesuffix(": P@1") for key in run if key.endswith(": P@1")]
        rows = [[name, *(f"{run[f'{name}: {one}']['mean']:.2f}" for one in USUAL)] for name in names]
        parts.append(table([f"{data}, {seeds_of(run['seeds'])}", *USUAL], rows))
    return joined(*parts)


def static_vectors(results: Results) -> str:
    """Return the test figures of a random start and of one from a transformer's vectors, and how far they are apart."""
    figures, rows = found(results, "static_vectors"), []
    for data, runs in by_data(results, "static_vectors").items():
        plain, started = (runs[f"astec, {way}, test"] for way in (PLAIN, STARTED))
        told = f"**{data}**, {seeds_of(plain['seeds'])}, {Spread.of(plain['texts']).mean:,.0f} test texts"
        rows += [
            [told, *[""] * len(USUAL)],
            [PLAIN, *cells(plain)],
            [STARTED, *cells(started)],
            ["difference", *(gap.signed for gap in apart(started, plain, USUAL).values())],
        ]
    commands = ", ".join(f"`{one}`" for one in [*figures["earlier commands"], figures["command"]])
    return joined(table(["", *USUAL], rows), f"Made by {commands}.")


def rows_in_few_bits(results: Results) -> str:
    """Return the accuracy of InceptionXML where label rows are stored in fewer bits, by dataset."""
    figures, rows = found(results, "fp8_rows"), []
    for data, runs in by_data(results, "fp8_rows").items():
        last = ""
        for name, run in runs.items():
            counts = [f"{Spread.of(run[one]).mean:,.0f} {of}" for one, of in COUNTED.items()]
            told = f"**{data}**, {', '.join([seeds_of(run['seeds']), *counts])}"
            rows += [] if told == last else [[told, *[""] * len(USUAL)]]
            rows.append([name.replace("rate", "learning rate"), *cells(run)])
            last = told
    commands = ", ".join(f"`{one}`" for one in [*figures["earlier commands"], figures["command"]])
    return joined(table(["label rows", *USUAL], rows), f"Made by {commands}.")


def load(results: Results) -> str:
    """Return requests a second and milliseconds, at each load and one at a time."""
    figures = dict(found(results, "chaos", "load"))
    if "proxied" in results["chaos"]:
        figures["proxied"] = results["chaos"]["proxied"]["laconic"]
    measured = [name for name in SERVERS if name in figures]
    rows = [
        [SERVERS[name], *(f"{one[key]:,.0f}" for key in LOADS), f"{one['megabytes'][1]:.0f}"]
        for name in measured
        for one in figures[name]["loads"]
    ]
    header = ["", "offered per second", "sent", "answered in time", "p50 ms", "p99 ms", "MB"]
    alone = ", ".join(f"{SERVERS[name]} {figures[name]['one_at_a_time']['p50_ms']:.2f} ms" for name in measured)
    annif = f"Annif's REST interface is known to take {figures['annif_p50_ms']:.0f} ms (not measured here)"
    return joined(table(header, rows), f"One client at a time waits (p50): {alone}; {annif}.")


def annif_backends(results: Results) -> str:
    """Return what Annif's evaluation says of its backends and of ours."""
    figures = found(results, "annif_backends")
    about = figures["about"]
    metrics = ("F1@5", "NDCG", "NDCG@5", "Precision@1", "Precision@5")
    rows = [
        [named, *(f"{figures[name]['metrics'][one]:.1f}" for one in metrics)]
        for name, named in ANNIF.items()
        if name in figures
    ]
    told = (
        f"Annif {about['annif']} on yso-titles: the first {about['train_texts']:,} titles to train on, the first "
        f"{about['test_texts']:,} of the test split, the vocabulary of 25,244 subjects with English names. All figures "
        f"are those of `annif eval`, in percent. Made by `{figures['command']}`."
    )
    return joined(told, table(["backend", *metrics], rows))


def claims(results: Results) -> str:
    """Return what the service must survive."""
    return _claimed(figures for figures in found(results, "chaos").values() if isinstance(figures, dict))


def campaign(results: Results) -> str:
    """Return what kills, damaged folders, hostile files, stops and swaps have done."""
    ours, service = found(results, "campaign"), found(results, "chaos")
    parts = [ours[part] for part in ("kills", "folders", "files") if part in ours]
    return _claimed([*parts, *(service[part] for part in ("stop", "swap"))])


def _claimed(parts: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        [claim["what"], claim["found"], "yes" if claim["holds"] else "**no**"]
        for figures in parts
        for claim in figures["claims"]
    ]
    return table(["wanted", "seen", "holds"], rows)


def hidden_labels(results: Results) -> str:
    """Return labels that were hidden in training and added later from their texts."""
    rows = []
    for name, run in sorted(found(results, "label_changes_hidden", DEBIAN).items()):
        without, added, trained = run["without"], run["added"], run["trained"]
        recalls = [
            number(one[key], 1) for key in ("recall@10", "mean recall@10 of a label") for one in (added, trained)
        ]
        precisions = f"{without['P@1']:.1f}, {added['P@1']:.1f}"
        lost = Spread(added["P@5"] - without["P@5"]).signed
        rows.append([named(name), *recalls, precisions, lost, f"{added['places of ten']:.2f}", run_seconds(run, "add")])
    recalls_of = ["R@10: added", "trained", "mean R@10 of a label: added", "trained"]
    rest = ["P@1: before, after", "change of P@5", "new labels in the first ten", "added in"]
    return table(["hidden labels, %", *recalls_of, *rest], rows)


def updated(results: Results) -> str:
    """Return models that learnt on from new texts."""
    rows = []
    for name, run in sorted(found(results, "label_changes_update", DEBIAN).items()):
        shown = [
            f"{run[when]['P@1 among old labels']:.1f} ({run[when]['P@5 among old labels']:.1f})"
            for when in ("before", "updated", "trained on all")
        ]
        rows.append([named(name), *shown, run_seconds(run, "update")])
    return table(["P@1 (P@5) among old labels", "before", "updated", "trained on all", "updated in"], rows)


def named(run: str) -> str:
    """Return a method as its command has it: "astec laptop" is a preset, "nearest seed 1" another draw of labels."""
    described, _, seed = run.partition(" seed ")
    method, *rest = described.split(" ")
    options = "".join(f" --set {one}" if "=" in one else f" --preset {one}" for one in rest)
    return f"`{'laconic train' if method == 'combined' else method}{options}`, seed {seed or 0}"


def run_seconds(run: Mapping[str, Any], what: str) -> str:
    return f"{run[f'seconds to {what}']:.0f} s"


def each_method(results: Results) -> str:
    """Return the methods whose figures stand on no page of a paper, each row with the file that has it."""
    rows: list[list[str]] = []
    for data, runs in METHODS.items():
        rows.append([f"**{data}** ({LABELS[data]:,} labels)", *[""] * (len(USUAL) + 3)])
        for name, seconds, note, path in runs:
            run = found(results, *path)
            prefix = "1 instance: " if "1 instance: P@1" in run else ""
            time = seconds_of(results, seconds)
            means = [number(Spread.of(run[prefix + one]).mean, 1) for one in USUAL]
            rows.append([name, *means, time, note, f"`{path[0]}.json`"])
    return table(["test split, %", *USUAL, "seconds", "", "file"], rows)


def seconds_of(results: Results, path: Sequence[str]) -> str:
    return f"{Spread.of(found(results, *path)).mean:,.0f}" if path else ""


METHODS: dict[str, list[tuple[str, Sequence[str], str, Sequence[str]]]] = {  # name, seconds, note, where it stands
    DEBIAN: [
        ("`nearest`", ("nearest_quality", DEBIAN, "train_seconds"), "2 cores", ("nearest_quality", DEBIAN, "nearest")),
    ],
    NPM: [
        ("`nearest`", ("nearest_quality", NPM, "train_seconds"), "2 cores", ("nearest_quality", NPM, "nearest")),
        ("`inceptionxml`", (), "3 seeds", ("inception_quality", NPM, "protocol")),
    ],
    YSO: [
        ("`nearest`", ("nearest_quality", YSO, "train_seconds"), "2 cores", ("nearest_quality", YSO, "nearest")),
        (
            "`inceptionxml`, 12 epochs",
            ("inception_yso_alone", YSO, "our cleaning", "seconds"),
            "one seed; alone on one H200, with its evaluation",
            ("inception_yso_alone", YSO, "our cleaning"),
        ),
    ],
}


def calibration_parts(results: Results) -> str:
    """Return calibration errors by a curve from the texts that chose and fitted, and by one from other texts."""
    columns = {
        "raw": "raw scores",
        "the part that chose and fitted": "curve from the held-out texts",
        "a part of its own": "curve from other texts",
    }
    rows = [
        [f"{method}, {data}", *(number(mean(run[one]), 2) for one in columns)]
        for data, methods in found(results, "calibration_parts", "ECE@5 in percent, seed by seed").items()
        for method, run in methods.items()
    ]
    note = (
        "Of every dataset the first 45,124 training texts, one seed. Label trees alone choose and fit nothing by them."
    )
    return joined(table(["ECE@5, %", *columns.values()], rows), note)
