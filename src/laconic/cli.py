"""The command line. Each verb reads its arguments, calls the library and shows the answer; nothing is computed here.

torch and its like are imported inside the verbs, so that `laconic --help` answers at once.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from laconic import __version__, cli_bench, cli_changes, cli_pack, cli_predict, cli_serve
from laconic.cli_pack import Beam, Exact, KeepTexts, Threads
from laconic.errors import ConfigError, UserError

if TYPE_CHECKING:
    from laconic.checkpoint import SavedModel
    from laconic.comparing import Comparison
    from laconic.data.corpus import Corpus
    from laconic.evaluate import Evaluation
    from laconic.predict.predictor import Predictor

app = typer.Typer(
    help="From a short text to the right few of up to millions of labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(cli_predict.verbs)
app.add_typer(cli_pack.verbs)
app.add_typer(cli_bench.verbs)
app.add_typer(cli_changes.verbs)
app.add_typer(cli_serve.verbs)
# Without markup: a path or a label may have brackets.
out, err = Console(highlight=False, markup=False), Console(stderr=True, highlight=False, markup=False)

Data = Annotated[str, typer.Argument(metavar="DATA", help="A dataset folder, a file, or the bundled 'debian-related'.")]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
SplitName = Annotated[str, typer.Option("--split", help="Which split of the data.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")]
Plots = Annotated[Path | None, typer.Option("--plots", help="Also draw pictures into this folder (needs matplotlib).")]
Overruled = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Overrule how the model answers, such as alpha=0.3."),
]
KeepSelf = Annotated[bool, typer.Option("--keep-self", help="Keep pairs of a text with itself, and filtered pairs.")]
Table = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="CSV, TSV, Parquet: text=, labels=, id=, weight= name columns; separator="),
]


def main() -> None:
    """Exit codes: 0 done, 2 the user's mistake, 130 interrupted, 1 anything else."""
    debug = "--debug" in sys.argv
    try:
        app([argument for argument in sys.argv[1:] if argument != "--debug"], prog_name="laconic")
    except UserError as error:
        if debug:
            raise
        err.print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()


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
) -> None:
    """Say what is in a data set, and what training on it would cost; or what is in a model."""
    from laconic.inspecting import inspect_data, inspect_model, inspect_packed, plot_data
    from laconic.predict.packed import is_packed

    if (Path(data) / "manifest.json").exists():
        inspection = (inspect_packed if is_packed(Path(data)) else inspect_model)(Path(data), verify=verify)
    else:
        corpus = _read(data, table)
        inspection = inspect_data(corpus, length=length, vectors=vectors)
        _print_notes(corpus)
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
) -> None:
    """Write data of any known form as a dataset folder."""
    from laconic.data.writing import write_folder

    corpus = _read(data, table)
    write_folder(corpus, folder, compress=not plain)
    _print_notes(corpus)
    sizes = ", ".join(f"{name} {len(split):,}" for name, split in corpus.splits.items())
    out.print(f"{folder}: {sizes} texts, {len(corpus.labels):,} labels")


@app.command()
def train(
    data: Data,
    model: Annotated[Path, typer.Option("--out", metavar="MODEL", help="The model folder to make.")],
    method: Annotated[str, typer.Option(help="How to learn; see docs/methods.md.")] = "inceptionxml",
    preset: Annotated[str, typer.Option(help="Settings by name (laptop) or from a TOML file.")] = "",
    encoder: Annotated[str, typer.Option(help="inception, bag or cnn; by default the method's own.")] = "",
    device: Device = "auto",
    validation: Annotated[float | None, typer.Option(help="Share of texts that choose the epoch; 0: none.")] = None,
    refit: Annotated[bool, typer.Option("--refit", help="Then train once more, on all texts.")] = False,
    ensemble: Annotated[int, typer.Option(help="How many models, seed by seed, answer together.", min=1)] = 1,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Then train a re-ranker over it; any setting reranker.KEY does so too.")
    ] = False,
    label_texts: Annotated[
        bool,
        typer.Option("--label-texts", help="Learn from labels' own texts too; any setting extra_texts.KEY does so."),
    ] = False,
    fuse: Annotated[
        bool,
        typer.Option("--fuse", help="Weigh its answers with nearest texts and label texts; so does any fusion.KEY."),
    ] = False,
    keep_run: Annotated[
        bool, typer.Option("--keep-run", help="Keep the run folder, with its log, in the model.")
    ] = False,
    shard_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Tensors in files of at most this size, such as 16MB; 0: in one file.")
    ] = "0",
    half: Annotated[
        bool, typer.Option("--half", help="Write matrices in half precision: half the size, for a model that travels.")
    ] = False,
    packing: Annotated[
        bool, typer.Option("--pack/--no-pack", help="Then pack it into MODEL/packed, for quick answers on a CPU.")
    ] = True,
    keep_texts: KeepTexts = False,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting.")] = None,
    table: Table = None,
) -> None:
    """Learn from texts with labels, and write a model folder. A run that was stopped goes on by the same command."""
    from laconic.checkpoint import RUN, check_free, write_model
    from laconic.config import preset_path, read_settings
    from laconic.costs import bytes_of
    from laconic.display import metrics_table, training_display
    from laconic.methods import config_of, method_called, train_model
    from laconic.predict.pack import check_texts
    from laconic.predict.predictor import scored
    from laconic.run import Run, device_named
    from laconic.tensor_files import Storage

    if keep_texts and not packing:
        raise ConfigError("--keep-texts keeps texts in what is packed, but --no-pack packs nothing; leave one out")
    check_free(model)
    storage = Storage(shard_size=bytes_of(shard_size), half=half)
    method = method_called(method)
    chosen = [f"validation={validation}"] * (validation is not None) + ["refit=true"] * refit
    chosen += [f'encoder="{encoder}"'] * bool(encoder)
    wanted = read_settings(preset_path(method, preset) if preset else None, [*(settings or []), *chosen])
    for group, asked in {"reranker": rerank, "extra_texts": label_texts, "fusion": fuse}.items():
        if asked:
            wanted.setdefault(group, {})
    config = config_of(method, wanted)
    corpus = _read(data, table)
    _print_notes(corpus)
    if keep_texts:
        check_texts(corpus)
    try:
        with training_display(err) as watcher:
            run = Run(model / RUN, watcher=watcher, device=device_named(device))
            trained = train_model(corpus, method, config, run, ensemble)
    except KeyboardInterrupt:
        err.print("stopped; the same command goes on from here")
        raise typer.Exit(130) from None
    trained = replace(trained, facts={**trained.facts, "command": "laconic " + shlex.join(sys.argv[1:])})
    if "test" in corpus.splits:
        trained, evaluation = scored(trained, corpus, "test", device)
        out.print(metrics_table({"": evaluation}, f"{model} on {data}, test: {evaluation.texts:,} texts"))
    write_model(trained, model, pictures=_pictures(trained), keep_run=keep_run, storage=storage)
    size = sum(path.stat().st_size for path in model.iterdir())
    over = {"reranker": ", re-ranked", "extra_texts": ", label texts learnt", "fusion": ", fused with nearest texts"}
    members = "".join(said for group, said in over.items() if group in wanted)
    members += f" ({ensemble} members)" * (ensemble > 1)
    learnt_from = f"{len(corpus.split('train')):,} texts, {len(corpus.labels):,} labels"
    out.print(f"{model}: {method}{members}, {learnt_from}, {size:,} bytes")
    if packing:
        cli_pack.pack_trained(trained, model, corpus, device, keep_texts=keep_texts)


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
) -> None:
    """Score a model on data with known labels; what was packed of it, by its own folder: MODEL/packed."""
    from laconic.bars import progress
    from laconic.config import read_settings
    from laconic.predict.opening import Speed, open_as_it_is

    speed = Speed(beam=beam, exact=exact, threads=threads)
    predictor = open_as_it_is(model, device=device, settings=read_settings(None, settings or []), speed=speed)
    corpus = _read(data, table, keep_self=keep_self)
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
) -> None:
    """Turn a model's dial: precision, and what rare labels get of it, at every place.

    The dial is alpha, a re-ranker's share of a score; beta, the classifier's share in astec; or top, how many clusters
    inceptionxml+ opens. `laconic predict` and `evaluate` answer at one place, by --set (top: answer_top).
    """
    from laconic.display import sweep_table
    from laconic.files import writing
    from laconic.sweeping import TITLES

    found = _open(model, device, settings).sweep(_read(data, table, keep_self=keep_self), split, places or ())
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
) -> None:
    """Two models on the same texts: figures, how sure their difference is, and the texts that tell them apart."""
    from laconic.bars import progress
    from laconic.comparing import Config, Contender, compare
    from laconic.display import comparison_tables, example_table, examples_legend
    from laconic.files import writing

    contenders = Contender.open(one, device), Contender.open(other, device)
    corpus = _read(data, table, keep_self=keep_self)
    with progress(err, "ranking", 2 * len(corpus.split(split))) as bar:
        comparison = compare(
            contenders, corpus, split, Config(n=n, k=k, seed=seed), lambda done: bar.advance(bar.task_ids[0], done)
        )
    for shown in comparison_tables(comparison, f"{data}, {split}: {comparison.texts:,} texts"):
        out.print(shown)
    _print_notes(comparison)
    out.print(examples_legend(comparison))
    for example in comparison.examples:
        out.print(example_table(example, comparison), "")
    if json_file is not None:
        about = {"data": data, "split": split, "seed": seed}
        with writing(json_file) as file:
            file.write(json.dumps(about | comparison.as_json(), indent=2, ensure_ascii=False).encode() + b"\n")


@app.command()
def score(
    predictions: Annotated[Path, typer.Argument(metavar="PREDICTIONS", help="JSON Lines, or a scipy .npz of scores.")],
    data: Data,
    split: SplitName = "test",
    json_file: JsonFile = None,
    plots: Plots = None,
    keep_self: KeepSelf = False,
    propensity: Annotated[str, typer.Option(help="A and B, such as 0.55,1.5; by default from the data's name.")] = "",
    table: Table = None,
) -> None:
    """Score anybody's predictions on data with known labels."""
    from laconic.predictions import score_predictions

    corpus = _read(data, table, keep_self=keep_self)
    evaluation = score_predictions(predictions, corpus, split, _propensity(propensity, corpus))
    about = {"predictions": str(predictions), "data": data, "split": split}
    _show(evaluation, f"{predictions} on {data}, {split}", about, json_file, plots)


def _open(model: Path, device: str, settings: list[str] | None) -> Predictor:
    from laconic.config import read_settings
    from laconic.predict.predictor import Predictor

    return Predictor.open(model, device=device, settings=read_settings(None, settings or []))


def _read(data: str, table: list[str] | None, *, keep_self: bool = False) -> Corpus:
    from laconic.config import configure, read_settings
    from laconic.data.formats.tabular import Columns
    from laconic.data.sources import read

    corpus = read(data, configure(Columns, read_settings(None, table or [])))
    return corpus.keeping_self_pairs() if keep_self else corpus


def _propensity(given: str, corpus: Corpus) -> Any:
    from laconic.data.catalogue import Propensity, propensity_of

    if not given:
        return propensity_of(Path(corpus.source).name)
    try:
        a, b = map(float, given.split(","))
    except ValueError:
        raise ConfigError(f"--propensity must be two numbers, such as 0.55,1.5, but is {given!r}") from None
    return Propensity(a=a, b=b)


def _pictures(model: SavedModel) -> dict[str, Callable[[Path], None]]:
    """What a finished run leaves to look at, where matplotlib is there to draw it."""
    members = enumerate(model.facts["members"]) if "members" in model.facts else [("", model.facts)]
    histories = {
        f"{stage}{number}.png": facts.get(stage, {}).get("epochs")
        for number, facts in members
        for stage in ("training", "reranking")
    }
    if not find_spec("matplotlib"):
        return {}
    from laconic.plots import plot_training

    return {name: partial(plot_training, epochs) for name, epochs in histories.items() if epochs}


def _print_notes(of: Corpus | Comparison) -> None:
    for note in of.notes:
        err.print(Text.assemble(("note: ", "yellow"), note), soft_wrap=True)


def _show(
    evaluation: Evaluation, title: str, about: dict[str, str], json_file: Path | None, plots: Path | None
) -> None:
    from laconic.display import metrics_table
    from laconic.files import writing

    out.print(metrics_table({"": evaluation}, f"{title}: {evaluation.texts:,} texts"))
    if json_file is not None:
        with writing(json_file) as file:
            file.write(json.dumps(about | evaluation.as_json(), indent=2).encode() + b"\n")
    if plots is not None:
        from laconic.plots import plot_contributions

        for name, quantiles in evaluation.quantiles.items():
            path = plots / f"contributions-{name.replace(' ', '-')}.png"
            plot_contributions({title: quantiles.contribution}, quantiles.mean_frequency, path, k=quantiles.k)
            out.print(f"{path}")
