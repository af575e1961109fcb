"""The verbs that measure: `evaluate`, `sweep`, `compare` and `score`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from laconic.cli.options import (
    Constants,
    Data,
    Device,
    JsonFile,
    KeepSelf,
    ModelFolder,
    Overruled,
    Plots,
    Separator,
    SplitName,
    Table,
    err,
    out,
    print_constants,
    print_note,
    print_notes,
    read_corpus,
)
from laconic.cli.pack import Beam, Exact, Threads
from laconic.units import counted

if TYPE_CHECKING:
    from laconic.evaluation.evaluate import Evaluation
    from laconic.predict.predictor import Predictor


verbs = typer.Typer()


@verbs.command()
def evaluate(
    model: ModelFolder,
    data: Data,
    split: SplitName = "test",
    json_file: JsonFile = None,
    plots: Plots = None,
    keep_self: KeepSelf = False,
    propensity: Constants = "",
    device: Device = "auto",
    settings: Overruled = None,
    shuffle_words: Annotated[
        int | None, typer.Option("--shuffle-words", metavar="SEED", min=0, help="Shuffle word order with this seed.")
    ] = None,
    beam: Beam = None,
    exact: Exact = False,
    threads: Threads = None,
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Evaluate a model on labelled data. Pass MODEL/packed to evaluate the packed model."""
    from laconic.cli.progress import progress
    from laconic.config import read_settings
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.predict.load import Speed, open_folder

    speed = Speed(beam=beam, exact=exact, threads=threads)
    predictor = open_folder(model, device=device, settings=read_settings(None, settings or []), speed=speed)
    corpus = read_corpus(data, table, separator, model=model, keep_self=keep_self, propensity=propensity)
    print_notes(corpus)
    texts = evaluation_texts(corpus, split, [predictor.trained_on])
    with progress(err, "ranking", len(texts.texts)) as bar:
        evaluation = predictor.evaluate(
            texts.corpus, texts.split, lambda done: bar.advance(bar.task_ids[0], done), shuffle=shuffle_words
        )
    about = {"model": str(model), "data": data, "split": texts.name}
    _show(evaluation, f"{model} on {data}, {texts}", about, json_file, plots)


@verbs.command()
def sweep(
    model: ModelFolder,
    data: Data,
    values: Annotated[
        list[float] | None,
        typer.Option("--at", "--top", metavar="VALUE", help="Value of the setting to evaluate; repeatable."),
    ] = None,
    split: SplitName = "test",
    json_file: JsonFile = None,
    plots: Plots = None,
    keep_self: KeepSelf = False,
    propensity: Constants = "",
    device: Device = "auto",
    settings: Overruled = None,
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Evaluate a model over the range of the one setting that can be changed after training.

    The setting is alpha, the re-ranker's weight in a score; beta, the classifier's weight in astec; tail, the tail bias
    of a fused model; or top, the clusters that inceptionxml+ probes. `laconic predict` and `evaluate` take one value of
    it with --set (top: answer_top).
    """
    from laconic.analysis.sweep import TITLES, sweep_model
    from laconic.cli.tables import sweep_table
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.data.sketch import seen_words
    from laconic.system.files import writing

    predictor = _open(model, device, settings)
    corpus = read_corpus(data, table, separator, model=model, keep_self=keep_self, propensity=propensity)
    print_notes(corpus)
    texts = evaluation_texts(corpus, split, [predictor.trained_on])
    found = sweep_model(predictor, texts.corpus, texts.split, values or ())
    seen = predictor.trained_on.overlap(texts.texts)
    setting = next(iter(found[0]))
    title = f"{model} on {data}, {texts}: {counted(len(texts.texts), 'text')}{seen_words(seen)}; {TITLES[setting]}"
    out.print(sweep_table(found, title))
    if plots is not None:
        from laconic.analysis.plots import plot_sweep

        plot_sweep(found, setting, plots / f"sweep-{setting}.png")
        out.print(f"{plots / f'sweep-{setting}.png'}")
    if json_file is not None:
        about: dict[str, Any] = {"model": str(model), "data": data, "split": texts.name, "texts": len(texts.texts)}
        constants = predictor.constants(corpus)
        about |= {"seen_in_training": None if seen is None else seen.as_json()}
        about |= {"propensity": None if constants is None else asdict(constants), "sweep": found}
        with writing(json_file) as file:
            file.write(json.dumps(about, indent=2).encode() + b"\n")


@verbs.command()
def compare(
    one: ModelFolder,
    other: ModelFolder,
    data: Data,
    split: SplitName = "test",
    n: Annotated[int, typer.Option("-n", help="Texts to show.", min=0)] = 10,
    k: Annotated[int, typer.Option("-k", help="Labels per text.", min=1)] = 5,
    seed: Annotated[int, typer.Option(help="Seed for the order of texts that differ equally.", min=0)] = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the comparison to this file as JSON.")
    ] = None,
    keep_self: KeepSelf = False,
    propensity: Constants = "",
    device: Device = "auto",
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Compare two models on the same texts: metrics, how certain their difference is, and texts where they differ."""
    from laconic.analysis.compare import Config, Contender, compare
    from laconic.cli.progress import progress
    from laconic.cli.tables import comparison_tables, example_table, examples_legend
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.data.sketch import seen_words
    from laconic.system.files import writing

    contenders = Contender.open(one, device), Contender.open(other, device)
    corpus = read_corpus(data, table, separator, model=one, keep_self=keep_self, propensity=propensity)
    print_notes(corpus)
    texts = evaluation_texts(corpus, split, [contender.trained_on for contender in contenders])
    with progress(err, "ranking", 2 * len(texts.texts)) as bar:
        comparison = compare(
            contenders,
            texts.corpus,
            texts.split,
            Config(n=n, k=k, seed=seed),
            lambda done: bar.advance(bar.task_ids[0], done),
        )
    seen = "".join(map(seen_words, comparison.seen, comparison.models))
    for shown in comparison_tables(comparison, f"{data}, {texts}: {counted(comparison.texts, 'text')}{seen}"):
        out.print(shown)
    print_notes(comparison)
    out.print(examples_legend(comparison))
    for example in comparison.examples:
        out.print(example_table(example, comparison), "")
    if json_file is not None:
        about = {"data": data, "split": texts.name, "seed": seed}
        with writing(json_file) as file:
            file.write(json.dumps(about | comparison.as_json(), indent=2, ensure_ascii=False).encode() + b"\n")


@verbs.command()
def score(
    predictions: Annotated[
        Path, typer.Argument(metavar="PREDICTIONS", help="What predict --out writes, or a scipy .npz of scores.")
    ],
    data: Data,
    split: SplitName = "test",
    json_file: JsonFile = None,
    plots: Plots = None,
    keep_self: KeepSelf = False,
    propensity: Constants = "",
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Evaluate predictions of any system, from a file, on labelled data."""
    from laconic.analysis.score_file import score_predictions
    from laconic.data.evaluation_texts import evaluation_texts

    corpus = read_corpus(data, table, separator, keep_self=keep_self, propensity=propensity)
    print_notes(corpus)
    texts = evaluation_texts(corpus, split)
    evaluation = score_predictions(predictions, corpus, texts.split)
    if evaluation.propensity is not None:
        print_constants(corpus)
    about = {"predictions": str(predictions), "data": data, "split": texts.name}
    _show(evaluation, f"{predictions} on {data}, {texts}", about, json_file, plots)


def _open(model: Path, device: str, settings: list[str] | None) -> Predictor:
    from laconic.config import read_settings
    from laconic.predict.predictor import Predictor

    return Predictor.open(model, device=device, settings=read_settings(None, settings or []))


def _show(
    evaluation: Evaluation, title: str, about: dict[str, str], json_file: Path | None, plots: Path | None
) -> None:
    from laconic.cli.tables import metrics_table
    from laconic.data.sketch import seen_words
    from laconic.system.files import writing

    out.print(
        metrics_table({"": evaluation}, f"{title}: {counted(evaluation.texts, 'text')}{seen_words(evaluation.seen)}")
    )
    if json_file is not None:
        with writing(json_file) as file:
            file.write(json.dumps(about | evaluation.as_json(), indent=2).encode() + b"\n")
    if plots is not None and not evaluation.quantiles:
        print_note(
            f"no pictures were drawn: by label frequency they need the training split, which {about['data']} lacks"
        )
    elif plots is not None:
        from laconic.analysis.plots import plot_contributions

        for name, quantiles in evaluation.quantiles.items():
            path = plots / f"contributions-{name.replace(' ', '-')}.png"
            plot_contributions(
                {title: quantiles.contribution}, quantiles.mean_frequency, path, k=quantiles.k, bins=name
            )
            out.print(f"{path}")
