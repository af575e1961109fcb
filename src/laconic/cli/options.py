"""Options, consoles and the reading of data that several verbs of the command line share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from laconic.errors import ConfigError

if TYPE_CHECKING:
    from laconic.analysis.compare import Comparison
    from laconic.data.catalogue import Propensity
    from laconic.data.corpus import Corpus
    from laconic.data.formats.label_cells import Familiar

# Without markup: a path or a label may have brackets.
out, err = Console(highlight=False, markup=False), Console(stderr=True, highlight=False, markup=False)

Data = Annotated[str, typer.Argument(metavar="DATA", help="A dataset folder, a file, or the bundled 'debian-related'.")]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
SplitName = Annotated[
    str,
    typer.Option(
        "--split",
        help="Split to evaluate. For the file a model was trained on, test is its held-out part; all is every text.",
    ),
]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Also write the results to this file as JSON.")]
Plots = Annotated[Path | None, typer.Option("--plots", help="Also write plots to this folder (needs matplotlib).")]
Overruled = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of prediction, such as alpha=0.3."),
]
Constants = Annotated[
    str,
    typer.Option(
        "--propensity",
        metavar="A,B",
        help="Propensity constants of PSP, such as 0.55,1.5. Default: the model's, else those known for the data.",
    ),
]
KeepSelf = Annotated[
    bool, typer.Option("--keep-self", help="Also count labels equal to the text's own id, and pairs of a filter file.")
]
Table = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="KEY=VALUE",
        help="CSV, TSV, Parquet: text=, labels=, id= and weight= name columns, separator= as --separator.",
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator",
        metavar="SIGN",
        help="CSV, TSV, Parquet: what separates the labels of a cell; none: each cell is one label. "
        "Default: what most cells agree on.",
    ),
]


def read_corpus(
    data: str,
    table: list[str] | None,
    separator: str | None,
    *,
    model: Path | None = None,
    keep_self: bool = False,
    propensity: str = "",
) -> Corpus:
    """Read data as the options say; `model` is the folder of the model that will be applied to it, if any."""
    from laconic.config import configure, read_settings
    from laconic.data.formats.tabular import Columns
    from laconic.data.sources import read

    columns = configure(Columns, read_settings(None, table or []))
    columns = columns if separator is None else replace(columns, separator=separator)
    corpus = read(data, columns, None if model is None else _familiar(model))
    corpus = replace(corpus, propensity=propensity_given(propensity))
    return corpus.keeping_self_pairs() if keep_self else corpus


def _familiar(model: Path) -> Familiar:
    from laconic.data.formats.label_cells import Familiar
    from laconic.packed.folder import is_packed, open_packed
    from laconic.storage.manifest import MODEL, PACKED_MODEL, check_manifest, json_object

    packed = is_packed(model)
    check_manifest(model, verify=False, kind=PACKED_MODEL if packed else MODEL)

    def names() -> Sequence[str]:
        from laconic.storage.model_folder import read_label_names

        return open_packed(model).labels if packed else read_label_names(model)

    match json_object(model / ("packed.json" if packed else "model.json")):
        case {"data": {"separator": str(separator)}}:
            return Familiar(separator, names)
    return Familiar("", names)


def print_notes(of: Corpus | Comparison) -> None:
    for note in of.notes:
        print_note(note)


def print_note(note: str) -> None:
    err.print(Text.assemble(("note: ", "yellow"), note), soft_wrap=True)


def propensity_given(text: str) -> Propensity | None:
    """Parse the value of --propensity; return None if it is empty."""
    from laconic.data.catalogue import Propensity

    if not text:
        return None
    try:
        a, b = map(float, text.split(","))
    except ValueError:
        raise ConfigError(f"--propensity must be two numbers, such as 0.55,1.5, but is {text!r}") from None
    return Propensity(a=a, b=b)


def print_constants(corpus: Corpus) -> None:
    """Report the propensity constants used, unless the user or the data's name determines them."""
    from laconic.data.catalogue import known_propensity

    if corpus.propensity is None and known_propensity(corpus.source) is None:
        used = "PSP uses A = {0.a} and B = {0.b}".format(corpus.constants())
        message = f"{used}, the constants for data that laconic does not know by name; set others with --propensity"
        print_note(message)
