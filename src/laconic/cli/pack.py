"""The verb `pack`, and packing after training or after a change of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from laconic.cli.options import (
    DATA,
    MODEL,
    ColumnNames,
    Device,
    ModelFolder,
    Separator,
    err,
    out,
    print_note,
    read_corpus,
)
from laconic.cli.progress import waiting
from laconic.cli.verb import command, option
from laconic.errors import ConfigError, UserError
from laconic.units import counted

if TYPE_CHECKING:
    from laconic.data.corpus import Corpus
    from laconic.predict.packing_cost import Cost
    from laconic.storage.model_folder import SavedModel

verbs = typer.Typer()

KeepTexts = Annotated[
    bool,
    option(
        MODEL,
        "--keep-texts",
        "Store the training texts in the packed model, for predict --explain. Its users can read them.",
    ),
]


@command(verbs, group="Change", example="laconic pack model --data shop.csv")
def pack(
    model: ModelFolder,
    to: Annotated[Path | None, option(MODEL, "--out PACKED", "Folder to write. Default: MODEL/packed.")] = None,
    keep_texts: KeepTexts = False,
    data: Annotated[
        str,
        option(
            DATA, "--data DATA", "Training data of the model, to tune the search width and measure the accuracy lost."
        ),
    ] = "",
    columns: ColumnNames = None,
    separator: Separator = None,
    device: Device = "auto",
) -> None:
    """Convert a model for fast CPU inference and report the accuracy lost.

    `laconic predict MODEL` then uses MODEL/packed. The packed folder can also be used, copied and evaluated alone.
    """
    from laconic.storage.manifest import PACKED, PACKED_MODEL, check_replaceable, version_of
    from laconic.storage.model_folder import read_facts, read_model
    from laconic.system.files import check_writable
    from laconic.system.locks import locked

    if keep_texts and not data:
        raise ConfigError("--keep-texts needs the data that the model was trained on; name it (--data)")
    folder = to or model / PACKED
    check_replaceable(folder, kind=PACKED_MODEL)
    read_facts(model)  # refuses what is no model
    check_writable(folder)
    with locked(to or model):
        version = version_of(model)  # before it is read: a model may be exchanged meanwhile
        source = _Source(read_model(model), model, model, version)
        corpus = read_corpus(data, columns, separator, model=model) if data else None
        _pack(source, folder, corpus, device, keep_texts=keep_texts)()


def pack_trained(
    model: SavedModel, folder: Path, corpus: Corpus | None, device: str, *, keep_texts: bool, name: Path | None = None
) -> Callable[[], None]:
    """Pack a model that was just written into its folder, and return what reports it or why it was not possible.

    `name` is the folder's name for the report, where it will be another one. A full disk is an error.
    """
    from laconic.storage.manifest import PACKED, version_of
    from laconic.system.write_errors import WriteError

    source = _Source(model, folder, name or folder, version_of(folder))
    try:
        return _pack(source, folder / PACKED, corpus, device, keep_texts=keep_texts)
    except WriteError:
        raise
    except UserError as error:
        return partial(print_note, f"the model was not packed: {error}")


class _Source(NamedTuple):
    """The model to pack, its folder, the folder's name in reports, and the model's version."""

    model: SavedModel
    folder: Path
    name: Path
    version: str


def _pack(source: _Source, folder: Path, corpus: Corpus | None, device: str, *, keep_texts: bool) -> Callable[[], None]:
    """Pack a model, and return what reports its size and accuracy."""
    from laconic.data.evaluation_texts import TrainedOn, as_trained
    from laconic.export.pack import pack as packed_model
    from laconic.export.pack import with_texts
    from laconic.packed.folder import SECONDS, of_version, write_packed
    from laconic.predict.packing_cost import measured, split_to_measure
    from laconic.system.files import bytes_in
    from laconic.units import human_bytes

    began = perf_counter()
    if corpus is not None:
        corpus = as_trained(corpus, [TrainedOn.of(source.model.facts, source.model.sketch)])
    with waiting(err, "packing"):
        packed, cost = of_version(packed_model(source.model, corpus, device), source.version), None
    if corpus is not None and keep_texts:
        packed = with_texts(packed, corpus)
    if corpus is not None and (split := split_to_measure(corpus)):
        with waiting(err, "comparing the packed model with the model"):
            packed, cost = measured(packed, source.model, corpus, split, device)
    packed = replace(packed, facts={**packed.facts, SECONDS: round(perf_counter() - began, 2)})
    write_packed(packed, folder)
    seconds, sizes = perf_counter() - began, [human_bytes(bytes_in(one)) for one in (folder, source.folder)]
    texts = f" It keeps {counted(packed.num_kept, 'training text')}." if packed.num_kept else ""
    shown = source.name / folder.name if folder.parent == source.folder else folder
    return partial(
        out.print,
        f"{shown}: {sizes[0]} (the model: {sizes[1]}), in {seconds:.1f} s. {_loss(cost, source)}{texts}",
        soft_wrap=True,
    )


def _loss(cost: Cost | None, source: _Source) -> str:
    """Describe the accuracy lost by packing, where it was measured."""
    if cost is None:
        return f"Search width guessed; `laconic pack {source.name} --data TRAINING_DATA` tunes and measures it."
    agreement = f"Top-5 labels agree with the full model for {cost.found:.2f} % ({cost.words})."
    if cost.precision is None:
        return agreement
    return f"{agreement} P@5 {cost.precision.after:.2f} (the model: {cost.precision.before:.2f})."
