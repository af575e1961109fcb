"""What several verbs of the command line share: their options, where they print, and how they read data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from laconic.comparing import Comparison
    from laconic.data.corpus import Corpus

# Without markup: a path or a label may have brackets.
out, err = Console(highlight=False, markup=False), Console(stderr=True, highlight=False, markup=False)

Data = Annotated[str, typer.Argument(metavar="DATA", help="A dataset folder, a file, or the bundled 'debian-related'.")]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
SplitName = Annotated[
    str,
    typer.Option(
        "--split", help="Split to evaluate. Of a training file, test is what was held out; all is every text."
    ),
]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")]
Plots = Annotated[Path | None, typer.Option("--plots", help="Also draw pictures into this folder (needs matplotlib).")]
Overruled = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Overrule how the model answers, such as alpha=0.3."),
]
KeepSelf = Annotated[bool, typer.Option("--keep-self", help="Keep pairs of a text with itself, and filtered pairs.")]
Table = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="CSV, TSV, Parquet: text=, labels=, id=, weight= name columns; separator="),
]


def read_corpus(data: str, table: list[str] | None, *, keep_self: bool = False) -> Corpus:
    from laconic.config import configure, read_settings
    from laconic.data.formats.tabular import Columns
    from laconic.data.sources import read

    corpus = read(data, configure(Columns, read_settings(None, table or [])))
    return corpus.keeping_self_pairs() if keep_self else corpus


def print_notes(of: Corpus | Comparison) -> None:
    for note in of.notes:
        err.print(Text.assemble(("note: ", "yellow"), note), soft_wrap=True)
