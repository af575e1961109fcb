"""The verb `train`: from labelled texts to a model folder."""

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
    model: Annotated[Path, typer.Option("--out", metavar="MODEL", help="Model folder to write.")],
    method: Annotated[
        str, typer.Option(help="Training method (docs/methods.md). auto chooses by the data, the machine and --budget.")
    ] = "auto",
    budget: Annotated[
        str,
        typer.Option("--budget", metavar="TIME", help="With auto: approximate training time, such as 90s, 5m or 2h."),
    ] = "",
    preset: Annotated[
        str,
        typer.Option(help="Preset name (laptop) or TOML file. Without --method, implies inceptionxml."),
    ] = "",
    encoder: Annotated[str, typer.Option(help="inception, bag or cnn. Default: the method's own.")] = "",
    device: Device = "auto",
    ignore_memory: Annotated[
        bool, typer.Option("--ignore-memory", help="Train even if the estimated memory exceeds what is free.")
    ] = False,
    validation: Annotated[
        float | None, typer.Option(help="Fraction of texts held out to pick the best epoch (0 = none).")
    ] = None,
    test: Annotated[
        float | None,
        typer.Option(
            min=0, max=0.9, help="Fraction of texts to hold out as the test split (0 = none). A single file: 0.1."
        ),
    ] = None,
    refit: Annotated[bool, typer.Option("--refit", help="After choosing the epoch, train again on all texts.")] = False,
    ensemble: Annotated[int, typer.Option(help="Number of models, with different seeds, to average.", min=1)] = 1,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Also train a re-ranker; implied by any --set reranker.KEY.")
    ] = False,
    label_texts: Annotated[
        bool,
        typer.Option(
            "--label-texts", help="Also train on the labels' own texts; implied by any --set extra_texts.KEY."
        ),
    ] = False,
    fuse: Annotated[
        bool,
        typer.Option(
            "--fuse", help="Fuse with label trees, nearest texts and label texts; implied by any --set fusion.KEY."
        ),
    ] = False,
    teacher: Annotated[
        Path | None,
        typer.Option("--teacher", metavar="MODEL", help="Also train on the predictions of this model (distillation)."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a finished model in MODEL, even one of other data or settings.")
    ] = False,
    keep_run: Annotated[
        bool, typer.Option("--keep-run", help="Keep the run folder, with its log, in the model folder.")
    ] = False,
    shard_size: Annotated[
        str,
        typer.Option(
            "--shard-size", metavar="SIZE", help="Largest size of a tensor file, such as 16MB (0 = one file)."
        ),
    ] = "0",
    half: Annotated[bool, typer.Option("--half", help="Store weights as float16 (half the size).")] = False,
    packing: Annotated[
        bool, typer.Option("--pack/--no-pack", help="Also pack the model into MODEL/packed, for fast CPU inference.")
    ] = True,
    keep_texts: KeepTexts = False,
    propensity: Constants = "",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override a setting of the method (docs/methods.md); may be repeated."
        ),
    ] = None,
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Train a model on labelled texts and write a model folder.

    To resume an interrupted run, run the same command again.
    """
    from laconic.units import bytes_of

    if keep_texts and not packing:
        raise ConfigError("--keep-texts keeps texts in what is packed, but --no-pack packs nothing; leave one out")
    own = [f"validation={validation}"] * (validation is not None) + ["refit=true"] * refit
    own += [f'encoder="{encoder}"'] * bool(encoder)
    over = {"reranker": rerank, "extra_texts": label_texts, "fusion": fuse}
    recipe = _asked(method, budget, preset or None, bool(encoder), [*(settings or []), *own], over)
    largest = bytes_of(shard_size)

    # From here on torch is needed, which takes seconds to import; where it is missing, the error names it.
    import torch  # noqa: F401

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
    teacher_model = None if teacher is None else read_model(teacher)
    finished = _Finished(model, storage) if not force and kind_of(model) else None
    trained = _trained(
        corpus, recipe, model / RUN, device, ensemble, teacher_model, finished, ignore_memory=ignore_memory
    )
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
    """Show the metrics of the finished model on held-out texts, and store them in it."""
    from laconic.cli.tables import metrics_table
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.data.sketch import seen_words
    from laconic.evaluation.evaluate import evaluation_of
    from laconic.predict.predictor import scored
    from laconic.storage.card import VALIDATION

    if "test" in corpus.splits:
        texts = evaluation_texts(corpus, "test")
        model, evaluation = scored(model, texts, device)
        of = f"{texts}: {counted(evaluation.texts, 'text')}{seen_words(evaluation.seen)}"
    elif kept := model.facts.get("metrics"):
        evaluation = evaluation_of(kept)
        of = f"{kept['split']}: {counted(evaluation.texts, 'text')}, {VALIDATION}"
    else:
        err.print("No texts were held out, so there are no figures; --test 0.1 holds out a test split.")
        return model
    out.print(metrics_table({"": evaluation}, f"{title}, {of}"))
    return model


def _with_test(corpus: Corpus, fraction: float | None) -> Corpus:
    """Cut a test split off a single file, or off any data if asked to, and report it."""
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
    whole = counted(len(train) + len(test), "text")
    message = f"Held out {len(test):,} of {whole} as the test split (--test 0 trains on all)."
    only = int(((label_counts(train.labels) == 0) & (label_counts(test.labels) > 0)).sum())
    alone = f" {counted(only, 'label occurs', 'labels occur')} in them alone." * (only > 0)
    err.print(message + alone, soft_wrap=True)
    return parted


class _Recipe(NamedTuple):
    """The method to train, with its settings."""

    method: str
    settings: Settings
    config: Any  # None: the method is still to be chosen
    budget: float | None = None  # seconds, for that


def _asked(
    method: str, budget: str, preset: str | None, has_encoder: bool, settings: list[str], over: Mapping[str, bool]
) -> _Recipe:
    """Return the requested recipe; report a wrong name before anything is read or imported."""
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
    """Add the config of a named method, so that a wrong setting is reported before data is read."""
    from laconic.config import AUTO
    from laconic.methods.registry import config_of

    return recipe if recipe.method == AUTO else recipe._replace(config=config_of(recipe.method, recipe.settings))


def _settled(recipe: _Recipe, corpus: Corpus, device: str) -> _Recipe:
    """Choose a method by the data, the machine and the time budget where none was named."""
    from laconic.methods.auto import choose, config_for, describe_situation
    from laconic.training.run import device_named

    if recipe.config is not None:
        return recipe
    choice = choose(describe_situation(corpus, gpu=device_named(device).type == "cuda", budget=recipe.budget))
    err.print(f"{choice.method}: {choice.why}", soft_wrap=True)
    return _Recipe(choice.method, *config_for(choice, recipe.settings))


class _Finished(NamedTuple):
    """A finished model that must not be overwritten by accident."""

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


def _trained(
    corpus: Corpus,
    recipe: _Recipe,
    folder: Path,
    device: str,
    ensemble: int,
    teacher_model: SavedModel | None,
    finished: _Finished | None,
    *,
    ignore_memory: bool,
) -> SavedModel | None:
    """Train and return the model with the command and duration; None if the same model is already there."""
    from laconic.cli.tables import training_display
    from laconic.methods.distillation import Config as Distilling
    from laconic.methods.distillation import with_teacher_facts, with_teacher_labels
    from laconic.methods.train import Training
    from laconic.training.run import Run, device_named

    labelled = (
        corpus
        if teacher_model is None
        else with_teacher_labels(teacher_model, corpus, device_named(device), Distilling())
    )
    began, anew = perf_counter(), not folder.exists()
    try:
        with training_display(err) as watcher:
            run = Run(folder, watcher=watcher, device=device_named(device), ignore_memory=ignore_memory)
            training = Training.of(labelled, recipe.method, recipe.config, ensemble)
            if finished and not run.unfinished(training.facts) and finished.is_made_by(training):
                return None
            trained = training.run(run)
    except KeyboardInterrupt:
        err.print("interrupted; run the same command again to resume")
        raise typer.Exit(130) from None
    trained = trained if teacher_model is None else with_teacher_facts(trained, teacher_model)
    made = {"command": "laconic " + shlex.join(sys.argv[1:])}
    took = {"seconds": round(perf_counter() - began, 2)} if anew else {}  # how long a stopped run took is not known
    return replace(trained, facts={**trained.facts, **made, **took})


def _pictures(model: SavedModel) -> dict[str, Callable[[Path], None]]:
    """Return the pictures of a finished run by name; none without matplotlib."""
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
