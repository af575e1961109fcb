"""Read any source of texts and labels: a file's name tells its role, its content the format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from laconic.data.catalogue import BUNDLED
from laconic.data.corpus import Corpus
from laconic.data.fields import spec_of
from laconic.data.formats import annif, fasttext, jsonl, repository, subjects, tabular
from laconic.data.formats.assemble import LabelRow, Row, corpus_of
from laconic.data.formats.label_cells import Familiar
from laconic.data.formats.lines import first_lines, form_of_content
from laconic.data.formats.tabular import Columns
from laconic.errors import DataError

ROLES = {"train": "train", "valid": "valid", "validation": "valid", "dev": "valid", "test": "test"}
ROLES |= {"labels": "labels", "vocabulary": "labels"}
_FILE = re.compile(r"(?P<role>\w+)\.(?P<ending>\w+?)(\.gz)?")
_TABLES = ("jsonl", "csv", "tsv", "parquet")


def read(
    path: Path | str,
    columns: Columns | None = None,
    familiar: Familiar | None = None,
    *,
    vocabulary: Path | None = None,
    languages: Sequence[str] = (),
) -> Corpus:
    """Read the data at that path: a folder in one of the known layouts, or a single file of texts with labels.

    `familiar` says which labels a model has, where the data is for one: it tells what separates labels in a table.
    `vocabulary` is a list of labels or a subject vocabulary outside the folder; of one in several languages, the names
    in `languages` are read, or all.
    """
    path, columns = _place(path), columns or Columns()
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    files = _files(path) if path.is_dir() else {}
    found = files.pop("labels", None)
    if found and vocabulary:
        raise DataError(f"{path}: {found.name} is there, and {vocabulary} was named too; use one of them")
    labels = _Labels(vocabulary or found, languages)
    if path.is_dir():
        return _read_folder(path, files, labels, columns, familiar)
    if repository.recognises_file(path):
        return repository.read_file(path)
    return _corpus({"all": path}, labels, columns, familiar, str(path))


class _Labels(NamedTuple):
    """The list of labels or the vocabulary, if there is one."""

    path: Path | None
    languages: Sequence[str]

    def rows(self) -> Iterable[LabelRow] | None:
        return None if self.path is None else subjects.label_rows(self.path, self.languages)

    def named(self) -> Mapping[str, str]:
        return {} if self.path is None else subjects.named(self.path, self.languages)


def _place(path: Path | str) -> Path:
    """Return the path, or that of the bundled dataset of this name if nothing else has it."""
    return BUNDLED[str(path)] if str(path) in BUNDLED and not Path(path).exists() else Path(path)


def _read_folder(
    folder: Path,
    files: Mapping[str, Path],
    labels: _Labels,
    columns: Columns,
    familiar: Familiar | None,
) -> Corpus:
    if files and all(path.is_file() and form_of_content(path) == "json" for path in files.values()):
        return jsonl.read_folder(folder, files, labels.rows(), cache(labels.named), columns)
    if files:
        return _corpus(files, labels, columns, familiar, str(folder))
    if repository.recognises(folder):
        return repository.read(folder)
    if annif.is_folder(folder):
        return _corpus({"all": folder}, labels, columns, familiar, str(folder))
    there = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
    raise DataError(
        f"{folder}: no data set is recognised here (there is: {there}); expected are train.jsonl, train.csv, "
        "train.tsv or train.parquet, fastText's train.txt, Annif's documents (NAME.txt with NAME.tsv or NAME.key), or "
        "the Extreme Classification Repository's trn_X_Y.txt, trn.json or train.txt, any of them gzip'd"
    )


def _files(folder: Path) -> dict[str, Path]:
    """Return the folder's files, or folders of documents, by the name of their split, training texts first."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        role = _role(path)
        if role is None:
            continue
        if role in found:
            raise DataError(f"{folder}: both {found[role].name} and {path.name} are there; keep one of them")
        found[role] = path
    return {role: found[role] for role in ("train", "valid", "test", "labels") if role in found}


def _role(path: Path) -> str | None:
    """Return the split that a file or folder holds, or "labels"; None: neither."""
    match = _FILE.fullmatch(path.name)
    if match is None:
        role = ROLES.get(path.name)
        return role if role != "labels" and path.is_dir() and annif.is_folder(path) else None
    role, ending = ROLES.get(match["role"]), match["ending"]
    if role == "labels":
        return role if ending in subjects.ENDINGS else None
    labelled = role is not None and ending == "txt" and path.stat().st_size and fasttext.is_labelled(first_lines(path))
    return role if ending in _TABLES or labelled else None


def _corpus(
    paths: Mapping[str, Path],
    labels: _Labels,
    columns: Columns,
    familiar: Familiar | None,
    source: str,
) -> Corpus:
    """Read every file, whatever its form, in the order of the files."""
    named = cache(labels.named)
    readers = {name: _reader(path, named, columns) for name, path in paths.items()}
    tables = {
        name: (tabular.parquet_table if form_of_content(path) == "parquet" else tabular.delimited_table)(path, columns)
        for name, path in paths.items()
        if readers[name] is None
    }
    rows, facts, notes = tabular.table_rows(tables, columns, familiar)
    every = {name: rows[name] if read_rows is None else read_rows() for name, read_rows in readers.items()}
    fields = spec_of(columns.of_text()) if facts is None else facts.fields
    return corpus_of(every, labels.rows(), source=source, table=facts, notes=notes, fields=fields)


def _reader(path: Path, named: annif.Named, columns: Columns) -> Callable[[], Iterator[Row]] | None:
    """Return what reads a file or folder; None: it is a table."""
    if path.is_dir():
        return partial(annif.folder_rows, path, named)
    form = form_of_content(path)
    if form == "json":
        return partial(jsonl.rows, path, named=named, columns=columns)
    if form == "parquet":
        return None
    head = first_lines(path)
    if fasttext.is_labelled(head):
        return partial(fasttext.rows, path)
    return partial(annif.tsv_rows, path) if annif.is_corpus(head) else None
