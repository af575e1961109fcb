"""The verb `train`: from labelled texts to a model folder."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from laconic.cli import pack as cli_pack
from laconic.cli.interrupts import RESUME, interruptible
from laconic.cli.options import (
    DATA,
    MACHINE,
    METHOD,
    MODEL,
    OUTPUT,
    ColumnNames,
    Constants,
    Data,
    Device,
    Separator,
    Track,
    complete_method,
    err,
    number_option,
    out,
    print_constants,
    read_corpus,
    settings_option,
    verbosity,
)
from laconic.cli.pack import KeepTexts
from laconic.cli.progress import training_display, waiting
from laconic.cli.ranks import connected, hush_later_ranks, launch
from laconic.cli.recipe import Recipe, asked_recipe, checked_recipe, settled_recipe, usual_folder
from laconic.cli.verb import command, option
from laconic.errors import ConfigError
from laconic.units import counted

if TYPE_CHECKING:
    import torch

    from laconic.data.corpus import Corpus
    from laconic.methods.train import Training
    from laconic.storage.model_folder import SavedModel
    from laconic.storage.tensors import Storage
    from laconic.system.ranks import Ranks
    from laconic.trackers.run import Trackers

verbs = typer.Typer()
log = logging.getLogger(__name__)
_TEST = 0.1  # of a single file's texts


@command(
    verbs,
    group="Train and use",
    example="laconic train shop.csv --out model\n"
    "laconic train shop.csv --column text=product --column labels=kind --budget 5m\n"
    "laconic train debian-related --method inceptionxml --preset laptop --epochs 10 --seed 1",
)
def train(
    data: Data,
    folder: Annotated[
        Path | None,
        option(
            MODEL,
            "--out MODEL",
            "Model folder to write. Default: a folder named after the data and the method, such as shop-auto.",
        ),
    ] = None,
    method: Annotated[
        str,
        option(
            METHOD,
            "--method NAME",
            "Training method; `laconic settings METHOD` describes it. auto chooses by data, machine and --budget.",
            autocompletion=complete_method,
        ),
    ] = "auto",
    budget: Annotated[
        str, option(METHOD, "--budget TIME", "With auto: approximate training time, such as 90s, 5m or 2h.")
    ] = "",
    preset: Annotated[
        str,
        option(METHOD, "--preset NAME", "Preset name (laptop) or TOML file. Without --method, implies inceptionxml."),
    ] = "",
    encoder: Annotated[
        str,
        option(
            METHOD,
            "--encoder NAME",
            "inception, bag or cnn, or the folder of a pre-trained transformer. Default: the method's own.",
        ),
    ] = "",
    epochs: Annotated[int | None, number_option("--epochs N", "Number of epochs.")] = None,
    batch_size: Annotated[int | None, number_option("--batch-size N", "Texts per training step.")] = None,
    learning_rate: Annotated[
        float | None, number_option("--lr --learning-rate RATE", "Learning rate.", least=0)
    ] = None,
    seed: Annotated[int | None, number_option("--seed N", "Seed of all random choices.", least=0)] = None,
    settings: Annotated[list[str] | None, settings_option("the method (`laconic settings METHOD`)")] = None,
    validation: Annotated[
        float | None,
        option(METHOD, "--validation FRACTION", "Fraction of texts held out to pick the best epoch (0 = none)."),
    ] = None,
    refit: Annotated[bool, option(METHOD, "--refit", "After choosing the epoch, train again on all texts.")] = False,
    ensemble: Annotated[
        int, option(METHOD, "--ensemble N", "Number of models, with different seeds, to average.", min=1)
    ] = 1,
    rerank: Annotated[
        bool, option(METHOD, "--rerank", "Also train a re-ranker; implied by any --set reranker.KEY.")
    ] = False,
    label_texts: Annotated[
        bool,
        option(METHOD, "--label-texts", "Also train on the labels' own texts; implied by any --set extra_texts.KEY."),
    ] = False,
    fuse: Annotated[
        bool,
        option(
            METHOD, "--fuse", "Fuse with label trees, nearest texts and label texts; implied by any --set fusion.KEY."
        ),
    ] = False,
    teacher: Annotated[
        Path | None, option(METHOD, "--teacher MODEL", "Also train on the predictions of this model (distillation).")
    ] = None,
    test: Annotated[
        float | None,
        option(
            DATA,
            "--test FRACTION",
            "Fraction of texts to hold out as the test split (0 = none). A single file: 0.1.",
            min=0,
            max=0.9,
        ),
    ] = None,
    columns: ColumnNames = None,
    separator: Separator = None,
    propensity: Constants = "",
    device: Device = "auto",
    gpus: Annotated[
        int | None,
        option(
            MACHINE, "--gpus N", "Spread the labels over N GPUs of this machine; torchrun does so over machines.", min=1
        ),
    ] = None,
    ignore_memory: Annotated[
        bool, option(MACHINE, "--ignore-memory", "Train even if the estimated memory exceeds what is free.")
    ] = False,
    force: Annotated[
        bool, option(MODEL, "--force", "Replace a finished model in MODEL, even one of other data or settings.")
    ] = False,
    keep_run: Annotated[
        bool, option(MODEL, "--keep-run", "Keep the run folder, with its log, in the model folder.")
    ] = False,
    shard_size: Annotated[
        str, option(MODEL, "--shard-size SIZE", "Largest size of a tensor file, such as 16MB (0 = one file).")
    ] = "0",
    half: Annotated[bool, option(MODEL, "--half", "Store weights as float16 (half the size).")] = False,
    packing: Annotated[
        bool, option(MODEL, "--pack/--no-pack", "Also pack the model into MODEL/packed, for fast CPU inference.")
    ] = True,
    keep_texts: KeepTexts = False,
    track: Track = None,
    quiet: Annotated[bool, option(OUTPUT, "--quiet", "Print errors only.")] = False,
    verbose: Annotated[bool, option(OUTPUT, "--verbose", "Also print the settings and the library's log.")] = False,
) -> None:
    """Train a model on labelled texts and write a model folder.

    To resume an interrupted run, run the same command again.
    """
    from laconic.units import bytes_of

    hush_later_ranks()
    if gpus is not None:
        launch(gpus, device)
        return
    if keep_texts and not packing:
        raise ConfigError("--keep-texts stores texts in the packed model, but --no-pack makes none; leave one out")
    own = [f"validation={validation}"] * (validation is not None) + ["refit=true"] * refit
    recipe = asked_recipe(
        method,
        budget=budget,
        preset=preset,
        encoder=encoder,
        settings=[*(settings or []), *own],
        wrappers={"reranker": rerank, "extra_texts": label_texts, "fusion": fuse},
        options={"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "seed": seed},
    )
    largest = bytes_of(shard_size)

    # From here on torch is needed, which takes seconds to import; where it is missing, the error names it.
    import torch  # noqa: F401

    from laconic.storage.model_folder import sole_writer
    from laconic.storage.tensors import Storage
    from laconic.trackers.registry import trackers_named

    job = _Job(
        data=data,
        folder=usual_folder(data, recipe, preset) if folder is None else folder,
        device=device,
        ensemble=ensemble,
        teacher=teacher,
        ignore_memory=ignore_memory,
        force=force,
        keep_run=keep_run,
        storage=Storage(shard_size=largest, half=half),
        packing=packing,
        keep_texts=keep_texts,
    )
    with (
        connected(device) as (ranks, own_device),
        verbosity(quiet=quiet or not ranks.is_first, verbose=verbose and ranks.is_first),
    ):
        if folder is None:
            err.print(f"Model folder: {job.folder} (--out names another)", soft_wrap=True)
        about = {"folder": str(job.folder), "data_name": data, "command": _command()}
        trackers = trackers_named(track if ranks.is_first else None, job.folder.resolve().name, about)
        lock = sole_writer(job.folder) if ranks.is_first else nullcontext()
        with interruptible(RESUME), lock, trackers:
            among = _Among(ranks, own_device, trackers)
            _train(job, recipe, among, lambda: _corpus(data, columns, separator, propensity, test))


class _Job(NamedTuple):
    """A training with its data and folder, besides the method and its settings."""

    data: str
    folder: Path
    device: str
    ensemble: int
    teacher: Path | None
    ignore_memory: bool
    force: bool
    keep_run: bool
    storage: Storage
    packing: bool
    keep_texts: bool


class _Among(NamedTuple):
    """What is connected to a training: its ranks, this one's device, and trackers."""

    ranks: Ranks
    device: torch.device
    trackers: Trackers


def _train(job: _Job, recipe: Recipe, among: _Among, read: Callable[[], Corpus]) -> None:
    """Train, evaluate, write and pack a model; whatever is wrong is reported as early as it can be known."""
    from laconic.export.pack import check_texts
    from laconic.methods.rerun import earlier_choice
    from laconic.storage.model_folder import read_model, write_model
    from laconic.system.files import bytes_in

    recipe = checked_recipe(recipe)
    _check_several(job, recipe, among.ranks)
    corpus = read() if among.ranks.reads else None
    asked = recipe.asked
    if corpus is not None:
        if job.keep_texts:
            check_texts(corpus)
        earlier = earlier_choice(job.folder, asked, finished=not job.force) if asked else None
        recipe = settled_recipe(recipe, corpus, job.device, earlier)
    recipe = _as_first_rank(recipe, job, among.ranks)
    if recipe.why:
        err.print(f"Chosen: {recipe.why}", soft_wrap=True)
    _log_settings(recipe)
    trained = _trained(job, recipe, corpus, asked, among)
    among.ranks.close()
    if not among.ranks.is_first:
        return
    assert corpus is not None, "the first rank has read it"
    trackers = among.trackers
    if trained is None:
        out.print(f"{job.folder}: already trained with this data and these settings; --force trains it anew")
        if job.packing and not _is_packed(job.folder, keep_texts=job.keep_texts):
            model = read_model(job.folder)
            cli_pack.pack_trained(model, job.folder, corpus, job.device, keep_texts=job.keep_texts)()
        return
    trained = _evaluated(trained, corpus, job.device, f"{job.folder} on {job.data}")
    trackers.log_figures(trained.facts)
    reports = list[Callable[[], None]]()

    def add_packed(place: Path) -> None:
        """Pack before the model takes its place: a kill meanwhile leaves the run, and the model that was there."""
        if job.packing:
            packed = cli_pack.pack_trained(
                trained, place, corpus, job.device, keep_texts=job.keep_texts, name=job.folder
            )
            reports.append(packed)

    write_model(
        trained,
        job.folder,
        pictures=_pictures(trained),
        keep_run=job.keep_run,
        storage=job.storage,
        add=add_packed,
    )
    trackers.add_model(job.folder)
    members = f" ({job.ensemble} members)" * (job.ensemble > 1)
    learnt_from = f"{counted(len(corpus.split('train')), 'text')}, {counted(len(corpus.labels), 'label')}"
    out.print(f"{job.folder}: {recipe.words}{members}, {learnt_from}, {counted(bytes_in(job.folder), 'byte')}")
    for report in reports:
        report()


def _check_several(job: _Job, recipe: Recipe, ranks: Ranks) -> None:
    """Refuse, before data is read, what several ranks cannot train together."""
    from laconic.methods.registry import check_shardable

    if ranks.world == 1:
        return
    if job.teacher is not None:
        raise ConfigError("--teacher is for one process; leave it out, or start one process")
    if recipe.config is not None:
        check_shardable(recipe.method, recipe.config, job.ensemble)


def _as_first_rank(recipe: Recipe, job: _Job, ranks: Ranks) -> Recipe:
    """Return the recipe that the first rank has chosen: another machine, or a busier one, might choose another."""
    from laconic.methods.registry import check_shardable, config_of

    ranks.wait()  # reading takes as long as it takes
    if ranks.world == 1:
        return recipe
    method, settings = json.loads(ranks.gather_texts(json.dumps([recipe.method, recipe.settings]))[0])
    config = config_of(method, settings)
    check_shardable(method, config, job.ensemble)
    return recipe._replace(method=method, settings=settings, config=config)


def _corpus(data: str, columns: list[str] | None, separator: str | None, propensity: str, test: float | None) -> Corpus:
    """Read labelled data, and hold out a test split where one is wanted."""
    corpus = read_corpus(data, columns, separator, propensity=propensity)
    print_constants(corpus)
    corpus.check_labelled()
    return _with_test(corpus, test)


def _log_settings(recipe: Recipe) -> None:
    """Log every setting of the method, for --verbose."""
    from laconic.config import settings_of

    log.info("settings of %s: %s", recipe.method, json.dumps(settings_of(recipe.config)))


def _evaluated(model: SavedModel, corpus: Corpus, device: str, title: str) -> SavedModel:
    """Show the metrics of the finished model on held-out texts, and store them in it."""
    from laconic.cli.tables import metrics_legend, metrics_table
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.data.sketch import seen_words
    from laconic.evaluation.evaluate import evaluation_of
    from laconic.predict.predictor import scored
    from laconic.storage.card import VALIDATION

    if "test" in corpus.splits:
        texts = evaluation_texts(corpus, "test")
        with waiting(err, "evaluating"):
            model, evaluation = scored(model, texts, device)
        of = f"{texts}: {counted(evaluation.texts, 'text')}{seen_words(evaluation.seen)}"
    elif kept := model.facts.get("metrics"):
        evaluation = evaluation_of(kept)
        of = f"{kept['split']}: {counted(evaluation.texts, 'text')}, {VALIDATION}"
    else:
        err.print("No texts were held out, so there are no figures; --test 0.1 holds out a test split.")
        return model
    out.print(metrics_table({"": evaluation}, f"{title}, {of}"))
    out.print(metrics_legend(evaluation.metrics))
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
    job: _Job, recipe: Recipe, corpus: Corpus | None, asked: Mapping[str, Any], among: _Among
) -> SavedModel | None:
    """Train and return the model with the command and duration; None if the same model is already there.

    `corpus` is None on ranks that take the data from another one, which return None too. `asked` are the words in which
    a choice of the method was asked for; empty if one was named.
    """
    from laconic.methods.distillation import Config as Distilling
    from laconic.methods.distillation import with_teacher_facts, with_teacher_labels
    from laconic.methods.fit import shared_learning
    from laconic.methods.train import Training
    from laconic.storage.manifest import kind_of
    from laconic.storage.model_folder import RUN, read_model
    from laconic.training.run import Run
    from laconic.training.run_folder import ASKED

    (ranks, device, trackers), folder = among, job.folder / RUN
    teacher = None if job.teacher is None else read_model(job.teacher)
    finished = _Finished(job.folder, job.storage) if not job.force and kind_of(job.folder) else None
    if corpus is not None and teacher is not None:
        corpus = with_teacher_labels(teacher, corpus, device, Distilling())
    began, anew = perf_counter(), not folder.exists()
    with training_display(err, is_time_known=recipe.seconds is not None) as watcher:
        run = Run(
            folder,
            watcher=watcher,
            device=device,
            ignore_memory=job.ignore_memory,
            asked=asked,
            trackers=trackers,
            ranks=ranks,
        )
        training = None if corpus is None else Training.of(corpus, recipe.method, recipe.config, job.ensemble)
        learning = shared_learning(None if training is None else training.learning, ranks)
        is_made = False
        if training is not None and finished is not None and ranks.is_first and not run.unfinished(training.facts):
            is_made = finished.is_made_by(training)
        if any(ranks.any(is_made)):
            return None
        learnt = learning.run(run)
    if training is None:
        return None
    trained = training.model(learnt)
    trained = trained if teacher is None else with_teacher_facts(trained, teacher)
    made = {"command": _command()} | ({ASKED: asked} if asked else {})
    stages = [stage._asdict() for stage in run.stages]
    took = {"seconds": round(perf_counter() - began, 2), "stages": stages} if anew else {}  # not known of a stopped run
    tracked = {"trackers": trackers.ids} if trackers.ids else {}
    return replace(trained, facts={**trained.facts, **made, **took, **tracked})


def _command() -> str:
    return "laconic " + shlex.join(sys.argv[1:])


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
