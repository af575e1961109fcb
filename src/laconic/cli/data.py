"""The verbs for data: `inspect` (data or a model) and `convert`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laconic.cli.options import (
    Data,
    Plots,
    Separator,
    Table,
    err,
    out,
    print_notes,
    read_corpus,
)
from laconic.units import counted

if TYPE_CHECKING:
    pass


verbs = typer.Typer()


@verbs.command()
def inspect(
    data: Annotated[str, typer.Argument(metavar="DATA | MODEL", help="Data as for train, or a model folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    plots: Plots = None,
    length: Annotated[int, typer.Option(help="Sequence length, to count the texts that it truncates.", min=1)] = 32,
    vectors: Annotated[Path | None, typer.Option(help="Word vectors, to show how many words have one.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check the sha256 of every file of a model.")] = False,
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Describe a dataset and what training on it would cost, or describe a model."""
    from laconic.cli.inspection import inspect_data, inspect_model, inspect_packed, plot_data
    from laconic.packed.folder import is_packed
    from laconic.storage.manifest import kind_of

    if kind_of(Path(data)):
        inspection = (inspect_packed if is_packed(Path(data)) else inspect_model)(Path(data), verify=verify)
    else:
        corpus = read_corpus(data, table, separator)
        inspection = inspect_data(corpus, length=length, vectors=vectors)
        print_notes(corpus)
        if plots is not None:
            plot_data(corpus, plots)
            err.print(f"pictures are in {plots}")
    if as_json:
        print(json.dumps(inspection.facts, indent=2, ensure_ascii=False))
    else:
        for part in inspection.shown:
            out.print(part)


@verbs.command()
def convert(
    data: Data,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The dataset folder to make.")],
    plain: Annotated[bool, typer.Option("--plain", help="Do not gzip the files.")] = False,
    table: Table = None,
    separator: Separator = None,
) -> None:
    """Convert data of any known format into a dataset folder."""
    from laconic.data.output import write_folder

    corpus = read_corpus(data, table, separator)
    write_folder(corpus, folder, compress=not plain)
    print_notes(corpus)
    sizes = ", ".join(f"{name} {counted(len(split), 'text')}" for name, split in corpus.splits.items())
    out.print(f"{folder}: {sizes}, {counted(len(corpus.labels), 'label')}")
