"""The command line. Each verb reads its arguments, calls the library and shows the answer; nothing is computed here.

torch and its like are imported inside the verbs, so that `laconic --help` answers at once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.text import Text

from laconic import __version__, cli_bench, cli_changes, cli_pack, cli_predict, cli_serve, cli_train
from laconic.cli_pack import Beam, Exact, Threads
from laconic.cli_shared import (
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
    print_note,
    print_notes,
    read_corpus,
)
from laconic.errors import ConfigError, UserError
from laconic.plurals import counted

if TYPE_CHECKING:
    from laconic.data.corpus import Corpus
    from laconic.evaluate import Evaluation
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
    from laconic.demo import run

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
    from laconic.inspecting import inspect_data, inspect_model, inspect_packed, plot_data
    from laconic.predict.packed import is_packed

    if (Path(data) / "manifest.json").exists():
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
    from laconic.data.writing import write_folder

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
    from laconic.bars import progress
    from laconic.config import read_settings
    from laconic.predict.opening import Speed, open_as_it_is

    speed = Speed(beam=beam, exact=exact, threads=threads)
    predictor = open_as_it_is(model, device=device, settings=read_settings(None, settings or []), speed=speed)
    corpus = read_corpus(data, table, separator, model=model, keep_self=keep_self)
    print_notes(corpus)
    with progress(err, "ranking", len(corpus.split(split))) as bar:
        evaluation = predictor.evaluate(
            corpus, split, lambda done: bar.advance(bar.task_ids[0], done), shuffle=shuffle_words
        )
    _show(
        evaluation, f"{model} on {data}, {split}", {"model": str(model), "data": data, "split": split}, json_file, plots
    )


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
    device: Device = "auto",
    settings: Overruled = None,
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Turn a model's dial: precision, and what rare labels get of it, at every place.

    The dial is alpha, a re-ranker's share of a score; beta, the classifier's share in astec; or top, how many clusters
    inceptionxml+ opens. `laconic predict` and `evaluate` answer at one place, by --set (top: answer_top).
    """
    from laconic.display import sweep_table
    from laconic.files import writing
    from laconic.sweeping import TITLES

    predictor = _open(model, device, settings)
    corpus = read_corpus(data, table, separator, model=model, keep_self=keep_self)
    print_notes(corpus)
    found = predictor.sweep(corpus, split, places or ())
    dial = next(iter(found[0]))
    out.print(sweep_table(found, f"{model} on {data}, {split}: {TITLES[dial]}"))
    if plots is not None:
        from laconic.plots import plot_sweep

        plot_sweep(found, dial, plots / f"sweep-{dial}.png")
        out.print(f"{plots / f'sweep-{dial}.png'}")
    if json_file is not None:
        about = {"model": str(model), "data": data, "split": split, "sweep": found}
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
    device: Device = "auto",
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Two models on the same texts: figures, how sure their difference is, and the texts that tell them apart."""
    from laconic.bars import progress
    from laconic.comparing import Config, Contender, compare
    from laconic.display import comparison_tables, example_table, examples_legend
    from laconic.files import writing

    contenders = Contender.open(one, device), Contender.open(other, device)
    corpus = read_corpus(data, table, separator, model=one, keep_self=keep_self)
    print_notes(corpus)
    with progress(err, "ranking", 2 * len(corpus.split(split))) as bar:
        comparison = compare(
            contenders, corpus, split, Config(n=n, k=k, seed=seed), lambda done: bar.advance(bar.task_ids[0], done)
        )
    for shown in comparison_tables(comparison, f"{data}, {split}: {counted(comparison.texts, 'text')}"):
        out.print(shown)
    print_notes(comparison)
    out.print(examples_legend(comparison))
    for example in comparison.examples:
        out.print(example_table(example, comparison), "")
    if json_file is not None:
        about = {"data": data, "split": split, "seed": seed}
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
    propensity: Annotated[str, typer.Option(help="A and B, such as 0.55,1.5; by default from the data's name.")] = "",
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Score the predictions of any system on data with known labels."""
    from laconic.predictions import score_predictions

    corpus = read_corpus(data, table, separator, keep_self=keep_self)
    print_notes(corpus)
    evaluation = score_predictions(predictions, corpus, split, _propensity(propensity, corpus))
    about = {"predictions": str(predictions), "data": data, "split": split}
    _show(evaluation, f"{predictions} on {data}, {split}", about, json_file, plots)


def _open(model: Path, device: str, settings: list[str] | None) -> Predictor:
    from laconic.config import read_settings
    from laconic.predict.predictor import Predictor

    return Predictor.open(model, device=device, settings=read_settings(None, settings or []))


def _propensity(given: str, corpus: Corpus) -> Any:
    from laconic.data.catalogue import Propensity, propensity_of

    if not given:
        return propensity_of(Path(corpus.source).name)
    try:
        a, b = map(float, given.split(","))
    except ValueError:
        raise ConfigError(f"--propensity must be two numbers, such as 0.55,1.5, but is {given!r}") from None
    return Propensity(a=a, b=b)


def _show(
    evaluation: Evaluation, title: str, about: dict[str, str], json_file: Path | None, plots: Path | None
) -> None:
    from laconic.display import metrics_table
    from laconic.files import writing

    out.print(metrics_table({"": evaluation}, f"{title}: {counted(evaluation.texts, 'text')}"))
    if json_file is not None:
        with writing(json_file) as file:
            file.write(json.dumps(about | evaluation.as_json(), indent=2).encode() + b"\n")
    if plots is not None and not evaluation.quantiles:
        print_note(
            f"no pictures were drawn: by label frequency they need the training split, which {about['data']} lacks"
        )
    elif plots is not None:
        from laconic.plots import plot_contributions

        for name, quantiles in evaluation.quantiles.items():
            path = plots / f"contributions-{name.replace(' ', '-')}.png"
            plot_contributions({title: quantiles.contribution}, quantiles.mean_frequency, path, k=quantiles.k)
            out.print(f"{path}")
