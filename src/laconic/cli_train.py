"""The command line's verb train: from texts with labels to a model folder. Nothing is computed here."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from laconic import cli_pack
from laconic.cli_pack import KeepTexts
from laconic.cli_shared import Data, Device, Separator, Table, err, out, print_notes, read_corpus
from laconic.errors import ConfigError
from laconic.plurals import counted

if TYPE_CHECKING:
    from laconic.checkpoint import SavedModel
    from laconic.config import Settings
    from laconic.data.corpus import Corpus

verbs = typer.Typer()


@verbs.command()
def train(
    data: Data,
    model: Annotated[Path, typer.Option("--out", metavar="MODEL", help="The model folder to make.")],
    method: Annotated[
        str, typer.Option(help="How to learn (docs/methods.md); auto: what suits the data, the machine and --budget.")
    ] = "auto",
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="About how long training may take, such as 90s, 5m or 2h, for auto.")
    ] = "",
    preset: Annotated[
        str,
        typer.Option(help="Settings by name (laptop) or from a TOML file; of inceptionxml, if no method is named."),
    ] = "",
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
        typer.Option(
            "--fuse", help="Weigh its answers with label trees, nearest texts and label texts; so does any fusion.KEY."
        ),
    ] = False,
    teacher: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Learn from this model's answers too: a small model from a combined one."),
    ] = None,
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
    separator: Separator = None,
) -> None:
    """Learn from texts with labels, and write a model folder. A run that was stopped goes on by the same command."""
    from laconic.costs import bytes_of

    if keep_texts and not packing:
        raise ConfigError("--keep-texts keeps texts in what is packed, but --no-pack packs nothing; leave one out")
    own = [f"validation={validation}"] * (validation is not None) + ["refit=true"] * refit
    own += [f'encoder="{encoder}"'] * bool(encoder)
    over = {"reranker": rerank, "extra_texts": label_texts, "fusion": fuse}
    recipe = _asked(method, budget, preset or None, bool(encoder), [*(settings or []), *own], over)
    largest = bytes_of(shard_size)

    # From here on torch is needed, which takes seconds to import.
    from laconic.checkpoint import RUN, check_free, read_model, write_model
    from laconic.display import metrics_table
    from laconic.predict.pack import check_texts
    from laconic.predict.predictor import scored
    from laconic.tensor_files import Storage

    check_free(model)
    storage = Storage(shard_size=largest, half=half)
    recipe = _checked(recipe)
    corpus = read_corpus(data, table, separator)
    print_notes(corpus)
    corpus.check_labelled()
    if keep_texts:
        check_texts(corpus)
    recipe = _settled(recipe, corpus, device)
    elder = None if teacher is None else read_model(teacher)
    trained = _taught(corpus, recipe, model / RUN, device, ensemble, elder)
    if "test" in corpus.splits:
        trained, evaluation = scored(trained, corpus, "test", device)
        out.print(metrics_table({"": evaluation}, f"{model} on {data}, test: {counted(evaluation.texts, 'text')}"))
    write_model(trained, model, pictures=_pictures(trained), keep_run=keep_run, storage=storage)
    size = sum(path.stat().st_size for path in model.iterdir())
    said = {"reranker": ", re-ranked", "extra_texts": ", label texts learnt", "fusion": ", fused"}
    members = "".join(more for group, more in said.items() if group in recipe.settings)
    members += f" ({ensemble} members)" * (ensemble > 1)
    learnt_from = f"{counted(len(corpus.split('train')), 'text')}, {counted(len(corpus.labels), 'label')}"
    out.print(f"{model}: {recipe.method}{members}, {learnt_from}, {counted(size, 'byte')}")
    if packing:
        cli_pack.pack_trained(trained, model, corpus, device, keep_texts=keep_texts)


class _Recipe(NamedTuple):
    method: str
    settings: Settings
    config: Any  # None: the method is still to be chosen
    budget: float | None = None  # seconds, for that


def _asked(
    method: str, budget: str, preset: str | None, has_encoder: bool, settings: list[str], over: Mapping[str, bool]
) -> _Recipe:
    """Return what is asked for; a wrong name is reported at once, before anything is read or imported."""
    from laconic.config import AUTO, check_method, method_called, preset_path, read_settings
    from laconic.costs import seconds_of

    method = method_called(method)
    named = "" if method == AUTO else f"--method {method} names one"
    if not named and (preset or has_encoder):
        method, named = "inceptionxml", f"--{'preset' if preset else 'encoder'} is of inceptionxml"
    if named:
        check_method(method)
    if named and budget:
        raise ConfigError(f"--budget chooses a method, but {named}; leave one of them out")
    wanted = read_settings(preset_path(method, preset) if preset else None, settings)
    for group, asked in over.items():
        if asked:
            wanted.setdefault(group, {})
    return _Recipe(method, wanted, None, seconds_of(budget) if budget else None)


def _checked(recipe: _Recipe) -> _Recipe:
    """With the config of a method that was named, so that a wrong setting is reported before data is read."""
    from laconic.config import AUTO
    from laconic.methods import config_of

    return recipe if recipe.method == AUTO else recipe._replace(config=config_of(recipe.method, recipe.settings))


def _settled(recipe: _Recipe, corpus: Corpus, device: str) -> _Recipe:
    """With a method, which the data, the machine and the time choose where none was named."""
    from laconic.choosing import chosen, config_for, situation
    from laconic.run import device_named

    if recipe.config is not None:
        return recipe
    choice = chosen(situation(corpus, gpu=device_named(device).type == "cuda", budget=recipe.budget))
    err.print(f"{choice.method}: {choice.why}", soft_wrap=True)
    return _Recipe(choice.method, *config_for(choice, recipe.settings))


def _taught(
    corpus: Corpus, recipe: _Recipe, folder: Path, device: str, ensemble: int, elder: SavedModel | None
) -> SavedModel:
    """The finished model, with how it was made and how long that took."""
    from laconic.display import training_display
    from laconic.distilling import Config as Distilling
    from laconic.distilling import as_counted, taught_by
    from laconic.methods import train_model
    from laconic.run import Run, device_named

    taught = corpus if elder is None else taught_by(elder, corpus, device_named(device), Distilling())
    began, anew = perf_counter(), not folder.exists()
    try:
        with training_display(err) as watcher:
            run = Run(folder, watcher=watcher, device=device_named(device))
            trained = train_model(taught, recipe.method, recipe.config, run, ensemble)
    except KeyboardInterrupt:
        err.print("stopped; the same command goes on from here")
        raise typer.Exit(130) from None
    trained = trained if elder is None else as_counted(trained, elder)
    made = {"command": "laconic " + shlex.join(sys.argv[1:])}
    took = {"seconds": round(perf_counter() - began, 2)} if anew else {}  # how long a stopped run took is not known
    return replace(trained, facts={**trained.facts, **made, **took})


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
