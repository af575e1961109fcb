"""Read any source of texts and labels: a file's name tells its role, its content the format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from glob import glob
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
    columns = columns or Columns()
    return _with_group(_read(path, columns, familiar, vocabulary, languages), columns)


def _with_group(corpus: Corpus, columns: Columns) -> Corpus:
    """Note where the groups of texts came from; those that are asked for must be there."""
    split = corpus.split("train") if {"train", "all"} & {*corpus.splits} else None
    grouped = split is not None and split.groups is not None
    if columns.group and not grouped:
        raise DataError(
            f"{corpus.source}: no text has a group {columns.group!r} (--column group={columns.group}); name the column "
            "of a table, or the key of JSON Lines, that holds the groups"
        )
    if split is None or split.held_together() is None:
        return corpus
    return replace(corpus, group=columns.of_group() if grouped else columns.id or "id")


def _read(
    path: Path | str,
    columns: Columns,
    familiar: Familiar | None,
    vocabulary: Path | None,
    languages: Sequence[str],
) -> Corpus:
    path = _place(path)
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


def stream_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """Yield the texts of one file as it is read, without a list of labels; labels that are text need a separator."""
    read_rows = _reader(path, dict, columns)
    return tabular.rows_of(_table(path, columns), columns.separator) if read_rows is None else read_rows()


def files_by_split(name: str) -> dict[str, list[Path]]:
    """Return files by the name of their split; one file, those of a pattern, or a folder of files are the split "all".

    Inside a folder, a file or folder with a split's name holds that split.
    """
    path = _place(name)
    several = [] if path.exists() else sorted(map(Path, glob(name, recursive=True)))
    if not several and not path.exists():
        raise DataError(f"{name}: there is no such file or folder")
    if not path.is_dir():
        return {"all": several or [path]}
    named = {ROLES.get(inside.name.partition(".")[0], "") for inside in path.iterdir()}
    if "labels" in named:
        raise DataError(f"{path}: a list of labels is read by one process alone; leave --workers out")
    splits: dict[str, list[Path]] = {}
    for role in ("train", "valid", "test"):
        if role in named:
            splits[role] = _data_files(path, role)
    return splits or {"all": _data_files(path)}


def _data_files(folder: Path, role: str = "") -> list[Path]:
    """Return the files of data inside a folder, in order, or those of them that hold a split."""
    found = []
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        mine = not role or ROLES.get(parts[0].partition(".")[0]) == role
        if mine and path.is_file() and not any(part.startswith((".", "_")) for part in parts) and _is_table(path):
            found.append(path)
    if not found:
        raise DataError(f"{folder}: there is no file of texts in this folder; name files or a folder of them")
    return found


def _is_table(path: Path) -> bool:
    return path.name.removesuffix(".gz").rpartition(".")[2] in _TABLES


def _table(path: Path, columns: Columns) -> tabular.Table:
    return (tabular.parquet_table if form_of_content(path) == "parquet" else tabular.delimited_table)(path, columns)


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
    tables = {name: _table(path, columns) for name, path in paths.items() if readers[name] is None}
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
