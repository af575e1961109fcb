"""The verb `pack`, and the options of verbs that use a packed model."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from laconic.cli.options import Separator, Table, err, out, print_note, print_notes, read_corpus
from laconic.errors import ConfigError, UserError
from laconic.units import counted

if TYPE_CHECKING:
    from laconic.data.corpus import Corpus
    from laconic.predict.packing_cost import Cost
    from laconic.storage.model_folder import SavedModel

verbs = typer.Typer()

Beam = Annotated[
    int | None, typer.Option("--beam", metavar="N", min=1, help="Packed models: clusters to search (more is slower).")
]
Exact = Annotated[
    bool, typer.Option("--exact", help="Packed models: no approximation; answer as the unpacked model does.")
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", min=1, help="Packed models: number of threads. Default: all cores."),
]
KeepTexts = Annotated[
    bool,
    typer.Option(
        "--keep-texts",
        help="Store the training texts in the packed model, for predict --explain. Its users can read them.",
    ),
]


@verbs.command()
def pack(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.")],
    to: Annotated[
        Path | None, typer.Option("--out", metavar="PACKED", help="Folder to write. Default: MODEL/packed.")
    ] = None,
    data: Annotated[
        str,
        typer.Option(
            "--data",
            metavar="DATA",
            help="Training data of the model, to tune the search width and measure the accuracy lost.",
        ),
    ] = "",
    keep_texts: KeepTexts = False,
    device: Annotated[str, typer.Option("--device", help="Device to pack and measure on: auto, cpu or cuda.")] = "auto",
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Convert a model for fast CPU inference and report the accuracy lost.

    `laconic predict MODEL` then uses MODEL/packed. The packed folder can also be used, copied and evaluated alone.
    """
    from laconic.storage.manifest import PACKED, PACKED_MODEL, check_replaceable, kind_of, version_of
    from laconic.storage.model_folder import read_model
    from laconic.system.files import check_writable

    if keep_texts and not data:
        raise ConfigError("--keep-texts needs the data that the model was trained on; name it (--data)")
    folder = to or model / PACKED
    check_replaceable(folder, kind=PACKED_MODEL)
    version = version_of(model) if kind_of(model) else ""  # before it is read: a model may be exchanged meanwhile
    source = _Source(read_model(model), model, version)
    check_writable(folder)
    corpus = read_corpus(data, table, separator, model=model) if data else None
    if corpus is not None:
        print_notes(corpus)
    _pack(source, folder, corpus, device, keep_texts=keep_texts)


def pack_trained(model: SavedModel, folder: Path, corpus: Corpus, device: str, *, keep_texts: bool) -> None:
    """Pack a model that was just trained into its folder; if that fails, keep the model and report why."""
    from laconic.storage.manifest import PACKED, version_of

    try:
        _pack(_Source(model, folder, version_of(folder)), folder / PACKED, corpus, device, keep_texts=keep_texts)
    except UserError as error:
        print_note(f"the model was not packed: {error}")
    except KeyboardInterrupt:
        again = f"laconic pack {folder}" + " --data DATA --keep-texts" * keep_texts
        err.print(f"stopped; the model is finished, and `{again}` packs it")
        raise typer.Exit(130) from None


class _Source(NamedTuple):
    """The model to pack, its folder and its version."""

    model: SavedModel
    folder: Path
    version: str


def _pack(source: _Source, folder: Path, corpus: Corpus | None, device: str, *, keep_texts: bool) -> None:
    from laconic.data.evaluation_texts import TrainedOn, as_trained
    from laconic.export.pack import pack as packed_model
    from laconic.export.pack import with_texts
    from laconic.packed.folder import of_version, write_packed
    from laconic.predict.packing_cost import measured, split_to_measure
    from laconic.system.files import bytes_in
    from laconic.units import human_bytes

    began = perf_counter()
    if corpus is not None:
        corpus = as_trained(corpus, [TrainedOn.of(source.model.facts, source.model.sketch)])
    packed, cost = of_version(packed_model(source.model, corpus, device), source.version), None
    if corpus is not None and keep_texts:
        packed = with_texts(packed, corpus)
    if corpus is not None and (split := split_to_measure(corpus)):
        packed, cost = measured(packed, source.model, corpus, split, device)
    write_packed(packed, folder)
    seconds, sizes = perf_counter() - began, [human_bytes(bytes_in(one)) for one in (folder, source.folder)]
    texts = f" It keeps {counted(packed.num_kept, 'training text')}." if packed.num_kept else ""
    out.print(f"{folder}: {sizes[0]} (the model: {sizes[1]}), in {seconds:.1f} s. {_told(cost)}{texts}", soft_wrap=True)


def _told(cost: Cost | None) -> str:
    if cost is None:
        return "Search width guessed; pass --data TRAINING_DATA to tune and measure it."
    agreement = f"Top-5 labels agree with the full model for {cost.found:.2f} % ({cost.words})."
    if cost.precision is None:
        return agreement
    return f"{agreement} P@5 {cost.precision.after:.2f} (the model: {cost.precision.before:.2f})."
