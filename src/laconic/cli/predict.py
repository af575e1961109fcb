"""The verb `predict`: label the texts of a file or of the standard input, a few at a time and in order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laconic.cli.bulk import InParts, check_engine, predict_in_parts
from laconic.cli.escape import escaped
from laconic.cli.options import (
    DATA,
    METHOD,
    OUTPUT,
    Address,
    Beam,
    ColumnNames,
    Device,
    Engine,
    Exact,
    NoVerify,
    PredictionSettings,
    Threads,
    Workers,
    column_names,
    err,
    print_note,
    print_raw_scores,
)
from laconic.cli.verb import argument, command, option
from laconic.errors import ConfigError, DataError
from laconic.units import counted

if TYPE_CHECKING:
    from laconic.data.formats.entries import Entry, OnBad
    from laconic.data.streams import Reading, Stream
    from laconic.predict.explain import Explained
    from laconic.predict.interface import TextPredictor
    from laconic.predict.output import Answered, Destination, Write

verbs = typer.Typer()

_AT_ONCE = 1024  # texts
_FORMS = "lines, jsonl, csv, tsv or parquet. Default: by the file's suffix."


@command(
    verbs,
    group="Train and use",
    example='laconic predict model --text "photo editor"\n'
    "laconic predict model titles.csv --column text=title --out answers.csv\n"
    "cat queries.txt | laconic predict model -k 3 --json\n"
    "laconic predict model titles/ --engine ray --out answers/",
)
def predict(
    model: Annotated[Path, argument("MODEL", "A model folder, or a packed one.")],
    files: Annotated[
        list[str] | None,
        argument(
            "FILE",
            "Texts: lines, JSON Lines or a table; several files and patterns such as 'in/*.csv' too. - is the standard "
            "input, which is the default.",
        ),
    ] = None,
    texts: Annotated[list[str] | None, option(DATA, "--text TEXT", "A text to label; may be repeated.")] = None,
    form: Annotated[str, option(DATA, "--format NAME", _FORMS)] = "",
    columns: ColumnNames = None,
    skip_bad: Annotated[
        bool, option(DATA, "--skip-bad", "Skip records that cannot be read, and report their number.")
    ] = False,
    k: Annotated[
        int | None,
        option(METHOD, "-k K", "Labels per text. Default: 5, or as many as a stored threshold was chosen for.", min=1),
    ] = None,
    min_score: Annotated[
        str,
        option(
            METHOD,
            "--min-score --threshold SCORE",
            "Omit labels with a lower score; stored: lower than the threshold that `laconic threshold` has stored.",
        ),
    ] = "",
    allow: Annotated[Path | None, option(METHOD, "--allow FILE", "File of label names; predict only these.")] = None,
    block: Annotated[Path | None, option(METHOD, "--block FILE", "File of label names; predict none of these.")] = None,
    where: Annotated[
        list[str] | None,
        option(
            METHOD,
            "--where NAME=VALUE",
            "Predict only labels with this value of an attribute; may be repeated: one of the values of an attribute, "
            "and all attributes.",
        ),
    ] = None,
    settings: PredictionSettings = None,
    device: Device = "auto",
    beam: Beam = None,
    exact: Exact = False,
    threads: Threads = None,
    no_verify: NoVerify = False,
    engine: Engine = "",
    address: Address = "",
    workers: Workers = None,
    as_json: Annotated[bool, option(OUTPUT, "--json", "Print JSON, one object per text and line.")] = False,
    to: Annotated[
        Path | None,
        option(
            OUTPUT,
            "--out FILE",
            "Write to this .jsonl, .csv, .tsv or .parquet file; with --engine, to a folder of Parquet files.",
        ),
    ] = None,
    csv_safe: Annotated[
        bool,
        option(
            OUTPUT,
            "--csv-safe",
            "Write a ' before cells of --out .csv or .tsv that a spreadsheet would run as formulas.",
        ),
    ] = False,
    explain: Annotated[
        bool,
        option(
            OUTPUT,
            "--explain",
            "Packed models: show each word's contribution to a label, and near training texts if stored.",
        ),
    ] = False,
) -> None:
    """Label texts, best label first: of a file, of --text, or typed at a prompt."""
    from laconic.config import read_settings
    from laconic.data.streams import in_pieces
    from laconic.predict.label_filter import LabelFilter
    from laconic.predict.load import Speed, open_model
    from laconic.predict.min_score import parse_min_score, places, reaching
    from laconic.predict.output import Answered, Shape, answers_file

    least = parse_min_score(min_score)
    paths = _paths(files or [])
    wanted = LabelFilter(_names(allow), _names(block), _where(where or []))
    overrides = read_settings(None, settings or [])
    speed = Speed(beam=beam, exact=exact, threads=threads)
    check_engine(
        engine,
        without={"--address": address, "--workers": workers},
        within={"--text": texts, "--json": as_json, "--csv-safe": csv_safe, "--explain": explain, "--threads": threads},
    )
    if engine:
        asked = {"column": _text_column(columns), "k": k, "min_score": least, "device": device, "settings": overrides}
        how = InParts(form=form, skip_bad=skip_bad, verify=not no_verify, address=address, workers=workers)
        predict_in_parts(model, paths, to, {**asked, **wanted._asdict(), "speed": speed}, how)
        return
    if texts and (paths or form or columns):
        raise ConfigError("--text takes the place of a file, of --format and of --column; leave one of them out")
    destination = None if to is None else _destination(to, paths, as_json)
    if explain and destination is not None and destination.form != "jsonl":
        raise ConfigError(f"--explain needs a .jsonl file to write to, but --out is {to}")
    if csv_safe and (destination is None or destination.form not in ("csv", "tsv")):
        raise ConfigError("--csv-safe is for an --out file that ends in .csv or .tsv; leave it out")
    _reading(
        paths[0] if paths else Path("-"), form=form, columns=columns
    )  # reports wrong settings before the model is opened
    predictor = open_model(model, device=device, settings=overrides, speed=speed, verify=not no_verify)
    bad = _Tally()
    reading = partial(_reading, form=form, columns=columns, fields=predictor.fields)
    most = places(k, least, predictor.threshold)
    if isinstance(least, float):
        print_raw_scores(predictor.facts, f"--min-score {min_score} compares", model)
    typed = not texts and not paths and sys.stdin.isatty()
    if typed:
        err.print("Type a text and press Enter; Ctrl-D ends.")
    with _given(texts) if texts else _texts(paths, reading, bad.add if skip_bad else _refused) as stream:
        shape = Shape(stream.columns, min(most, len(predictor.names)))
        printing = nullcontext(_printer(predictor, as_json))
        writing = printing if destination is None else answers_file(destination, shape, without_formulas=csv_safe)
        with writing as write, _bar(stream, printing=destination is None) as advance:
            for piece in in_pieces(stream.entries, 1 if typed else _AT_ONCE):
                answers = predictor.answer([entry.text for entry in piece], most, **wanted._asdict())
                written = [
                    Answered(entry, reaching(own, least, predictor.threshold), known)
                    for entry, (own, known) in zip(piece, answers, strict=True)
                ]
                write(_explained(predictor, written) if explain else written)
                advance(len(piece))
    bad.tell()


def _paths(files: Sequence[str]) -> list[Path]:
    """Return the files that are named, or that a pattern finds, each once; none: the standard input."""
    if "-" in files:
        if len(files) > 1:
            raise ConfigError("- is the standard input, which does not go with files; leave one of them out")
        return []
    found: dict[Path, None] = {}
    for name in files:
        several = [] if Path(name).exists() else sorted(glob(name, recursive=True))
        if not several and has_magic(name) and not Path(name).exists():
            raise DataError(f"{name}: no file has such a name")
        found |= dict.fromkeys(map(Path, several or [name]))
    return [*found]


def _reading(path: Path, *, form: str, columns: list[str] | None, fields: str = "") -> Reading:
    """Return how texts are read: the form of the file, and the column of the texts; `fields` are the model's."""
    from laconic.data.streams import Reading, form_of

    return Reading(form=form or form_of(path) or "lines", column=_text_column(columns), fields=fields)


def _text_column(columns: list[str] | None) -> str:
    """Return the column of the texts that --column names; empty: none is."""
    from laconic.config import configure, read_settings
    from laconic.data.formats.tabular import Columns

    return configure(Columns, read_settings(None, column_names(columns))).text


def _destination(to: Path, files: Sequence[Path], as_json: bool) -> Destination:
    """Return where to write, or refuse it before any work is done."""
    from laconic.predict.output import Destination

    destination = Destination.at(to, usual="jsonl" if as_json else "")
    if as_json and destination.form != "jsonl":
        raise ConfigError(f"--json does not go with --out {to}, which is {destination.form}; leave one of them out")
    if any(to.exists() and file.exists() and to.samefile(file) for file in files):
        raise ConfigError(f"--out {to}: this is the file that is read; choose another name")
    return destination


def _names(path: Path | None) -> list[str] | None:
    from laconic.data.formats.lines import lines

    return None if path is None else [line for _, line in lines(path, may_be_empty=True) if line]


def _where(assignments: Sequence[str]) -> dict[str, list[str]] | None:
    """Return the values of each attribute that is named; None: none is."""
    found: dict[str, list[str]] = {}
    for assignment in assignments:
        name, marker, value = assignment.partition("=")
        if not marker or not name.strip() or not value.strip():
            raise ConfigError(f"--where must be NAME=VALUE, such as category=fiction, but is {assignment!r}")
        found.setdefault(name.strip(), []).append(value.strip())
    return found or None


def _refused(error: DataError) -> None:
    raise DataError(f"{error}; --skip-bad skips what cannot be read") from None


class _Tally:
    """Counts unreadable texts that were skipped."""

    def __init__(self) -> None:
        self.count, self.first = 0, ""

    def add(self, error: DataError) -> None:
        self.count, self.first = self.count + 1, self.first or str(error)

    def tell(self) -> None:
        if self.count:
            skipped = (
                f"{counted(self.count, 'text was', 'texts were')} skipped because of errors; the first: {self.first}"
            )
            print_note(skipped)


def _texts(files: Sequence[Path], reading: Callable[[Path], Reading], on_bad: OnBad) -> AbstractContextManager[Stream]:
    from laconic.data.streams import opened_stream, opened_streams, stream_of

    if not files:
        how = reading(Path("-"))
        stream = stream_of(sys.stdin.buffer, "the standard input", how, on_bad)
        return nullcontext(stream._replace(entries=_noting_records(stream.entries)) if how.form == "lines" else stream)
    return (
        opened_stream(files[0], reading(files[0]), on_bad)
        if len(files) == 1
        else opened_streams(files, reading, on_bad)
    )


def _noting_records(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Yield plain texts; print a note where the first one looks like a record of JSON Lines."""
    for place, entry in enumerate(entries):
        if not place and entry.text.startswith('{"'):
            print_note("the first line looks like JSON, but is read as a plain text; --format jsonl reads records")
        yield entry


def _given(texts: Sequence[str]) -> AbstractContextManager[Stream]:
    """Stream the texts of --text."""
    from laconic.data.formats.entries import Entry
    from laconic.data.streams import Stream

    return nullcontext(Stream(iter([Entry(text, {}) for text in texts]), (), None, lambda: 0))


def _printer(predictor: TextPredictor, as_json: bool) -> Write:
    """Return a function that prints answers to the standard output and flushes it."""
    from laconic.predict.explain import Explained
    from laconic.predict.output import json_line

    def lines(answered: Answered) -> Iterator[str]:
        if as_json:
            yield json_line(answered)
            return
        yield answered.entry.text
        if not answered.known_words:
            yield "  no known words"
        for prediction in answered.predictions:
            own_text = predictor.text_of(prediction.label)
            yield f"  {prediction.score:.3f}  {prediction.label}" + (f"  ({own_text})" if own_text else "")
            if isinstance(prediction, Explained):
                yield from (f"         {reason}" for reason in _reasons(prediction))

    def write(answers: Sequence[Answered]) -> None:
        for answered in answers:
            sys.stdout.writelines(f"{line if as_json else escaped(line)}\n" for line in lines(answered))
        sys.stdout.flush()

    return write


def _reasons(explained: Explained) -> Iterator[str]:
    """Yield a line with the words' contributions and a line for each near text."""
    yield "  ".join(f"{word} {share:+.3f}" for word, share in explained.words)
    for text, similarity in explained.texts:
        yield f"near {similarity:.3f}  {' '.join(text.split())}"


def _explained(predictor: TextPredictor, answers: Sequence[Answered]) -> list[Answered]:
    from laconic.predict.prediction import Prediction

    def explained(answered: Answered) -> Answered:
        found = [one for one in answered.predictions if isinstance(one, Prediction)]
        return answered._replace(predictions=predictor.explained(answered.entry.text, found))

    return [explained(answered) for answered in answers]


@contextmanager
def _bar(stream: Stream, *, printing: bool) -> Iterator[Callable[[int], None]]:
    """Show progress on a terminal, unless the answers themselves are printed there."""
    from laconic.cli.progress import reading_progress

    if printing and sys.stdout.isatty():
        yield lambda texts: None
        return
    with reading_progress(err, stream.size) as bar:
        yield lambda texts: bar(texts, stream.position())
