"""The verb `set-attributes`: give labels of a finished model attributes, by which predictions are filtered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from laconic.cli.interrupts import UNCHANGED, interruptible
from laconic.cli.options import MODEL, ModelFolder, out, print_note
from laconic.cli.verb import argument, command, option
from laconic.errors import DataError
from laconic.units import counted

if TYPE_CHECKING:
    from laconic.data.corpus import Labels

verbs = typer.Typer()


@command(verbs, "set-attributes", group="Change", example="laconic set-attributes model labels.csv")
def set_attributes(
    model: ModelFolder,
    labels: Annotated[Path, argument("LABELS", "labels.jsonl, or a CSV table with the column id.")],
    to: Annotated[Path | None, option(MODEL, "--out MODEL", "Write the model here and keep MODEL unchanged.")] = None,
) -> None:
    """Give labels of a model attributes, by which `laconic predict --where` and the service filter.

    What the model predicts does not change. Labels that the file does not list keep their attributes.
    """
    from laconic.storage.model_folder import read_model, sole_writer

    with interruptible(UNCHANGED), sole_writer(to or model):
        old = read_model(model)
        values, unknown = _listed(labels, old.labels)
        changed = old.labels.with_attributes(values)
        _store(changed, model, to or model)
    known = {} if changed.attributes is None else changed.attributes.summary()
    shown = "; ".join(f"{name}: {counted(facts['values'], 'value')}" for name, facts in known.items()) or "none"
    if unknown:
        print_note(f"{counted(len(unknown), 'label is', 'labels are')} not in the model, such as {unknown[0]!r}")
    out.print(f"{to or model}: Attributes of {counted(len(values), 'label')} are set ({shown}).", soft_wrap=True)


def _listed(path: Path, labels: Labels) -> tuple[dict[str, dict[str, list[str]]], list[str]]:
    """Return the attributes of the labels that a file lists, and names that are none of the model's."""
    from laconic.data.attributes import read_attributes
    from laconic.data.formats.subjects import label_rows

    number = {name: at for at, name in enumerate(labels.names)}
    given, unknown = dict[int, tuple[str, Mapping[str, Any]]](), list[str]()
    for row in label_rows(path):
        if row.name in number:
            given[number[row.name]] = row.place, row.attributes
        else:
            unknown.append(row.name)
    if not given:
        named = f"such as {unknown[0]!r}" if unknown else "for it lists none"
        raise DataError(f"{path}: none of its labels is in the model, {named}; list labels by their names")
    found, notes = read_attributes(given, len(labels))
    for note in notes:
        print_note(note)
    values = [{} for _ in labels.names] if found is None else found.by_label()
    return {labels.names[at]: values[at] for at in given}, unknown


def _store(labels: Labels, model: Path, folder: Path) -> None:
    """Write the model with these labels; its packed version gets their attributes, and is otherwise as it was."""
    from laconic.packed.folder import of_version, write_packed
    from laconic.predict.load import packed_of
    from laconic.storage.manifest import PACKED, version_of
    from laconic.storage.model_folder import read_model, write_model

    packed = packed_of(model)

    def add_packed(partial: Path) -> None:
        if packed is not None:
            own = replace(packed, label_attributes=labels.attributes)
            write_packed(of_version(own, version_of(partial)), partial / PACKED)

    write_model(replace(read_model(model), labels=labels), folder, add=add_packed)
