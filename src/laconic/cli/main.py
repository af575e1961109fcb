"""The command line. Each verb reads its arguments, calls the library and shows the answer; nothing is computed here.

torch and its like are imported inside the verbs, so that `laconic --help` answers at once.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.text import Text

from laconic import __version__
from laconic.cli import bench as cli_bench
from laconic.cli import labels as cli_changes
from laconic.cli import pack as cli_pack
from laconic.cli import predict as cli_predict
from laconic.cli import serve as cli_serve
from laconic.cli import train as cli_train
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
from laconic.errors import UserError
from laconic.system.machine import limit_thread_pools
from laconic.units import counted

if TYPE_CHECKING:
    from laconic.evaluation.evaluate import Evaluation
    from laconic.predict.predictor import Predictor

app = typer.Typer(
    help="From a short text to the right few of up to millions of labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(cli_train.verbs)
app.add_typer(cli_predict.verbs)
app.add_typer(cli_pack.verbs)
app.add_typer(cli_bench.verbs)
app.add_typer(cli_changes.verbs)
app.add_typer(cli_serve.verbs)


def main() -> None:
    """Exit codes: 0 done, 2 the user's mistake, 130 interrupted, 1 anything else."""
    debug = "--debug" in sys.argv
    limit_thread_pools()
    try:
        app([argument for argument in sys.argv[1:] if argument != "--debug"], prog_name="laconic")
    except UserError as error:
        if debug:
            raise
        _complain(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
    except OSError as error:
        if debug or error.filename is None:  # no file of the user's
            raise
        _complain(f"{error.filename}: {error.strerror}")


def _complain(message: str) -> NoReturn:
    err.print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)
    sys.exit(2)


def _print_version(asked: bool) -> bool:
    if asked:
        out.print(__version__)
        raise typer.Exit
    return asked


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a user's mistake.")] = False,
) -> None:
    """Options of every verb; `main` itself looks for --debug."""


@app.command()
def demo() -> None:
    """Look at the bundled data, train a small model on it, and show what that is worth."""
    from laconic.cli.demo import run

    run(out)


@app.command()
def inspect(
    data: Annotated[str, typer.Argument(metavar="DATA | MODEL", help="Data as for train, or a model folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    plots: Plots = None,
    length: Annotated[int, typer.Option(help="Sequence length, for the share of texts that it would cut.", min=1)] = 32,
    vectors: Annotated[Path | None, typer.Option(help="Word vectors: how many of the words have one.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="A model: check every byte.")] = False,
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Say what is in a data set, and what training on it would cost; or what is in a model."""
    from laconic.cli.inspect import inspect_data, inspect_model, inspect_packed, plot_data
    from laconic.packed.folder import is_packed
    from laconic.storage.manifest import kind_of

    if kind_of(Path(data)):
        inspection = (inspect_packed if is_packed(Path(data)) else inspect_model)(Path(data), verify=verify)
    else:
        corpus = read_corpus(data, table, separator)
        inspection = inspect_data(corpus, length=length, vectors=vectors)
        print_notes(corpus)
        if plots is not None:
            plot_data(corpus, plots)
            err.print(f"pictures are in {plots}")
    if as_json:
        print(json.dumps(inspection.facts, indent=2, ensure_ascii=False))
    else:
        for part in inspection.shown:
            out.print(part)


@app.command()
def convert(
    data: Data,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The dataset folder to make.")],
    plain: Annotated[bool, typer.Option("--plain", help="Do not gzip the files.")] = False,
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Write data of any known form as a dataset folder."""
    from laconic.data.output import write_folder

    corpus = read_corpus(data, table, separator)
    write_folder(corpus, folder, compress=not plain)
    print_notes(corpus)
    sizes = ", ".join(f"{name} {counted(len(split), 'text')}" for name, split in corpus.splits.items())
    out.print(f"{folder}: {sizes}, {counted(len(corpus.labels), 'label')}")


@app.command()
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
    shuffle_words: Annotated[int | None, typer.Option(metavar="SEED", min=0, help="Words in another order.")] = None,
    beam: Beam = None,
    exact: Exact = False,
    threads: Threads = None,
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Score a model on data with known labels; what was packed of it, by its own folder: MODEL/packed."""
    from laconic.cli.progress import progress
    from laconic.config import read_settings
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.predict.load import Speed, open_as_it_is

    speed = Speed(beam=beam, exact=exact, threads=threads)
    predictor = open_as_it_is(model, device=device, settings=read_settings(None, settings or []), speed=speed)
    corpus = read_corpus(data, table, separator, model=model, keep_self=keep_self, propensity=propensity)
    print_notes(corpus)
    texts = evaluation_texts(corpus, split, [predictor.trained_on])
    with progress(err, "ranking", len(texts.texts)) as bar:
        evaluation = predictor.evaluate(
            texts.corpus, texts.split, lambda done: bar.advance(bar.task_ids[0], done), shuffle=shuffle_words
        )
    about = {"model": str(model), "data": data, "split": texts.name}
    _show(evaluation, f"{model} on {data}, {texts}", about, json_file, plots)


@app.command()
def sweep(
    model: ModelFolder,
    data: Data,
    places: Annotated[
        list[float] | None, typer.Option("--at", "--top", metavar="PLACE", help="A place of it; again for another.")
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
    """Turn a model's dial: precision, and what rare labels get of it, at every place.

    The dial is alpha, a re-ranker's share of a score; beta, the classifier's share in astec; or top, how many clusters
    inceptionxml+ opens. `laconic predict` and `evaluate` answer at one place, by --set (top: answer_top).
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
    found = sweep_model(predictor, texts.corpus, texts.split, places or ())
    seen = predictor.trained_on.overlap(texts.texts)
    dial = next(iter(found[0]))
    title = f"{model} on {data}, {texts}: {len(texts.texts):,} texts{seen_words(seen)}; {TITLES[dial]}"
    out.print(sweep_table(found, title))
    if plots is not None:
        from laconic.analysis.plots import plot_sweep

        plot_sweep(found, dial, plots / f"sweep-{dial}.png")
        out.print(f"{plots / f'sweep-{dial}.png'}")
    if json_file is not None:
        about: dict[str, Any] = {"model": str(model), "data": data, "split": texts.name, "texts": len(texts.texts)}
        constants = predictor.constants(corpus)
        about |= {"seen_in_training": None if seen is None else seen.as_json()}
        about |= {"propensity": None if constants is None else asdict(constants), "sweep": found}
        with writing(json_file) as file:
            file.write(json.dumps(about, indent=2).encode() + b"\n")


@app.command()
def compare(
    one: ModelFolder,
    other: ModelFolder,
    data: Data,
    split: SplitName = "test",
    n: Annotated[int, typer.Option("-n", help="How many texts to show.", min=0)] = 10,
    k: Annotated[int, typer.Option("-k", help="How many labels of each.", min=1)] = 5,
    seed: Annotated[int, typer.Option(help="Another order of texts that differ alike.", min=0)] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write all of it to this file.")] = None,
    keep_self: KeepSelf = False,
    propensity: Constants = "",
    device: Device = "auto",
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Two models on the same texts: figures, how sure their difference is, and the texts that tell them apart."""
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


@app.command()
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
    """Score the predictions of any system on data with known labels."""
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
