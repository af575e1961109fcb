"""The verb `threshold`: choose the score from which labels are used, and store it in the model folder."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Annotated

import typer

from laconic.cli.interrupts import UNCHANGED, interruptible
from laconic.cli.options import (
    DATA,
    METHOD,
    MODEL,
    ColumnNames,
    Device,
    ModelFolder,
    Separator,
    err,
    out,
    print_raw_scores,
    read_corpus,
)
from laconic.cli.verb import argument, command, option
from laconic.errors import ConfigError
from laconic.units import counted

if TYPE_CHECKING:
    from laconic.evaluation.thresholds import Aim, Threshold
    from laconic.packed.folder import PackedModel

verbs = typer.Typer()


@command(
    verbs,
    group="Change",
    example="laconic threshold model held-out.csv --precision 0.9",
)
def threshold(
    model: ModelFolder,
    data: Annotated[str, argument("DATA", "Texts with labels that the model was not trained on.")],
    precision: Annotated[
        float | None,
        option(METHOD, "--precision P", "Choose the lowest score from which labels are right so often, such as 0.9."),
    ] = None,
    f1: Annotated[bool, option(METHOD, "--f1", "Choose the score with the best micro F1; the default.")] = False,
    per_label: Annotated[
        bool, option(METHOD, "--per-label", "Also choose a score for each label that is true of 50 texts or more.")
    ] = False,
    k: Annotated[int, option(METHOD, "-k K", "Labels per text among which to choose.", min=1)] = 20,
    split: Annotated[
        str, option(DATA, "--split NAME", "Split to choose on. Default: valid where there is one, or test.")
    ] = "",
    columns: ColumnNames = None,
    separator: Separator = None,
    device: Device = "auto",
    to: Annotated[Path | None, option(MODEL, "--out MODEL", "Write the model here and keep MODEL unchanged.")] = None,
) -> None:
    """Choose the score from which labels are used, on labelled texts, and store it in the model.

    `laconic predict --min-score stored`, "min_score": "stored" of the service and min_score="stored" in Python use it.
    """
    from laconic.cli.progress import progress
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.predict.load import open_model
    from laconic.storage.model_folder import sole_writer

    aim = _aim(precision, f1=f1, per_label=per_label)
    with interruptible(UNCHANGED), sole_writer(to or model):
        predictor = open_model(model, device=device)
        corpus = read_corpus(data, columns, separator, model=model)
        wanted = split or ("valid" if "valid" in corpus.splits else "test")
        texts = evaluation_texts(corpus, wanted, [predictor.trained_on])
        with progress(err, "ranking", len(texts.texts)) as bar:
            found = predictor.choose_threshold(
                texts.corpus, texts.split, aim, k, lambda done: bar.advance(bar.task_ids[0], done)
            )
        _store(found, model, to or model)
    out.print(f"{to or model}: {_words(found)}", soft_wrap=True)
    print_raw_scores(predictor.facts, "the threshold is for", model)


def _aim(precision: float | None, *, f1: bool, per_label: bool) -> Aim:
    from laconic.evaluation.thresholds import Aim

    if f1 and precision is not None:
        raise ConfigError("--precision and --f1 exclude each other; leave one of them out")
    aim = Aim(precision, per_label)
    aim.check()
    return aim


def _store(found: Threshold, model: Path, folder: Path) -> None:
    """Write the model with its threshold; the packed version gets it too, and is otherwise as it was."""
    from laconic.packed.folder import is_packed, of_version, open_packed, write_packed
    from laconic.predict.load import packed_of
    from laconic.storage.facts import with_threshold
    from laconic.storage.manifest import PACKED, version_of
    from laconic.storage.model_folder import read_model, write_model

    if is_packed(model):
        alone = open_packed(model)
        _write_alone(replace(alone, facts=with_threshold(alone.facts, found.as_facts())), model, folder)
        return
    old, packed = read_model(model), packed_of(model)
    changed = replace(old, facts=with_threshold(old.facts, found.as_facts()))

    def add_packed(partial: Path) -> None:
        if packed is not None:
            own = replace(packed, facts=with_threshold(packed.facts, found.as_facts()))
            write_packed(of_version(own, version_of(partial)), partial / PACKED)

    write_model(changed, folder, add=add_packed)


def _write_alone(packed: PackedModel, model: Path, folder: Path) -> None:
    """Write a packed model that is alone in its folder, with its model card and pictures if it has them."""
    from laconic.export.pack import write_alone
    from laconic.packed.folder import write_packed
    from laconic.storage.model_folder import CARD

    if not (model / CARD).exists():
        write_packed(packed, folder)
        return
    pictures = {path.name: partial(copyfile, path) for path in model.glob("*.png")}
    write_alone(packed, folder, facts=packed.facts, pictures=pictures)


def _words(found: Threshold) -> str:
    own = f", {counted(len(found.labels), 'label has', 'labels have')} thresholds of their own" if found.labels else ""
    figures = f"precision {found.precision:.1f} %, recall {found.recall:.1f} %"
    of = f"among the first {counted(found.k, 'label')} of {counted(found.texts, 'text')}"
    return f"The threshold for {found.aim} is {found.score:.4g}{own}: {figures} {of}."
