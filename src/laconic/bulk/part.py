"""Answer one unit: read its texts, label them, and write its part, which appears whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from laconic.bulk.labeller import Labeller
from laconic.bulk.unit_reader import Wanted, pieces
from laconic.bulk.units import Unit
from laconic.data.formats.entries import OnBad
from laconic.errors import DataError
from laconic.storage.json_files import write_json
from laconic.system.files import replacing_file, writing

RECEIPTS, BAD = "_receipts", "_bad"  # folders beside the parts, which readers of Parquet folders pass over
_BLOCK = 1 << 20  # bytes that are hashed at a time


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What was written for a unit. A part counts as written when its receipt is there."""

    part: str
    file: str  # that was read
    row: int  # number of its first row or line there
    rows: int  # answered
    bad: int  # rows that were skipped
    bytes: int
    sha256: str


def answer_unit(unit: Unit, labeller: Labeller, folder: Path, *, skip_bad: bool) -> Receipt:
    """Write the part of a unit, the file of its bad rows if there are any, and its receipt."""
    bad: list[str] = []

    def on_bad(error: DataError) -> None:
        if not skip_bad:
            raise DataError(f"{error}; --skip-bad skips what cannot be read") from None
        bad.append(str(error))

    rows = _write_part(unit, labeller, folder / unit.name, on_bad)
    if bad:
        with writing(folder / BAD / f"{unit.name.removesuffix('.parquet')}.jsonl") as file:
            file.writelines(json.dumps({"error": error}).encode() + b"\n" for error in bad)
    size, content = (folder / unit.name).stat().st_size, _sha256(folder / unit.name)
    receipt = Receipt(
        part=unit.name, file=str(unit.file), row=unit.row, rows=rows, bad=len(bad), bytes=size, sha256=content
    )
    with replacing_file(receipt_of(folder, unit)) as path:
        write_json(path, asdict(receipt))
    return receipt


def receipt_of(folder: Path, unit: Unit) -> Path:
    """Return the file of a unit's receipt."""
    return folder / RECEIPTS / f"{unit.name}.json"


def _write_part(unit: Unit, labeller: Labeller, path: Path, on_bad: OnBad) -> int:
    """Write texts with their answers; return their number."""
    import pyarrow.parquet

    rows, writer = 0, None
    with writing(path) as file:
        try:
            for table in _labelled(unit, labeller, on_bad):
                writer = writer or pyarrow.parquet.ParquetWriter(file, table.schema)
                writer.write_table(table)
                rows += table.num_rows
        finally:
            if writer is not None:
                writer.close()
    return rows


def _labelled(unit: Unit, labeller: Labeller, on_bad: OnBad) -> Iterator[Any]:
    """Yield tables of some texts with their answers."""
    for texts, table in pieces(unit, Wanted(labeller.column, labeller.fields), on_bad):
        for name, column in labeller.answers(texts)._asdict().items():
            table = table.append_column(name, column)
        yield table


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()
