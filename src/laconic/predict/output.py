"""Writes predictions to a file in the order of the texts; the file appears whole or not at all.

jsonl      {"text": ..., whatever else the text's record had, "predictions": [{"label": ..., "score": ...}, ...],
           "known_words": how many of the text's words the model knows}; where answers are explained, each prediction
           has "words": [{"word": ..., "share": ...}, ...] too and, where the model keeps training texts, "texts":
           [{"text": ..., "similarity": ...}, ...]
csv, tsv   a row a text: text, id (where texts come with one), the other columns of the table that was read, label_1,
           score_1, label_2, ... (empty where there is none), known_words
parquet    the same columns

The file's ending says which it is; .gz may follow, but for Parquet.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from gzip import GzipFile
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from laconic.data.formats.entries import Entry
from laconic.data.streams import form_of
from laconic.errors import ConfigError
from laconic.predict.explain import Explained
from laconic.predict.prediction import Prediction
from laconic.system.files import writing

_KNOWN = "known_words"
_OWN_COLUMN = re.compile(rf"(label|score)_\d+|{_KNOWN}")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # what a spreadsheet's formulas begin with
_ROW_GROUP = 1 << 15  # rows that Parquet gets at a time

Predictions: TypeAlias = Sequence[Prediction | Explained]
Write: TypeAlias = Callable[[Sequence["Answered"]], None]


class Answered(NamedTuple):
    """A text with its record's fields and its predictions."""

    entry: Entry
    predictions: Predictions
    known_words: int


class Shape(NamedTuple):
    """The columns of a table."""

    columns: Sequence[str]  # that texts come with: their ids and others
    places: int  # labels a text, at most

    @property
    def kept(self) -> list[str]:
        """Return the columns that texts come with, without those that answers take the place of."""
        return [name for name in self.columns if not _OWN_COLUMN.fullmatch(name)]


class Destination(NamedTuple):
    """A file to write, and its format."""

    path: Path
    form: str

    @staticmethod
    def at(path: Path, usual: str = "") -> Destination:
        """Return the destination in the format of the suffix, or the default one; refuse what cannot be written."""
        form = form_of(path) or usual
        if not form:
            raise ConfigError(f"--out must end in .jsonl, .csv, .tsv or .parquet, .gz may follow; but it is {path}")
        if form == "parquet" and _is_packed(path):
            raise ConfigError(f"--out {path}: Parquet packs itself; leave .gz out")
        if path.exists() and not path.is_file():
            raise ConfigError(f"--out {path}: this is there already and is no file; choose another name")
        above = next(folder for folder in path.absolute().parents if folder.exists())
        if not above.is_dir():
            raise ConfigError(f"--out {path}: {above} is a file, where a folder is needed; choose another place")
        return Destination(path, form)


@contextmanager
def answers_file(destination: Destination, shape: Shape, *, without_formulas: bool = False) -> Iterator[Write]:
    """Write answers to a file that appears when the block ends without an error.

    `without_formulas`: cells of CSV and TSV that a spreadsheet would take for formulas begin with a quote.
    """
    path, form = destination
    with writing(path) as file:
        if form == "parquet":
            with _parquet(file, shape) as write:
                yield write
        else:
            with _text(file, packed=_is_packed(path)) as text:
                yield _json_writer(text) if form == "jsonl" else _table_writer(text, form, shape, without_formulas)


def json_line(answered: Answered) -> str:
    entry, predictions, known = answered
    own = {"predictions": [_object(prediction) for prediction in predictions], "known_words": known}
    return _encodable(json.dumps({"text": entry.text, **entry.fields, **own}, ensure_ascii=False))


def _object(prediction: Prediction | Explained) -> dict[str, Any]:
    if isinstance(prediction, Prediction):
        return prediction._asdict()
    texts = {"texts": [text._asdict() for text in prediction.texts]} if prediction.texts else {}
    words = [word._asdict() for word in prediction.words]
    return {"label": prediction.label, "score": prediction.score, "words": words, **texts}


def _is_packed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _encodable(text: str) -> str:
    """Escape surrogates, which JSON may hold and UTF-8 may not, as JSON writes them."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


@contextmanager
def _text(file: IO[bytes], *, packed: bool) -> Iterator[TextIOWrapper]:
    # No name and no time inside, so that the same answers give the same bytes.
    raw = GzipFile("", "wb", 6, file, mtime=0) if packed else file
    with TextIOWrapper(raw, encoding="utf-8", newline="") as text:
        yield text


def _json_writer(file: TextIOWrapper) -> Write:
    """Write one JSON object per line."""

    def write(answers: Sequence[Answered]) -> None:
        file.writelines(json_line(answered) + "\n" for answered in answers)

    return write


def _table_writer(file: TextIOWrapper, form: str, shape: Shape, without_formulas: bool) -> Write:
    table = csv.writer(file, delimiter="\t" if form == "tsv" else ",", lineterminator="\n")
    cells = _without_formulas if without_formulas else list[Any]
    table.writerow(cells(_header(shape)))

    def write(answers: Sequence[Answered]) -> None:
        table.writerows(cells(_row(answered, shape)) for answered in answers)

    return write


def _without_formulas(cells: Sequence[Any]) -> list[Any]:
    return [f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in cells]


def _header(shape: Shape) -> list[str]:
    places = [f"{what}_{place}" for place in range(1, shape.places + 1) for what in ("label", "score")]
    return ["text", *shape.kept, *places, _KNOWN]


def _row(answered: Answered, shape: Shape) -> list[Any]:
    entry, predictions, known = answered
    cells = [cell for prediction in predictions for cell in prediction[:2]]
    missing = [None] * (2 * shape.places - len(cells))
    return [entry.text, *(cell_text(entry.fields.get(name)) for name in shape.kept), *cells, *missing, known]


def cell_text(value: Any) -> str | None:
    if value is None:
        return None
    return _encodable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


@contextmanager
def _parquet(file: IO[bytes], shape: Shape) -> Iterator[Write]:
    import pyarrow
    import pyarrow.parquet

    header = _header(shape)
    kinds = {"score": pyarrow.float64(), _KNOWN: pyarrow.int64()}
    own = {
        name: kinds.get(name if name == _KNOWN else name.partition("_")[0]) for name in header[1 + len(shape.kept) :]
    }
    types = [own.get(name) or pyarrow.string() for name in header]
    schema = pyarrow.schema(list(zip(header, types, strict=True)))
    rows: list[list[Any]] = []
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:

        def flush() -> None:
            columns = zip(zip(*rows, strict=True), types, strict=True)
            arrays = [pyarrow.array(column, kind) for column, kind in columns]
            writer.write_table(pyarrow.table(arrays, schema=schema))
            rows.clear()

        def write(answers: Sequence[Answered]) -> None:
            rows.extend(_row(answered, shape) for answered in answers)
            if len(rows) >= _ROW_GROUP:
                flush()

        yield write
        if rows:
            flush()
