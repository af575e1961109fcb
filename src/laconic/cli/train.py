"""The verb `train`: from labelled texts to a model folder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

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
    print_constants,
    read_corpus,
    settings_option,
    verbosity,
)
from laconic.cli.pack import KeepTexts
from laconic.cli.ranks import connected, hush_later_ranks, launch
from laconic.cli.recipe import asked_recipe, usual_folder
from laconic.cli.training_job import Among, TrainingJob, carry_out, command_line
from laconic.cli.verb import command, option
from laconic.errors import ConfigError
from laconic.units import counted

if TYPE_CHECKING:
    from laconic.data.corpus import Corpus

verbs = typer.Typer()
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
        str, option(METHOD, "--budget TIME", "With auto: time for the whole command, such as 90s, 5m or 2h.")
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
            "inception, bag or cnn, or the folder of a pre-trained transformer, which joins the default as one more "
            "channel and is the encoder of a method that --method names. Default: the method's own.",
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
    keep_torch: Annotated[
        bool,
        option(
            MODEL,
            "--keep-torch/--no-keep-torch",
            "Keep the weights that resuming, changing and exporting the model take. Without them MODEL is the packed "
            "model alone.",
        ),
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

    began = monotonic()
    hush_later_ranks()
    if gpus is not None:
        launch(gpus, device)
        return
    if keep_texts and not packing:
        raise ConfigError("--keep-texts stores texts in the packed model, but --no-pack makes none; leave one out")
    if not keep_torch:
        _check_packed_alone(
            {"--no-pack": not packing, "--keep-run": keep_run, "--half": half, "--shard-size": shard_size != "0"}
        )
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

    job = TrainingJob(
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
        keep_torch=keep_torch,
        keep_texts=keep_texts,
        began=began,
    )
    with (
        connected(device) as (ranks, own_device),
        verbosity(quiet=quiet or not ranks.is_first, verbose=verbose and ranks.is_first),
    ):
        if folder is None:
            err.print(f"Model folder: {job.folder} (--out names another)", soft_wrap=True)
        about = {"folder": str(job.folder), "data_name": data, "command": command_line()}
        trackers = trackers_named(track if ranks.is_first else None, job.folder.resolve().name, about)
        lock = sole_writer(job.folder) if ranks.is_first else nullcontext()
        with interruptible(RESUME), lock, trackers:
            among = Among(ranks, own_device, trackers)
            carry_out(job, recipe, among, lambda: _corpus(data, columns, separator, propensity, test))


def _check_packed_alone(given: Mapping[str, bool]) -> None:
    """Refuse options of the torch weights, or of no packed model, where the packed model is all that is kept."""
    for name in (name for name, is_given in given.items() if is_given):
        raise ConfigError(f"--no-keep-torch keeps the packed model alone, which {name} is not for; leave one out")


def _corpus(data: str, columns: list[str] | None, separator: str | None, propensity: str, test: float | None) -> Corpus:
    """Read labelled data, and hold out a test split where one is wanted."""
    corpus = read_corpus(data, columns, separator, propensity=propensity)
    print_constants(corpus)
    corpus.check_labelled()
    return _with_test(corpus, test)


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
