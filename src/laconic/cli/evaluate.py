"""The verbs that measure: `evaluate`, `sweep`, `compare` and `score`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from laconic.cli.bulk import check_engine, ranks_on
from laconic.cli.options import (
    DATA,
    METHOD,
    OUTPUT,
    Address,
    AllMetrics,
    AsJson,
    Beam,
    ColumnNames,
    Constants,
    Data,
    Device,
    Engine,
    Exact,
    JsonFile,
    KeepSelf,
    ModelFolder,
    NoVerify,
    PerLabel,
    Plots,
    PredictionSettings,
    Separator,
    SplitName,
    Threads,
    Track,
    Workers,
    err,
    out,
    print_constants,
    print_note,
    print_notes,
    print_raw_scores,
    print_results,
    read_corpus,
)
from laconic.cli.verb import argument, command, option
from laconic.units import counted

if TYPE_CHECKING:
    from laconic.evaluation.evaluate import Evaluation

verbs = typer.Typer()
_GROUP = "Measure"


@command(
    verbs,
    group=_GROUP,
    example="laconic evaluate model test.csv\nlaconic evaluate model/packed debian-related --all --out figures.json",
)
def evaluate(
    model: ModelFolder,
    data: Data,
    split: SplitName = "test",
    columns: ColumnNames = None,
    separator: Separator = None,
    keep_self: KeepSelf = False,
    propensity: Constants = "",
    shuffle_words: Annotated[
        int | None,
        option(DATA, "--shuffle-words SEED", "Shuffle the words of each text with this seed (robustness test).", min=0),
    ] = None,
    settings: PredictionSettings = None,
    device: Device = "auto",
    beam: Beam = None,
    exact: Exact = False,
    threads: Threads = None,
    no_verify: NoVerify = False,
    engine: Engine = "",
    address: Address = "",
    workers: Workers = None,
    every: AllMetrics = False,
    as_json: AsJson = False,
    json_file: JsonFile = None,
    plots: Plots = None,
    per_label: PerLabel = None,
    track: Track = None,
) -> None:
    """Evaluate a model on labelled data. Pass MODEL/packed to evaluate the packed model."""
    from laconic.cli.progress import progress
    from laconic.config import read_settings
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.predict.load import Speed, open_folder
    from laconic.storage.manifest import version_of
    from laconic.trackers.registry import trackers_named

    _check_report(per_label)
    about = {"model": str(model), "data_name": data}
    trackers = trackers_named(track, f"{model.resolve().name} on {Path(data).name}", about)
    speed = Speed(beam=beam, exact=exact, threads=threads)
    overrides = read_settings(None, settings or [])
    check_engine(engine, without={"--address": address, "--workers": workers}, within={"--threads": threads})
    rank = ranks_on(engine, model, {"device": device, "settings": overrides, "speed": speed}, address, workers)
    predictor = open_folder(model, device=device, settings=overrides, speed=speed, verify=not no_verify)
    corpus = read_corpus(data, columns, separator, model=model, keep_self=keep_self, propensity=propensity)
    texts = evaluation_texts(corpus, split, [predictor.trained_on])
    with progress(err, "ranking", len(texts.texts)) as bar:
        evaluation = predictor.evaluate(
            texts.corpus, texts.split, lambda done: bar.advance(bar.task_ids[0], done), shuffle=shuffle_words, rank=rank
        )
    with trackers:
        trackers.begin({"split": texts.name, "texts": evaluation.texts, "version": version_of(model)})
        trackers.log(texts.name, evaluation.metrics)
    about = {"model": str(model), "data": data, "split": texts.name}
    _show(evaluation, f"{model} on {data}, {texts}", about, _Shown("evaluate", every, as_json, json_file, plots))
    _write_report(evaluation, per_label, as_json)
    print_raw_scores(predictor.facts, "ECE and thresholds are of", model)


@command(verbs, group=_GROUP, example="laconic sweep model debian-related --at 0 --at 0.1 --plots pictures")
def sweep(
    model: ModelFolder,
    data: Data,
    values: Annotated[
        list[float] | None, option(METHOD, "--at --top VALUE", "Value of the setting to evaluate; may be repeated.")
    ] = None,
    settings: PredictionSettings = None,
    split: SplitName = "test",
    columns: ColumnNames = None,
    separator: Separator = None,
    keep_self: KeepSelf = False,
    propensity: Constants = "",
    device: Device = "auto",
    as_json: AsJson = False,
    json_file: JsonFile = None,
    plots: Plots = None,
) -> None:
    """Evaluate a model over the range of the one setting that can be changed after training.

    The setting is alpha, the re-ranker's weight in a score; beta, the classifier's weight in astec; tail, the tail bias
    of a fused model; or top, the clusters that inceptionxml+ probes. `laconic predict` and `evaluate` take one value of
    it with --set (top: answer_top). --plots draws P@5 and PSP@5 by the setting and, for tail, the frontier: P@1 against
    the recall of rare labels.
    """
    from laconic.analysis.sweep import TITLES, sweep_model
    from laconic.cli.tables import sweep_table
    from laconic.config import read_settings
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.data.sketch import seen_words
    from laconic.predict.predictor import Predictor

    predictor = Predictor.open(model, device=device, settings=read_settings(None, settings or []))
    corpus = read_corpus(data, columns, separator, model=model, keep_self=keep_self, propensity=propensity)
    texts = evaluation_texts(corpus, split, [predictor.trained_on])
    found = sweep_model(predictor, texts.corpus, texts.split, values or ())
    seen = predictor.trained_on.overlap(texts.texts)
    setting = next(iter(found[0]))
    title = f"{model} on {data}, {texts}: {counted(len(texts.texts), 'text')}{seen_words(seen)}; {TITLES[setting]}"
    if not as_json:
        out.print(sweep_table(found, title))
    if plots is not None:
        for picture in _sweep_pictures(found, setting, plots):
            (err if as_json else out).print(f"{picture}")
    about: dict[str, Any] = {"model": str(model), "data": data, "split": texts.name, "texts": len(texts.texts)}
    constants = predictor.constants(corpus)
    about |= {"seen_in_training": None if seen is None else seen.as_json()}
    about |= {"propensity": None if constants is None else asdict(constants), "sweep": found}
    print_results(about, as_json=as_json, to=json_file)


@command(verbs, group=_GROUP, example="laconic compare model-a model-b test.csv -n 5")
def compare(
    one: ModelFolder,
    other: ModelFolder,
    data: Data,
    split: SplitName = "test",
    columns: ColumnNames = None,
    separator: Separator = None,
    keep_self: KeepSelf = False,
    propensity: Constants = "",
    device: Device = "auto",
    n: Annotated[int, option(OUTPUT, "-n N", "Texts to show.", min=0)] = 10,
    k: Annotated[int, option(OUTPUT, "-k K", "Labels per text.", min=1)] = 5,
    seed: Annotated[int, option(OUTPUT, "--seed N", "Seed for the order of texts that differ equally.", min=0)] = 0,
    as_json: AsJson = False,
    json_file: JsonFile = None,
) -> None:
    """Compare two models on the same texts: metrics, how certain their difference is, and texts where they differ."""
    from laconic.analysis.compare import Config, Contender, compare
    from laconic.cli.comparison import comparison_tables, example_table, examples_legend
    from laconic.cli.progress import progress
    from laconic.cli.tables import metrics_legend
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.data.sketch import seen_words

    contenders = Contender.open(one, device), Contender.open(other, device)
    corpus = read_corpus(data, columns, separator, model=one, keep_self=keep_self, propensity=propensity)
    texts = evaluation_texts(corpus, split, [contender.trained_on for contender in contenders])
    with progress(err, "ranking", 2 * len(texts.texts)) as bar:
        comparison = compare(
            contenders,
            texts.corpus,
            texts.split,
            Config(n=n, k=k, seed=seed),
            lambda done: bar.advance(bar.task_ids[0], done),
        )
    about = {"data": data, "split": texts.name, "seed": seed}
    print_results(about | comparison.as_json(), as_json=as_json, to=json_file)
    if as_json:
        return
    seen = "".join(map(seen_words, comparison.seen, comparison.models))
    for shown in comparison_tables(comparison, f"{data}, {texts}: {counted(comparison.texts, 'text')}{seen}"):
        out.print(shown)
    out.print(metrics_legend(comparison.figures, every=True))
    print_notes(comparison)
    out.print(examples_legend(comparison))
    for example in comparison.examples:
        out.print(example_table(example, comparison), "")


@command(verbs, group=_GROUP, example="laconic score answers.jsonl test.csv")
def score(
    predictions: Annotated[Path, argument("PREDICTIONS", "What predict --out writes, or a scipy .npz of scores.")],
    data: Data,
    split: SplitName = "test",
    columns: ColumnNames = None,
    separator: Separator = None,
    keep_self: KeepSelf = False,
    propensity: Constants = "",
    every: AllMetrics = False,
    as_json: AsJson = False,
    json_file: JsonFile = None,
    plots: Plots = None,
    per_label: PerLabel = None,
) -> None:
    """Evaluate predictions of any system, from a file, on labelled data."""
    from laconic.analysis.score_file import score_predictions
    from laconic.data.evaluation_texts import evaluation_texts

    _check_report(per_label)
    corpus = read_corpus(data, columns, separator, keep_self=keep_self, propensity=propensity)
    texts = evaluation_texts(corpus, split)
    evaluation = score_predictions(predictions, corpus, texts.split)
    if evaluation.propensity is not None:
        print_constants(corpus)
    about = {"predictions": str(predictions), "data": data, "split": texts.name}
    _show(evaluation, f"{predictions} on {data}, {texts}", about, _Shown("score", every, as_json, json_file, plots))
    _write_report(evaluation, per_label, as_json)


def _check_report(path: Path | None) -> None:
    from laconic.evaluation.label_report import check_report_file

    if path is not None:
        check_report_file(path)


def _write_report(evaluation: Evaluation, path: Path | None, as_json: bool) -> None:
    """Write the figures of each label, where a file is named, and say of which labels they are."""
    from laconic.evaluation.label_report import write_report

    if path is None:
        return
    assert evaluation.by_label is not None  # labels of data have names
    figures = evaluation.by_label.figures()
    write_report(figures, path)
    message = f"{path}: figures of {counted(len(figures), 'label')}, if {evaluation.by_label.kept} are taken"
    (err if as_json else out).print(message, soft_wrap=True)


def _sweep_pictures(found: Sequence[Mapping[str, float]], setting: str, folder: Path) -> list[Path]:
    """Draw the metrics by the setting and, for a tail bias, precision against the recall of rare labels."""
    from laconic.analysis.plots import plot_frontier, plot_sweep

    pictures = [folder / f"sweep-{setting}.png"]
    plot_sweep(found, setting, pictures[0])
    if setting == "tail" and "tail R@10" in found[0]:
        pictures.append(folder / "frontier-tail.png")
        plot_frontier(found, setting, pictures[1])
    return pictures


class _Shown(NamedTuple):
    """How an evaluation is shown, and where it is written."""

    verb: str
    every: bool  # metric
    as_json: bool
    to: Path | None
    plots: Path | None


def _show(evaluation: Evaluation, title: str, about: dict[str, str], shown: _Shown) -> None:
    from laconic.cli.tables import metrics_legend, metrics_table
    from laconic.data.sketch import seen_words

    if not shown.as_json:
        title_of_all = f"{title}: {counted(evaluation.texts, 'text')}{seen_words(evaluation.seen)}"
        out.print(metrics_table({"": evaluation}, title_of_all, every=shown.every))
        out.print(metrics_legend(evaluation.metrics, every=shown.every, verb=shown.verb))
        if evaluation.at_threshold is not None:
            out.print(f"{evaluation.at_threshold}", soft_wrap=True)
    print_results(about | evaluation.as_json(), as_json=shown.as_json, to=shown.to)
    if shown.plots is not None:
        for picture in _pictures(evaluation, title, shown.plots):
            (err if shown.as_json else out).print(f"{picture}")
        if not evaluation.quantiles:
            print_note(f"no contributions were drawn: they need the training split, which {about['data']} lacks")


def _pictures(evaluation: Evaluation, title: str, folder: Path) -> list[Path]:
    """Draw precision against recall and, where training counts are known, what labels of each frequency contribute."""
    from laconic.analysis.plots import plot_contributions, plot_precision_recall

    drawn = [folder / "precision-recall.png"]
    assert evaluation.curve is not None
    plot_precision_recall({title: evaluation.curve}, evaluation.at_threshold, drawn[0])
    for name, quantiles in evaluation.quantiles.items():
        drawn.append(folder / f"contributions-{name.replace(' ', '-')}.png")
        plot_contributions(
            {title: quantiles.contribution}, quantiles.mean_frequency, drawn[-1], k=quantiles.k, bins=name
        )
    return drawn
