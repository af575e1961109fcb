"""The verb `pack`, and packing after training or after a change of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from laconic.cli.progress import progress
from laconic.cli.verb import command, option
from laconic.errors import ConfigError, UserError
from laconic.units import counted, human_bytes

if TYPE_CHECKING:
    from laconic.data.corpus import Corpus
    from laconic.packed.folder import PackedModel
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


def pack_alone(
    model: SavedModel,
    folder: Path,
    corpus: Corpus,
    device: str,
    *,
    keep_texts: bool,
    pictures: Mapping[str, Callable[[Path], None]],
) -> Callable[[], None]:
    """Write the packed version of a model as its whole folder, and return what reports it.

    What cannot be packed is an error here, since nothing else would be kept of the model.
    """
    from laconic.export.pack import write_alone
    from laconic.system.files import bytes_in
    from laconic.system.write_errors import WriteError

    source = _Source(model, folder, folder, "")
    try:
        packed, cost = _packed(source, corpus, device, keep_texts=keep_texts)
    except WriteError:
        raise
    except UserError as error:
        raise type(error)(f"{error} (--no-keep-torch keeps the packed model alone; leave it out)") from None
    write_alone(packed, folder, facts=model.facts, pictures=pictures)
    return partial(_report, packed, f"{folder}", f"{human_bytes(bytes_in(folder))} (packed alone)", _loss(cost, source))


class _Source(NamedTuple):
    """The model to pack, its folder, the folder's name in reports, and the model's version; empty: it has no folder."""

    model: SavedModel
    folder: Path
    name: Path
    version: str


def _pack(source: _Source, folder: Path, corpus: Corpus | None, device: str, *, keep_texts: bool) -> Callable[[], None]:
    """Pack a model into a folder, and return what reports its size and accuracy."""
    from laconic.packed.folder import of_version, write_packed
    from laconic.system.files import bytes_in

    packed, cost = _packed(source, corpus, device, keep_texts=keep_texts)
    write_packed(of_version(packed, source.version), folder)
    sizes = [human_bytes(bytes_in(one)) for one in (folder, source.folder)]
    shown = source.name / folder.name if folder.parent == source.folder else folder
    return partial(_report, packed, f"{shown}", f"{sizes[0]} (the model: {sizes[1]})", _loss(cost, source))


def _report(packed: PackedModel, folder: str, size: str, loss: str) -> None:
    """Print the size of a packed model, how long packing took, and what it costs."""
    from laconic.packed.folder import SECONDS

    texts = f" It keeps {counted(packed.num_kept, 'training text')}." if packed.num_kept else ""
    out.print(f"{folder}: {size}, in {packed.facts[SECONDS]:.1f} s. {loss}{texts}", soft_wrap=True)


def _packed(
    source: _Source, corpus: Corpus | None, device: str, *, keep_texts: bool
) -> tuple[PackedModel, Cost | None]:
    """Return the packed model, and the accuracy lost where it can be measured."""
    from laconic.data.evaluation_texts import TrainedOn, as_trained
    from laconic.export.pack import pack as packed_model
    from laconic.export.pack import with_texts
    from laconic.packed.folder import SECONDS
    from laconic.predict.packing_cost import measured, split_to_measure

    began, cost = perf_counter(), None
    if corpus is not None:
        corpus = as_trained(corpus, [TrainedOn.of(source.model.facts, source.model.sketch)])
    with progress(err, "packing") as bar:
        packed = packed_model(
            source.model,
            corpus,
            device,
            lambda done, parts: bar.update(bar.task_ids[0], completed=done, total=parts),
        )
    if corpus is not None and keep_texts:
        packed = with_texts(packed, corpus)
    if corpus is not None and (split := split_to_measure(corpus)):
        with progress(err, "comparing the packed model with the model") as bar:
            packed, cost = measured(
                packed,
                source.model,
                corpus,
                split,
                device,
                lambda done, texts: bar.update(bar.task_ids[0], advance=done, total=texts),
            )
    return replace(packed, facts={**packed.facts, SECONDS: round(perf_counter() - began, 2)}), cost


def _loss(cost: Cost | None, source: _Source) -> str:
    """Describe the accuracy lost by packing, where it was measured."""
    if cost is None:
        return f"Search width guessed; `laconic pack {source.name} --data TRAINING_DATA` tunes and measures it."
    agreement = f"Top-5 labels agree with the full model for {cost.found:.2f} % ({cost.words})."
    if cost.precision is None:
        return agreement
    return f"{agreement} P@5 {cost.precision.after:.2f} (the model: {cost.precision.before:.2f})."
