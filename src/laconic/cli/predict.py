"""The verb `predict`: label the texts of a file or of the standard input, a few at a time and in order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from laconic.cli.pack import Beam, Exact, Threads
from laconic.errors import ConfigError, DataError
from laconic.units import counted, plural

if TYPE_CHECKING:
    from laconic.data.formats.entries import OnBad
    from laconic.data.streams import Reading, Stream
    from laconic.predict.explain import Explained
    from laconic.predict.interface import TextPredictor
    from laconic.predict.output import Answered, Destination, Write
    from laconic.predict.prediction import Answer

verbs = typer.Typer()
err = Console(stderr=True, highlight=False, markup=False)

_AT_ONCE = 1024  # texts
_FORMS = "lines, jsonl, csv, tsv or parquet. Default: by the file's suffix."


@verbs.command()
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder, or a packed one.")],
    file: Annotated[
        str, typer.Argument(metavar="[FILE | -]", help="Texts: lines, JSON Lines, a table. - is the standard input.")
    ] = "-",
    k: Annotated[int, typer.Option("-k", help="Labels per text.", min=1)] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    to: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write to this .jsonl, .csv, .tsv or .parquet file.")
    ] = None,
    min_score: Annotated[float | None, typer.Option(help="Omit labels with a lower score.")] = None,
    form: Annotated[str, typer.Option("--format", help=_FORMS)] = "",
    column: Annotated[str, typer.Option(help="Column or JSON key that holds the text.")] = "",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip records that cannot be read, and report their number.")
    ] = False,
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of prediction, such as alpha=0.3."),
    ] = None,
    allow: Annotated[Path | None, typer.Option(help="File of label names; predict only these.")] = None,
    block: Annotated[Path | None, typer.Option(help="File of label names; predict none of these.")] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Packed models: show each word's contribution to a label, and near training texts if stored.",
        ),
    ] = False,
    beam: Beam = None,
    exact: Exact = False,
    threads: Threads = None,
) -> None:
    """Label texts, best label first."""
    from laconic.config import read_settings
    from laconic.data.streams import Reading, form_of, in_pieces
    from laconic.predict.load import Speed, open_model
    from laconic.predict.output import Answered, Shape, answers_file

    destination = None if to is None else _destination(to, file, as_json)
    if explain and destination is not None and destination.form != "jsonl":
        raise ConfigError(f"--explain wants a .jsonl to write to, but --out is {to}")
    reading = Reading(form=form or form_of(Path(file)) or "lines", column=column)
    speed = Speed(beam=beam, exact=exact, threads=threads)
    predictor = open_model(model, device=device, settings=read_settings(None, settings or []), speed=speed)
    allowed, blocked, bad = _names(allow), _names(block), _Tally()
    with _texts(file, reading, bad.add if skip_bad else _refused) as stream:
        shape = Shape(stream.have_ids, min(k, len(predictor.names)))
        printing = nullcontext(_printer(predictor, as_json))
        writing = printing if destination is None else answers_file(destination, shape)
        with writing as write, _bar(stream, printing=destination is None) as advance:
            for piece in in_pieces(stream.entries, 1 if file == "-" and sys.stdin.isatty() else _AT_ONCE):
                answers = predictor.answer([entry.text for entry in piece], k, allow=allowed, block=blocked)
                answers = answers if min_score is None else _at_least(min_score, answers)
                written = [Answered(entry, *answer) for entry, answer in zip(piece, answers, strict=True)]
                write(_explained(predictor, written) if explain else written)
                advance(len(piece))
    bad.tell()


def _destination(to: Path, file: str, as_json: bool) -> Destination:
    """Return where to write, or refuse it before any work is done."""
    from laconic.predict.output import Destination

    destination = Destination.at(to, usual="jsonl" if as_json else "")
    if as_json and destination.form != "jsonl":
        raise ConfigError(f"--json does not go with --out {to}, which is {destination.form}; leave one of them out")
    if file != "-" and to.exists() and Path(file).exists() and to.samefile(file):
        raise ConfigError(f"--out {to}: this is the file that is read; choose another name")
    return destination


def _names(path: Path | None) -> list[str] | None:
    from laconic.data.formats.lines import lines

    return None if path is None else [line for _, line in lines(path, may_be_empty=True) if line]


def _refused(error: DataError) -> None:
    raise DataError(f"{error}; or pass over all that cannot be read (--skip-bad)") from None


class _Tally:
    """Counts unreadable texts that were skipped."""

    def __init__(self) -> None:
        self.count, self.first = 0, ""

    def add(self, error: DataError) -> None:
        self.count, self.first = self.count + 1, self.first or str(error)

    def tell(self) -> None:
        if self.count:
            what = counted(self.count, "text could", "texts could") + " not be read and "
            what += plural(self.count, "was passed over, so it has", "were passed over, so they have")
            message = f"{what} no answer; the first: "
            err.print(Text.assemble(("note: ", "yellow"), message + self.first), soft_wrap=True)


def _texts(file: str, reading: Reading, on_bad: OnBad) -> AbstractContextManager[Stream]:
    from laconic.data.streams import opened_stream, stream_of

    if file == "-":
        return nullcontext(stream_of(sys.stdin.buffer, "the standard input", reading, on_bad))
    return opened_stream(Path(file), reading, on_bad)


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
            sys.stdout.writelines(f"{line}\n" for line in lines(answered))
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


def _at_least(score: float, answers: list[Answer]) -> list[Answer]:
    return [
        answer._replace(predictions=[one for one in answer.predictions if one.score >= score]) for answer in answers
    ]


@contextmanager
def _bar(stream: Stream, *, printing: bool) -> Iterator[Callable[[int], None]]:
    """Show progress on a terminal, unless the answers themselves are printed there."""
    from laconic.cli.progress import reading_progress

    if printing and sys.stdout.isatty():
        yield lambda texts: None
        return
    with reading_progress(err, stream.size) as bar:
        yield lambda texts: bar(texts, stream.position())
