"""Subject vocabularies as lists of labels: Annif's TSV and CSV here, SKOS in its own module.

TSV   <address> <tab> name <tab> notation          without a header; a subject without a name is deprecated
CSV   uri,label_en,label_fi,notation               a name per language
      id,text,category                             or a list of labels as a table

Other columns of CSV, except notation, are attributes of the labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from laconic.data.formats import jsonl, skos
from laconic.data.formats.assemble import LabelRow
from laconic.data.formats.lines import delimited_rows, first_lines, form_of_content, lines, numbered, opened
from laconic.data.formats.records import excerpt
from laconic.data.formats.tabular import check_cells
from laconic.errors import DataError

ENDINGS = ("jsonl", "tsv", "csv", *skos.ENDINGS)
_OF_SUBJECTS = ("uri", "notation")  # other columns are attributes, except names
_OF_LABELS = ("id", "text")
_ADDRESS = re.compile(r"<?([^<>\s]+)>?")


def label_rows(path: Path, languages: Sequence[str] = ()) -> Iterable[LabelRow]:
    """Read a list of labels or a vocabulary; of names in several languages, those of some languages or of all."""
    if skos.form_of(path) is not None:
        return skos.label_rows(path, languages)
    if form_of_content(path) == "json":
        return jsonl.label_rows(path)
    first = first_lines(path).partition("\n")[0]
    header = [cell.strip().lower() for cell in re.split("[,;\t]", first.strip())]
    if "uri" in header:
        return _csv_rows(path, languages)
    return _table_rows(path) if "id" in header and not first.startswith("<") else _tsv_rows(path)


def named(path: Path, languages: Sequence[str] = ()) -> Mapping[str, str]:
    """Return the labels of a vocabulary by what they are called; their own texts come before other names."""
    rows = list(label_rows(path, languages))
    others = {name: row.name for row in reversed(rows) for name in row.alternatives}
    return others | {row.text: row.name for row in reversed(rows) if row.text}


def _tsv_rows(path: Path) -> Iterator[LabelRow]:
    for number, line in lines(path):
        address, _, rest = line.strip().partition("\t")
        name = rest.partition("\t")[0].strip()
        if name:
            yield LabelRow(f"{path}:{number}", _address(address, f"{path}:{number}"), name)
        elif line.strip():  # deprecated, as Annif has it; what has no brackets is another kind of file
            _address(address, f"{path}:{number}", brackets=True)


def _csv_rows(path: Path, languages: Sequence[str]) -> Iterator[LabelRow]:
    for place, row in _cells(path, ","):
        names = {key.removeprefix("label_"): [cell] for key, cell in row.items() if key.startswith("label_") and cell}
        if names:
            others = {
                key: cell for key, cell in row.items() if not key.startswith("label_") and key not in _OF_SUBJECTS
            }
            text, alternatives = skos.text_and_others(names, {}, languages)
            yield LabelRow(place, _address(row["uri"], place), text, alternatives, attributes=others)


def _table_rows(path: Path) -> Iterator[LabelRow]:
    """Yield the labels of a table with the columns id and, if there is one, text; other columns are attributes."""
    for place, row in _cells(path):
        own = {key.lower(): cell for key, cell in row.items() if key.lower() in _OF_LABELS}
        others = {key: cell for key, cell in row.items() if key.lower() not in _OF_LABELS}
        yield LabelRow(place, own["id"].strip(), own.get("text"), attributes=others)


def _cells(path: Path, delimiter: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a table with their places, each as cells by the name of their column."""
    with opened(path) as file:
        rows = delimited_rows(numbered(file, str(path)), str(path), delimiter, remedy="close every quote")
        header: list[str] = []
        for place, cells in rows:
            if isinstance(cells, DataError):
                raise cells
            if not header:
                header = [cell.strip() for cell in cells]
            elif cells:
                check_cells(cells, header, place)
                yield place, dict(zip(header, cells, strict=True))


def _address(cell: str, place: str, *, brackets: bool = False) -> str:
    match = _ADDRESS.fullmatch(cell.strip())
    if match is None or (brackets and not cell.startswith("<")):
        raise DataError(
            f"{place}: {excerpt(cell)!r} is not the address of a subject; a line of a vocabulary is "
            "<http://...>, a tab, and the subject's name; any other list of labels is a table with the columns id and "
            "text, or JSON Lines"
        )
    return match[1]
