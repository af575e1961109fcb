"""The verbs for data: `inspect` (data or a model) and `convert`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laconic.cli.options import (
    DATA,
    MACHINE,
    METHOD,
    OUTPUT,
    AsJson,
    ColumnNames,
    Data,
    Device,
    Plots,
    Separator,
    complete_data,
    err,
    named_columns,
    out,
    print_note,
    print_results,
    read_corpus,
)
from laconic.cli.verb import argument, command, option
from laconic.errors import ConfigError
from laconic.units import counted, seconds_of

if TYPE_CHECKING:
    from laconic.data.formats.tabular import Columns

verbs = typer.Typer()
_GROUP = "Data"


@command(verbs, group=_GROUP, example="laconic inspect shop.csv --budget 10m\nlaconic inspect model --verify")
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
    budget: Annotated[
        str, option(METHOD, "--budget TIME", "Say what train would choose with this budget, such as 90s, 5m or 2h.")
    ] = "",
    device: Device = "auto",
    verify: Annotated[bool, option(OUTPUT, "--verify", "Check the sha256 of every file of a model.")] = False,
    as_json: AsJson = False,
    plots: Plots = None,
) -> None:
    """Describe a dataset and what training on it would cost, or describe a model."""
    from laconic.cli.inspection import inspect_data, inspect_model, inspect_packed, plot_data
    from laconic.packed.folder import is_packed
    from laconic.storage.manifest import kind_of

    seconds = seconds_of(budget) if budget else None
    if kind_of(Path(data)):
        if seconds is not None:
            raise ConfigError(f"--budget is for data, but {data} is a model; leave it out")
        inspection = (inspect_packed if is_packed(Path(data)) else inspect_model)(Path(data), verify=verify)
    else:
        corpus = read_corpus(data, columns, separator)
        inspection = inspect_data(corpus, length=length, vectors=vectors, budget=seconds, device=device)
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
    "laconic convert shop shop-for-fasttext --to fasttext\n"
    "laconic convert 'titles/*.parquet' titles --workers 4",
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
    words: Annotated[
        Path | None,
        option(OUTPUT, "--words FILE", "Also write the words of the training texts, with the texts that have each."),
    ] = None,
    workers: Annotated[
        int | None,
        option(
            MACHINE,
            "--workers N",
            "Read many files by N processes, some texts at a time. DATA may then be a pattern, or a folder of files.",
            min=1,
        ),
    ] = None,
) -> None:
    """Convert data of any known format into a dataset folder, or into files for fastText."""
    from laconic.data.fasttext_output import write_fasttext
    from laconic.data.hierarchy import with_broader
    from laconic.data.output import write_folder
    from laconic.data.text import Splitter
    from laconic.data.word_counts import WordCounts, write_words

    if to not in ("jsonl", "fasttext"):
        raise ConfigError(f"--to must be jsonl or fasttext, but is {to!r}")
    if workers is not None:
        alone = {"--vocabulary": vocabulary, "--language": languages, "--add-broader": add_broader}
        wrong = next((name for name, value in {**alone, f"--to {to}": to != "jsonl"}.items() if value), None)
        if wrong is not None:
            raise ConfigError(f"{wrong} does not go with --workers; leave one of them out")
        _convert_files(data, folder, named_columns(columns, separator), words, compress=not plain, workers=workers)
        return
    corpus = read_corpus(data, columns, separator, vocabulary=vocabulary, languages=languages or ())
    corpus = with_broader(corpus) if add_broader else corpus
    if to == "jsonl":
        write_folder(corpus, folder, compress=not plain)
    else:
        for note in write_fasttext(corpus, folder):
            print_note(note)
    if words is not None:
        write_words(WordCounts.of_texts(corpus.split("train").texts or (), Splitter()), words)
    _print_sizes(folder, {name: len(split) for name, split in corpus.splits.items()}, len(corpus.labels))


def _convert_files(
    data: str, folder: Path, columns: Columns, words: Path | None, *, compress: bool, workers: int
) -> None:
    from laconic.cli.progress import waiting
    from laconic.data.conversion import convert_files, count_words
    from laconic.data.sources import files_by_split
    from laconic.data.text import Splitter
    from laconic.data.word_counts import write_words

    with waiting(err, f"reading {data}"):
        files = files_by_split(data)
        done = convert_files(files, folder, columns, compress=compress, workers=workers)
        if words is not None:
            training = files.get("train") or files["all"]
            write_words(count_words(training, columns, Splitter(), workers=workers), words)
    for name, number in done.repeated.items():
        if number:
            print_note(f"{name}: {counted(number, 'repeated label')} ignored")
    _print_sizes(folder, done.texts, done.labels)


def _print_sizes(folder: Path, texts: Mapping[str, int], labels: int) -> None:
    sizes = ", ".join(f"{name} {counted(number, 'text')}" for name, number in texts.items())
    out.print(f"{folder}: {sizes}, {counted(labels, 'label')}")
