"""The verbs that change a finished model: `add-labels`, `remove-labels`, `update` and `calibrate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from laconic.cli.interrupts import RESUME, UNCHANGED, interruptible
from laconic.cli.options import (
    DATA,
    MODEL,
    ColumnNames,
    Device,
    ModelFolder,
    Separator,
    Track,
    err,
    number_option,
    out,
    print_note,
    read_corpus,
    settings_option,
)
from laconic.cli.pack import pack_trained
from laconic.cli.verb import argument, command, option
from laconic.errors import DataError
from laconic.units import counted, plural

if TYPE_CHECKING:
    from laconic.data.corpus import Labels
    from laconic.storage.model_folder import SavedModel

verbs = typer.Typer()
_SHOWN = 10  # labels that were not added, each with its reason
_GROUP = "Change"

Out = Annotated[Path | None, option(MODEL, "--out MODEL", "Write the changed model here and keep MODEL unchanged.")]
Packing = Annotated[bool, option(MODEL, "--pack/--no-pack", "Pack the changed model, if MODEL has a packed version.")]


@command(verbs, "add-labels", group=_GROUP, example="laconic add-labels model labels.jsonl --examples new.csv")
def add(
    model: ModelFolder,
    labels: Annotated[Path, argument("LABELS", "labels.jsonl or labels.csv, as in a dataset folder.")],
    examples: Annotated[
        str, option(DATA, "--examples DATA", "Labelled example texts, in any format that train reads.")
    ] = "",
    columns: ColumnNames = None,
    separator: Separator = None,
    to: Out = None,
    packing: Packing = True,
) -> None:
    """Add labels to a model from their own texts or a few examples, without training.

    Labels that cannot be added are reported, and the others are added.
    """
    from laconic.storage.model_folder import read_model, sole_writer
    from laconic.update.model import add_labels, usable_labels

    with interruptible(UNCHANGED), sole_writer(to or model):
        listed = _listed(labels)
        texts = read_corpus(examples, columns, separator, model=model) if examples else None
        old = read_model(model)
        new, refused = usable_labels(old, listed.labels, texts)
        refusals = [*listed.refusals, *(f"{listed.places[name]}: {name!r}: {why}" for name, why in refused.items())]
        if not len(new):
            raise DataError(
                f"no label can be added: {refusals[0] if refusals else f'{labels} lists none'}{_more(refusals)}"
            )
        changed = add_labels(old, new, texts)
        written = _write(old, changed, model, to, packing=packing)
    for refusal in refusals[:_SHOWN]:
        print_note(f"not added: {refusal}")
    if refusals[_SHOWN:]:
        print_note(f"{counted(len(refusals) - _SHOWN, 'more label was', 'more labels were')} not added")
    change = changed.facts["changes"][-1]
    known = f"{change['unknown_words']:,} of the {counted(change['words'], 'word')} in their texts"
    known += f" {plural(change['unknown_words'], 'is', 'are')} unknown to the model."
    by = f" from {counted(change['examples'], 'example')}" if examples else ""
    added = f"Added {counted(change['labels'], 'label')}{by} (now {len(changed.labels):,})"
    out.print(f"{to or model}: {added}. {known}", soft_wrap=True)
    _print_packing(written)


class _Listed(NamedTuple):
    """The labels of a file, and what could not be used of it."""

    labels: Labels
    places: dict[str, str]  # of each label in its file
    refusals: list[str]  # what is wrong with the rest, each with its place


def _listed(path: Path) -> _Listed:
    from laconic.data.attributes import read_attributes
    from laconic.data.corpus import Labels
    from laconic.data.formats.subjects import label_rows

    places, texts, refusals = dict[str, str](), list[str](), list[str]()
    given = dict[int, tuple[str, Mapping[str, Any]]]()
    for row in label_rows(path):
        if not row.name.strip():
            refusals.append(f"{row.place}: {row.name!r}: not a name")
        elif row.name in places:
            refusals.append(f"{row.place}: {row.name!r}: already listed at {places[row.name]}")
        else:
            given[len(places)] = row.place, row.attributes
            places[row.name] = row.place
            texts.append(row.text or "")
    attributes, notes = read_attributes(given, len(places))
    for note in notes:
        print_note(note)
    labels = Labels(names=list(places), texts=texts if any(texts) else None, attributes=attributes)
    return _Listed(labels, places, refusals)


def _more(refusals: Sequence[str]) -> str:
    return f" (and {len(refusals) - 1:,} more)" if len(refusals) > 1 else ""


@command(verbs, "remove-labels", group=_GROUP, example="laconic remove-labels model --label old-name")
def remove(
    model: ModelFolder,
    names: Annotated[Path | None, argument("FILE", "File of label names, one per line.")] = None,
    label: Annotated[list[str] | None, option(DATA, "--label NAME", "Label name; may be repeated.")] = None,
    to: Out = None,
    packing: Packing = True,
) -> None:
    """Remove labels from a model; the others are not changed."""
    from laconic.data.formats.lines import lines
    from laconic.storage.model_folder import read_model, sole_writer
    from laconic.update.model import remove_labels

    with interruptible(UNCHANGED), sole_writer(to or model):
        listed = [] if names is None else [line for _, line in lines(names, may_be_empty=True) if line]
        old = read_model(model)
        changed = remove_labels(old, dict.fromkeys([*listed, *(label or [])]))
        written = _write(old, changed, model, to, packing=packing)
    gone = changed.facts["changes"][-1]["labels"]
    out.print(f"{to or model}: Removed {counted(gone, 'label')} (now {len(changed.labels):,}).", soft_wrap=True)
    _print_packing(written)


@command(verbs, "update", group=_GROUP, example="laconic update model new.csv --epochs 3")
def update_model(
    model: ModelFolder,
    data: Annotated[str, argument("DATA", "New labelled texts, in any format that train reads.")],
    columns: ColumnNames = None,
    separator: Separator = None,
    epochs: Annotated[int | None, number_option("--epochs N", "Maximum number of epochs.")] = None,
    settings: Annotated[
        list[str] | None,
        settings_option("the update (learning_rate, batch_size, hard, random, validation, seed), such as validation=0"),
    ] = None,
    device: Device = "auto",
    to: Out = None,
    packing: Packing = True,
    track: Track = None,
) -> None:
    """Fine-tune a model on new texts with old and new labels.

    To resume an interrupted run, run the same command again.
    """
    from laconic.cli.progress import training_display
    from laconic.config import configure, read_settings
    from laconic.storage.model_folder import RUN, read_model, sole_writer
    from laconic.trackers.registry import trackers_named
    from laconic.training.run import Run, device_named
    from laconic.update.model import update
    from laconic.update.rankers import Config

    chosen = [f"epochs={epochs}"] * (epochs is not None)
    config = configure(Config, read_settings(None, [*(settings or []), *chosen]))
    about = {"folder": str(to or model), "updated": str(model), "data_name": data}
    trackers = trackers_named(track, f"{(to or model).resolve().name} updated", about)
    with interruptible(RESUME), sole_writer(to or model), trackers:
        corpus = read_corpus(data, columns, separator, model=model)
        with training_display(err) as watcher:
            run = Run((to or model) / RUN, watcher=watcher, device=device_named(device), trackers=trackers)
            old = read_model(model)
            changed = update(old, corpus, config, run)
        written = _write(old, changed, model, to, device, packing=packing)
        trackers.add_model(to or model)
    change = changed.facts["changes"][-1]
    added = f"{counted(change['labels'], 'label')} added (now {len(changed.labels):,})"
    words = counted(change["new_words"], "new word")
    if change["unknown_words"]:
        words += f"; {change['unknown_words']:,} of the texts' {counted(change['words'], 'word')} remain unknown"
    scores = f"; {_calibrated(changed)}" if "calibration" in changed.facts else ""
    trained = f"Trained on {counted(change['texts'], 'text')}"
    out.print(f"{to or model}: {trained}; {added}; {words}{scores}", soft_wrap=True)
    _print_packing(written)


@command(verbs, "calibrate", group=_GROUP, example="laconic calibrate model held-out.csv")
def calibrate_model(
    model: ModelFolder,
    data: Annotated[str, argument("DATA", "Texts with labels that the model was not trained on.")],
    split: Annotated[
        str, option(DATA, "--split NAME", "Split to calibrate on. Default: valid where there is one, or test.")
    ] = "",
    columns: ColumnNames = None,
    separator: Separator = None,
    device: Device = "auto",
    to: Out = None,
    packing: Packing = True,
) -> None:
    """Calibrate a model's scores on at least 50 labelled texts that it was not trained on."""
    from laconic.data.evaluation_texts import TrainedOn, evaluation_texts
    from laconic.storage.model_folder import read_model, sole_writer
    from laconic.training.run import device_named
    from laconic.update.model import calibrate

    with interruptible(UNCHANGED), sole_writer(to or model):
        corpus, old = read_corpus(data, columns, separator, model=model), read_model(model)
        wanted = split or ("valid" if "valid" in corpus.splits else "test")
        texts = evaluation_texts(corpus, wanted, [TrainedOn.of(old.facts, old.sketch)])
        changed = calibrate(old, texts.corpus, texts.split, device_named(device))
        written = _write(old, changed, model, to, device, packing=packing)
    out.print(f"{to or model}: {_calibrated(changed)}", soft_wrap=True)
    _print_packing(written)


def _calibrated(model: SavedModel) -> str:
    curve = model.facts["calibration"]
    return f"scores are calibrated on {counted(curve['texts'], 'text')} ({curve['how']})"


def _write(
    old: SavedModel, changed: SavedModel, model: Path, to: Path | None, device: str = "auto", *, packing: bool
) -> list[Callable[[], None]]:
    """Write the changed model, packed if the old one was, and return what reports the packing.

    Print a note where scores were calibrated and no longer are.
    """
    from laconic.packed.kept_texts import FILE
    from laconic.storage.manifest import PACKED
    from laconic.storage.model_folder import write_model

    folder, packed = to or model, model / PACKED
    was_packed, kept_texts = packed.exists(), (packed / FILE).exists()
    reports = list[Callable[[], None]]()

    def add_packed(place: Path) -> None:
        if was_packed and packing:
            reports.append(pack_trained(changed, place, None, device, keep_texts=False, name=folder))

    write_model(changed, folder, add=add_packed)
    if "calibration" in old.facts and "calibration" not in changed.facts:
        again = f"`laconic calibrate {folder} DATA` calibrates them, with texts that the model was not trained on"
        print_note(f"scores are no longer calibrated: {changed.facts['not_calibrated']}; {again}")
    again = f"laconic pack {folder}" + " --data TRAINING_DATA --keep-texts" * kept_texts
    if was_packed and not packing:
        reports.append(partial(print_note, f"the changed model is not packed; `{again}` packs it"))
    elif kept_texts:
        gone = f"the training texts that the packed model kept are gone; `{again}` keeps them"
        reports.append(partial(print_note, gone))
    return reports


def _print_packing(reports: Sequence[Callable[[], None]]) -> None:
    for report in reports:
        report()
