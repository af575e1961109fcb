"""The verbs for data: `inspect` (data or a model) and `convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laconic.cli.options import (
    DATA,
    OUTPUT,
    AsJson,
    ColumnNames,
    Data,
    Plots,
    Separator,
    complete_data,
    err,
    out,
    print_note,
    print_results,
    read_corpus,
)
from laconic.cli.verb import argument, command, option
from laconic.errors import ConfigError
from laconic.units import counted

verbs = typer.Typer()
_GROUP = "Data"


@command(verbs, group=_GROUP, example="laconic inspect shop.csv\nlaconic inspect model --verify")
def inspect(
    data: Annotated[
        str, argument("DATA | MODEL", "Data as for train, or a model folder.", autocompletion=complete_data)
    ],
    columns: ColumnNames = None,
    separator: Separator = None,
    length: Annotated[
        int, option(DATA, "--length N", "Sequence length, to count the texts that it truncates.", min=1)
    ] = 32,
    vectors: Annotated[
        Path | None, option(DATA, "--vectors FILE", "Word vectors, to show how many words have one.")
    ] = None,
    verify: Annotated[bool, option(OUTPUT, "--verify", "Check the sha256 of every file of a model.")] = False,
    as_json: AsJson = False,
    plots: Plots = None,
) -> None:
    """Describe a dataset and what training on it would cost, or describe a model."""
    from laconic.cli.inspection import inspect_data, inspect_model, inspect_packed, plot_data
    from laconic.packed.folder import is_packed
    from laconic.storage.manifest import kind_of

    if kind_of(Path(data)):
        inspection = (inspect_packed if is_packed(Path(data)) else inspect_model)(Path(data), verify=verify)
    else:
        corpus = read_corpus(data, columns, separator)
        inspection = inspect_data(corpus, length=length, vectors=vectors)
        if plots is not None:
            plot_data(corpus, plots)
            err.print(f"pictures are in {plots}")
    print_results(inspection.facts, as_json=as_json, to=None)
    for part in () if as_json else inspection.shown:
        out.print(part)


@command(
    verbs,
    group=_GROUP,
    example="laconic convert shop.csv shop --column labels=kind\n"
    "laconic convert corpus.tsv library --vocabulary yso.ttl --language en\n"
    "laconic convert shop shop-for-fasttext --to fasttext",
)
def convert(
    data: Data,
    folder: Annotated[Path, argument("FOLDER", "The folder to make.")],
    columns: ColumnNames = None,
    separator: Separator = None,
    vocabulary: Annotated[
        Path | None,
        option(DATA, "--vocabulary FILE", "Subject vocabulary of the labels: SKOS, or Annif's TSV or CSV."),
    ] = None,
    languages: Annotated[
        list[str] | None,
        option(
            DATA,
            "--language CODE",
            "Language of names to take from a vocabulary, such as en; may be repeated. Default: all.",
        ),
    ] = None,
    add_broader: Annotated[
        bool, option(DATA, "--add-broader", "Give each text the broader labels of its labels too, at every level.")
    ] = False,
    to: Annotated[
        str, option(OUTPUT, "--to FORMAT", "jsonl (a dataset folder) or fasttext (files of __label__ lines).")
    ] = "jsonl",
    plain: Annotated[bool, option(OUTPUT, "--plain", "Do not gzip the files of a dataset folder.")] = False,
) -> None:
    """Convert data of any known format into a dataset folder, or into files for fastText."""
    from laconic.data.fasttext_output import write_fasttext
    from laconic.data.hierarchy import with_broader
    from laconic.data.output import write_folder

    if to not in ("jsonl", "fasttext"):
        raise ConfigError(f"--to must be jsonl or fasttext, but is {to!r}")
    corpus = read_corpus(data, columns, separator, vocabulary=vocabulary, languages=languages or ())
    corpus = with_broader(corpus) if add_broader else corpus
    if to == "jsonl":
        write_folder(corpus, folder, compress=not plain)
    else:
        for note in write_fasttext(corpus, folder):
            print_note(note)
    sizes = ", ".join(f"{name} {counted(len(split), 'text')}" for name, split in corpus.splits.items())
    out.print(f"{folder}: {sizes}, {counted(len(corpus.labels), 'label')}")
