"""The command line's verb train: from texts with labels to a model folder. Nothing is computed here."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from laconic.cli import pack as cli_pack
from laconic.cli.options import (
    Constants,
    Data,
    Device,
    Separator,
    Table,
    err,
    out,
    print_constants,
    print_notes,
    read_corpus,
)
from laconic.cli.pack import KeepTexts
from laconic.errors import ConfigError
from laconic.units import counted

if TYPE_CHECKING:
    from laconic.config import Settings
    from laconic.data.corpus import Corpus
    from laconic.methods.train import Training
    from laconic.storage.model_folder import SavedModel
    from laconic.storage.tensors import Storage

verbs = typer.Typer()
_TEST = 0.1  # of a single file's texts


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
    ignore_memory: Annotated[
        bool, typer.Option("--ignore-memory", help="Train even if the estimated memory exceeds what is free.")
    ] = False,
    validation: Annotated[float | None, typer.Option(help="Share of texts that choose the epoch; 0: none.")] = None,
    test: Annotated[
        float | None,
        typer.Option(
            min=0, max=0.9, help="Fraction of texts to hold out as the test split (0 = none). A single file: 0.1."
        ),
    ] = None,
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
    force: Annotated[
        bool, typer.Option("--force", help="Replace a finished model in MODEL, even by one that is trained otherwise.")
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
    propensity: Constants = "",
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting.")] = None,
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Learn from texts with labels, and write a model folder. A run that was stopped goes on by the same command."""
    from laconic.units import bytes_of

    if keep_texts and not packing:
        raise ConfigError("--keep-texts keeps texts in what is packed, but --no-pack packs nothing; leave one out")
    own = [f"validation={validation}"] * (validation is not None) + ["refit=true"] * refit
    own += [f'encoder="{encoder}"'] * bool(encoder)
    over = {"reranker": rerank, "extra_texts": label_texts, "fusion": fuse}
    recipe = _asked(method, budget, preset or None, bool(encoder), [*(settings or []), *own], over)
    largest = bytes_of(shard_size)

    # From here on torch is needed, which takes seconds to import.
    from laconic.export.pack import check_texts
    from laconic.storage.manifest import kind_of
    from laconic.storage.model_folder import RUN, check_free, read_model, write_model
    from laconic.storage.tensors import Storage
    from laconic.system.files import bytes_in

    check_free(model)
    storage = Storage(shard_size=largest, half=half)
    recipe = _checked(recipe)
    corpus = read_corpus(data, table, separator, propensity=propensity)
    print_notes(corpus)
    print_constants(corpus)
    corpus.check_labelled()
    corpus = _with_test(corpus, test)
    if keep_texts:
        check_texts(corpus)
    recipe = _settled(recipe, corpus, device)
    elder = None if teacher is None else read_model(teacher)
    finished = _Finished(model, storage) if not force and kind_of(model) else None
    trained = _taught(corpus, recipe, model / RUN, device, ensemble, elder, finished, ignore_memory=ignore_memory)
    if trained is None:
        out.print(f"{model}: already trained with this data and these settings; --force trains it anew")
        if packing and not _is_packed(model, keep_texts=keep_texts):
            cli_pack.pack_trained(read_model(model), model, corpus, device, keep_texts=keep_texts)
        return
    trained = _evaluated(trained, corpus, device, f"{model} on {data}")
    write_model(trained, model, pictures=_pictures(trained), keep_run=keep_run, storage=storage)
    said = {"reranker": ", re-ranked", "extra_texts": ", label texts learnt", "fusion": ", fused"}
    members = "".join(more for group, more in said.items() if group in recipe.settings)
    members += f" ({ensemble} members)" * (ensemble > 1)
    learnt_from = f"{counted(len(corpus.split('train')), 'text')}, {counted(len(corpus.labels), 'label')}"
    out.print(f"{model}: {recipe.method}{members}, {learnt_from}, {counted(bytes_in(model), 'byte')}")
    if packing:
        cli_pack.pack_trained(trained, model, corpus, device, keep_texts=keep_texts)


def _evaluated(model: SavedModel, corpus: Corpus, device: str, title: str) -> SavedModel:
    """Show the finished model's figures on held-out texts, and keep them in it."""
    from laconic.cli.tables import metrics_table
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.data.sketch import seen_words
    from laconic.evaluation.evaluate import evaluation_of
    from laconic.predict.predictor import scored
    from laconic.storage.card import VALIDATION

    if "test" in corpus.splits:
        texts = evaluation_texts(corpus, "test")
        model, evaluation = scored(model, texts, device)
        of = f"{texts}: {evaluation.texts:,} texts{seen_words(evaluation.seen)}"
    elif kept := model.facts.get("metrics"):
        evaluation = evaluation_of(kept)
        of = f"{kept['split']} texts: {evaluation.texts:,} texts, {VALIDATION}"
    else:
        err.print("No texts were held out, so there are no figures; --test 0.1 holds out a test split.")
        return model
    out.print(metrics_table({"": evaluation}, f"{title}, {of}"))
    return model


def _with_test(corpus: Corpus, fraction: float | None) -> Corpus:
    """Cut a test split off a single file, or off any data where that was asked for, and say so."""
    from laconic.data.dataset import label_counts
    from laconic.data.evaluation_texts import cut_test

    if fraction is None:
        fraction = _TEST if list(corpus.splits) == ["all"] else 0
    if not fraction:
        return corpus
    parted = cut_test(corpus, fraction)
    if parted.holdout is None:
        err.print("There are too few different texts to hold out a test split.")
        return corpus
    train, test = (parted.split(name) for name in ("train", "test"))
    told = f"Held out {len(test):,} of {len(train) + len(test):,} texts as the test split (--test 0 trains on all)."
    only = int(((label_counts(train.labels) == 0) & (label_counts(test.labels) > 0)).sum())
    err.print(told + f" {only:,} labels occur in them alone." * (only > 0), soft_wrap=True)
    return parted


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
    from laconic.units import seconds_of

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
    from laconic.methods.registry import config_of

    return recipe if recipe.method == AUTO else recipe._replace(config=config_of(recipe.method, recipe.settings))


def _settled(recipe: _Recipe, corpus: Corpus, device: str) -> _Recipe:
    """With a method, which the data, the machine and the time choose where none was named."""
    from laconic.methods.auto import choose, config_for, describe_situation
    from laconic.training.run import device_named

    if recipe.config is not None:
        return recipe
    choice = choose(describe_situation(corpus, gpu=device_named(device).type == "cuda", budget=recipe.budget))
    err.print(f"{choice.method}: {choice.why}", soft_wrap=True)
    return _Recipe(choice.method, *config_for(choice, recipe.settings))


class _Finished(NamedTuple):
    """A finished model that must not be lost."""

    folder: Path
    storage: Storage

    def is_made_by(self, training: Training) -> bool:
        """Return whether this training would make that model once more; refuse to make another one in its place."""
        from laconic.methods.rerun import what_differs

        now = {"storage": asdict(self.storage), "propensity": asdict(training.corpus.constants())}
        if difference := what_differs(self.folder, training.facts, now):
            raise ConfigError(
                f"{self.folder}: there is a finished model, but {difference}; --force replaces it, or choose another "
                "name (--out)"
            )
        return True


def _is_packed(model: Path, *, keep_texts: bool) -> bool:
    """Return whether a model was packed, and with its training texts if they are to be kept."""
    from laconic.predict.load import packed_of

    packed = packed_of(model)
    return packed is not None and (packed.num_kept > 0 or not keep_texts)


def _taught(
    corpus: Corpus,
    recipe: _Recipe,
    folder: Path,
    device: str,
    ensemble: int,
    elder: SavedModel | None,
    finished: _Finished | None,
    *,
    ignore_memory: bool,
) -> SavedModel | None:
    """The finished model, with how it was made and how long that took; None: that is what is there already."""
    from laconic.cli.tables import training_display
    from laconic.methods.distillation import Config as Distilling
    from laconic.methods.distillation import with_teacher_facts, with_teacher_labels
    from laconic.methods.train import Training
    from laconic.training.run import Run, device_named

    taught = corpus if elder is None else with_teacher_labels(elder, corpus, device_named(device), Distilling())
    began, anew = perf_counter(), not folder.exists()
    try:
        with training_display(err) as watcher:
            run = Run(folder, watcher=watcher, device=device_named(device), ignore_memory=ignore_memory)
            training = Training.of(taught, recipe.method, recipe.config, ensemble)
            if finished and not run.unfinished(training.facts) and finished.is_made_by(training):
                return None
            trained = training.run(run)
    except KeyboardInterrupt:
        err.print("stopped; the same command goes on from here")
        raise typer.Exit(130) from None
    trained = trained if elder is None else with_teacher_facts(trained, elder)
    made = {"command": "laconic " + shlex.join(sys.argv[1:])}
    took = {"seconds": round(perf_counter() - began, 2)} if anew else {}  # how long a stopped run took is not known
    return replace(trained, facts={**trained.facts, **made, **took})


def _pictures(model: SavedModel) -> dict[str, Callable[[Path], None]]:
    """What a finished run leaves to look at, where matplotlib is there to draw it."""
    if not find_spec("matplotlib"):
        return {}
    from laconic.analysis.plots import plot_training
    from laconic.storage.card import stages_of

    shared = model.facts.get("training") or {}  # by members, if anything
    pictures = {"training.png": ("Training", model.facts)}
    if members := model.facts.get("members"):
        pictures = {
            f"training{number}.png": (
                f"Training of member {number + 1}, seed {member.get('seed')}",
                {**member, "training": {**shared, **(member.get("training") or {})}},
            )
            for number, member in enumerate(members)
        }
    return {
        name: partial(plot_training, stages, title=title)
        for name, (title, facts) in pictures.items()
        if (stages := stages_of(facts))
    }
