"""Read any source of texts and labels: a file's name tells its role, its content the format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from laconic.data.catalogue import BUNDLED
from laconic.data.corpus import Corpus
from laconic.data.formats import jsonl, repository, tabular
from laconic.data.formats.assemble import LabelRow, corpus_of
from laconic.data.formats.label_cells import Familiar
from laconic.data.formats.lines import form_of_content
from laconic.data.formats.tabular import Columns
from laconic.errors import DataError

ROLES = {"train": "train", "valid": "valid", "validation": "valid", "dev": "valid", "test": "test", "labels": "labels"}
_TABLE = re.compile(r"(?P<role>\w+)\.(jsonl|csv|tsv|parquet)(\.gz)?")


def read(path: Path | str, columns: Columns | None = None, familiar: Familiar | None = None) -> Corpus:
    """Read the data at that path: a folder in one of the known layouts, or a single file of texts with labels.

    `familiar` says which labels a model has, where the data is for one: it tells what separates labels in a table.
    """
    path, columns = _place(path), columns or Columns()
    if path.is_dir():
        return _read_folder(path, columns, familiar)
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    if repository.recognises_file(path):
        return repository.read_file(path)
    return _corpus({"all": path}, None, columns, familiar, str(path))


def _place(path: Path | str) -> Path:
    """Return the path, or that of the bundled dataset of this name if nothing else has it."""
    return BUNDLED[str(path)] if str(path) in BUNDLED and not Path(path).exists() else Path(path)


def _read_folder(folder: Path, columns: Columns, familiar: Familiar | None) -> Corpus:
    tables = _tables(folder)
    labels = tables.pop("labels", None)
    if tables and all(form_of_content(path) == "json" for path in tables.values()):
        return jsonl.read_folder(folder, tables, labels)
    if tables:
        label_rows = None if labels is None else jsonl.label_rows(labels)
        return _corpus(tables, label_rows, columns, familiar, str(folder))
    if repository.recognises(folder):
        return repository.read(folder)
    there = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
    raise DataError(
        f"{folder}: no data set is recognised here (there is: {there}); expected are train.jsonl, train.csv, "
        "train.tsv or train.parquet, or the Extreme Classification Repository's trn_X_Y.txt, trn.json or train.txt, "
        "any of them gzip'd"
    )


def _tables(folder: Path) -> dict[str, Path]:
    """Return the folder's tables by the name of their split, training texts first."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        match = _TABLE.fullmatch(path.name)
        role = ROLES.get(match["role"]) if match else None
        if role is None:
            continue
        if role in found:
            raise DataError(f"{folder}: both {found[role].name} and {path.name} are there; keep one of them")
        found[role] = path
    return {role: found[role] for role in ("train", "valid", "test", "labels") if role in found}


def _corpus(
    paths: Mapping[str, Path],
    label_rows: Iterable[LabelRow] | None,
    columns: Columns,
    familiar: Familiar | None,
    source: str,
) -> Corpus:
    """Read every file, whatever its form, in the order of the files."""
    tables = {
        name: (tabular.parquet_table if form == "parquet" else tabular.delimited_table)(path, columns)
        for name, path in paths.items()
        if (form := form_of_content(path)) != "json"
    }
    rows, facts, notes = tabular.table_rows(tables, columns, familiar)
    every = {name: rows[name] if name in rows else jsonl.rows(path) for name, path in paths.items()}
    return corpus_of(every, label_rows, source=source, table=facts, notes=notes)
