"""Annif's document corpora: TSV without a header, folders of documents, and records with "subjects".

    TSV      text <tab> <address> <address> ...                       a document per line
    folder   NAME.txt with NAME.tsv (an address and a name per line) or NAME.key (a name per line), or NAME.json
    records  {"text": ..., "subjects": [{"uri": ...}, {"label": ...}]}, optionally "document_id" and "metadata"

Its CSV has a header and is read like any table. Subjects are labels by their addresses. Where a file has names instead,
a vocabulary tells which subjects they are; without one, names are labels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from laconic.data.formats.assemble import Row
from laconic.data.formats.lines import contents, decoded, lines
from laconic.data.formats.records import Record, excerpt, list_of, record_of, text, text_of
from laconic.errors import DataError

Named: TypeAlias = Callable[[], Mapping[str, str]]  # labels by what a vocabulary calls them; read when it is needed
_ADDRESSES = re.compile(r"\s*<[^<>\s]+>(?:\s+<[^<>\s]+>)*\s*")
_ADDRESS = re.compile(r"<([^<>\s]+)>")


def is_corpus(head: str) -> bool:
    """Tell by the first lines of a file whether it is a TSV corpus: addresses follow the first tab."""
    after = [line.partition("\t")[2] for line in head.splitlines()]
    return any(after) and all(_ADDRESSES.fullmatch(one) for one in after if one.strip())


def tsv_rows(path: Path) -> Iterator[Row]:
    """Yield the documents of a TSV corpus; a line without a tab has no subjects. Blank lines are skipped."""
    for number, line in lines(path):
        own, _, subjects = line.partition("\t")
        if line.strip():
            yield Row(f"{path}:{number}", own.strip(), [_address(one, f"{path}:{number}") for one in subjects.split()])


def is_folder(folder: Path) -> bool:
    """Tell whether a folder holds documents with their subjects."""
    return next(_documents(folder), None) is not None


def folder_rows(folder: Path, named: Named = dict) -> Iterator[Row]:
    """Yield the documents of a folder by their names; those without subjects are left out, as Annif does."""
    for document, subjects in _documents(folder):
        if subjects is None:
            record = record_of(decoded(contents(document), str(document)).replace("\n", " "), str(document))
            yield document_row(record, str(document), named)
        else:
            own = " ".join(line.strip() for _, line in lines(document))
            yield Row(str(document), own.strip(), _subjects(subjects, named), id=document.stem)


def is_document(record: Record) -> bool:
    """Tell whether a record is a document of Annif."""
    return "subjects" in record and "labels" not in record


def document_row(record: Record, place: str, named: Named = dict) -> Row:
    """Read a document of Annif that is a JSON object."""
    subjects = [_subject(one, f'{place}: "subjects"', named) for one in list_of(record, "subjects", place)]
    id = record.get("document_id")
    return Row(
        place,
        text_of(record, "text", place),
        subjects,
        id=None if id is None else text(id, f'{place}: "document_id"'),
    )


def _documents(folder: Path) -> Iterator[tuple[Path, Path | None]]:
    """Yield documents with the files of their subjects, which of a JSON document is the document itself (None)."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".txt":
            beside = (path.with_suffix(ending) for ending in (".tsv", ".key"))
            if subjects := next((one for one in beside if one.exists()), None):
                yield path, subjects
        elif path.suffix == ".json" and _has_subjects(path):
            yield path, None


def _has_subjects(path: Path) -> bool:
    try:
        record = json.loads(contents(path))
    except ValueError:  # not a document; what reads this folder next says what is wrong with it
        return False
    return isinstance(record, dict) and is_document(record)


def _subjects(path: Path, named: Named) -> list[str | int]:
    """Return the subjects of a file beside a document: an address, or else a name, per line."""
    found: list[str | int] = []
    for number, line in lines(path, may_be_empty=True):
        cells = [cell.strip() for cell in line.split("\t") if cell.strip()]
        if cells:
            first = cells[0]
            is_address = _ADDRESS.fullmatch(first) is not None
            found.append(_address(first, f"{path}:{number}") if is_address else named().get(first, first))
    return found


def _subject(value: Any, place: str, named: Named) -> str:
    match value:
        case {"uri": address}:
            return text(address, place)
        case {"label": name}:
            return named().get(text(name, place), name)
    raise DataError(f'{place} has {excerpt(repr(value))}, where {{"uri": ...}} or {{"label": ...}} is needed')


def _address(word: str, place: str) -> str:
    """Return an address without its brackets."""
    match = _ADDRESS.fullmatch(word)
    if match is None and ("<" in word or ">" in word or ":" not in word):
        raise DataError(
            f"{place}: the subject {excerpt(word)!r} is not an address in < >; write subjects as "
            "<http://...>, with spaces between them, after a single tab"
        )
    return word if match is None else match[1]
