"""Options, consoles and the reading of data that several verbs of the command line share."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from laconic.cli.escape import SafeConsole
from laconic.cli.verb import BUNDLED_NAMES, argument, option
from laconic.config import METHOD_NAMES
from laconic.errors import ConfigError

if TYPE_CHECKING:
    from laconic.analysis.compare import Comparison
    from laconic.data.catalogue import Propensity
    from laconic.data.corpus import Corpus
    from laconic.data.formats.label_cells import Familiar
    from laconic.data.formats.tabular import Columns

# Without markup: a path or a label may have brackets.
out, err = SafeConsole(highlight=False, markup=False), SafeConsole(stderr=True, highlight=False, markup=False)

# Groups of options in the help of a verb.
DATA, METHOD, MODEL, MACHINE, OUTPUT = "Data", "Method and settings", "Model folder", "Machine", "Output"

Data = Annotated[
    str,
    argument(
        "DATA",
        "A dataset folder, a file, or the bundled 'debian-related'.",
        autocompletion=lambda incomplete: complete_data(incomplete),
    ),
]
ModelFolder = Annotated[Path, argument("MODEL", "A model folder.")]
Device = Annotated[
    str,
    option(
        MACHINE,
        "--device NAME",
        "auto, cpu or cuda.",
        autocompletion=lambda incomplete: _beginning(incomplete, ["auto", "cpu", "cuda"]),
    ),
]
Track = Annotated[
    list[str] | None,
    option(
        OUTPUT,
        "--track TRACKER",
        "Also log to mlflow or wandb; mlflow:EXPERIMENT and wandb:PROJECT name where. May be repeated.",
    ),
]
Beam = Annotated[int | None, option(MACHINE, "--beam N", "Packed models: clusters to search (more is slower).", min=1)]
Exact = Annotated[
    bool, option(MACHINE, "--exact", "Packed models: no approximation; answer as the unpacked model does.")
]
Threads = Annotated[
    int | None, option(MACHINE, "--threads N", "Packed models: number of threads. Default: all cores.", min=1)
]
Engine = Annotated[
    str,
    option(
        MACHINE,
        "--engine NAME",
        "ray: run on a cluster of Ray, or on all cores of this machine.",
        autocompletion=lambda incomplete: _beginning(incomplete, ["ray"]),
    ),
]
Address = Annotated[
    str, option(MACHINE, "--address ADDRESS", "With --engine: address of the cluster; auto is the one of this machine.")
]
Workers = Annotated[
    int | None,
    option(MACHINE, "--workers N", "With --engine: number of processes. Default: one per core, or per GPU.", min=1),
]
NoVerify = Annotated[
    bool, option(MACHINE, "--no-verify", "Do not check the content of the model's files, only their sizes.")
]
SplitName = Annotated[
    str,
    option(
        DATA,
        "--split NAME",
        "Split to evaluate. For the file a model was trained on, test is its held-out part; all is every text.",
    ),
]
AsJson = Annotated[bool, option(OUTPUT, "--json", "Print JSON instead of tables.")]
JsonFile = Annotated[Path | None, option(OUTPUT, "--out FILE", "Also write the results to this file as JSON.")]
Plots = Annotated[Path | None, option(OUTPUT, "--plots FOLDER", "Also write plots to this folder (needs matplotlib).")]
PerLabel = Annotated[
    Path | None,
    option(OUTPUT, "--per-label FILE", "Also write the figures of each label to this .csv, .tsv or .jsonl file."),
]
AllMetrics = Annotated[bool, option(OUTPUT, "--all", "Show every metric, also at 20.")]
PredictionSettings = Annotated[
    list[str] | None,
    option(METHOD, "--set KEY=VALUE", "Override a setting of prediction, such as alpha=0.3; may be repeated."),
]
Constants = Annotated[
    str,
    option(
        DATA,
        "--propensity A,B",
        "Propensity constants of PSP, such as 0.55,1.5. Default: the model's, else those known for the data.",
    ),
]
KeepSelf = Annotated[
    bool, option(DATA, "--keep-self", "Also count labels equal to the text's own id, and pairs of a filter file.")
]
ColumnNames = Annotated[
    list[str] | None,
    option(
        DATA,
        "--column ROLE=NAME",
        "The column of a role (text, labels, id, weight, group), such as labels=kind; may be repeated. A name alone is "
        "the column of the texts. Several are joined: text=title:2,subtitle, where title counts twice. Texts of one "
        "group are held out together. Of JSON Lines, text and group can be named.",
    ),
]
Separator = Annotated[
    str | None,
    option(
        DATA,
        "--separator SIGN",
        "CSV, TSV, Parquet: what separates the labels of a cell; none: each cell is one label. "
        "Default: what most cells agree on.",
    ),
]


def settings_option(of: str) -> Any:
    """Return the option --set of a verb that trains, whose settings are those `of` something."""
    return option(METHOD, "--set KEY=VALUE", f"Override a setting of {of}; may be repeated.")


def number_option(spec: str, help: str, least: float = 1) -> Any:
    """Return an option that overrides one number among the settings of training."""
    return option(METHOD, spec, help, min=least)


def complete_data(incomplete: str) -> list[str]:
    """Return the names of bundled data that begin so, for shell completion; shells complete files themselves."""
    return _beginning(incomplete, BUNDLED_NAMES)


def complete_method(incomplete: str) -> list[str]:
    """Return the names of methods that begin so, for shell completion."""
    return _beginning(incomplete, ["auto", *METHOD_NAMES])


def _beginning(incomplete: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


@contextmanager
def verbosity(*, quiet: bool, verbose: bool) -> Iterator[None]:
    """Print nothing but errors, or the library's log too, while the block runs."""
    if quiet and verbose:
        raise ConfigError("--quiet and --verbose exclude each other; leave one of them out")
    log, level = logging.getLogger("laconic"), logging.getLogger("laconic").level
    handler = _ConsoleLog(logging.INFO)
    out.quiet = err.quiet = quiet
    if verbose:
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    try:
        yield
    finally:
        out.quiet = err.quiet = False
        log.removeHandler(handler)
        log.setLevel(level)


class _ConsoleLog(logging.Handler):
    """Prints the lines of a log to the console of messages."""

    def emit(self, record: logging.LogRecord) -> None:
        err.print(f"{record.levelname.lower()}: {record.getMessage()}", soft_wrap=True)


def print_results(results: Mapping[str, Any], *, as_json: bool, to: Path | None) -> None:
    """Print results as JSON if asked to, and write them to a file if one is named."""
    from laconic.system.files import writing

    text = json.dumps(results, indent=2, ensure_ascii=False)
    if to is not None:
        with writing(to) as file:
            file.write(text.encode() + b"\n")
    if as_json:
        print(text)


def column_names(given: Sequence[str] | None) -> list[str]:
    """Return the values of --column as assignments; a name alone is that of the text's column."""
    return [word if "=" in word else f'text="{word}"' for word in given or ()]


def read_corpus(
    data: str,
    columns: list[str] | None,
    separator: str | None,
    *,
    model: Path | None = None,
    keep_self: bool = False,
    propensity: str = "",
    vocabulary: Path | None = None,
    languages: Sequence[str] = (),
) -> Corpus:
    """Read data as the options say and print notes on it; `model` is the model that it will be used with, if any."""
    from laconic.cli.progress import reading_data
    from laconic.data.fields import spec_in_facts
    from laconic.data.holdout import group_in_facts
    from laconic.data.sources import read

    named = named_columns(columns, separator)
    familiar = None
    if model is not None:
        facts = _facts(model)
        familiar = _familiar(model, facts)
        named = replace(named, fields=spec_in_facts(facts), model_group=group_in_facts(facts))
    with reading_data(err, data):
        corpus = read(data, named, familiar, vocabulary=vocabulary, languages=languages)
    corpus = replace(corpus, propensity=propensity_given(propensity))
    corpus = corpus.keeping_self_pairs() if keep_self else corpus
    print_notes(corpus)
    return corpus


def named_columns(columns: list[str] | None, separator: str | None) -> Columns:
    """Return the columns that options name."""
    from laconic.config import configure, read_settings
    from laconic.data.formats.tabular import Columns

    named = configure(Columns, read_settings(None, column_names(columns)))
    return named if separator is None else replace(named, separator=separator)


def _facts(model: Path) -> Mapping[str, Any]:
    """Return the facts of a model or of a packed one."""
    from laconic.packed.folder import is_packed
    from laconic.storage.manifest import MODEL, PACKED_MODEL, check_manifest, json_object

    packed = is_packed(model)
    check_manifest(model, verify=False, kind=PACKED_MODEL if packed else MODEL)
    return json_object(model / ("packed.json" if packed else "model.json"))


def _familiar(model: Path, facts: Mapping[str, Any]) -> Familiar:
    """Return how labels are separated in data for a model, and what its labels are."""
    from laconic.data.formats.label_cells import Familiar
    from laconic.packed.folder import is_packed, open_packed

    def names() -> Sequence[str]:
        from laconic.storage.model_folder import read_label_names

        return open_packed(model, verify=False).labels if is_packed(model) else read_label_names(model)

    match facts:
        case {"data": {"separator": str(separator)}}:
            return Familiar(separator, names)
    return Familiar("", names)


def print_notes(of: Corpus | Comparison) -> None:
    for note in of.notes:
        print_note(note)


def print_note(note: str) -> None:
    err.print(Text.assemble(("note: ", "yellow"), note), soft_wrap=True)


def print_raw_scores(facts: Mapping[str, Any], what: str, model: Path) -> None:
    """Report scores that are not probabilities; `what` is what they are used for."""
    from laconic.storage.facts import why_uncalibrated

    why = why_uncalibrated(facts)
    if why is not None:
        remedy = f"`laconic calibrate {model} DATA` makes them so, with texts that the model was not trained on"
        print_note(f"{what} scores that are not probabilities: {why}; {remedy}")


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
