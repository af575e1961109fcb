"""A folder of answers: which job it belongs to, which of its parts are written, and its end.

_job.json        the model, the question and the input files: another job is refused
NAME.parquet     a part per unit, in the order of the input
_receipts/       a receipt per part that is written; gone when all are
_bad/            a file per part that lacks rows which could not be read
_manifest.json   the receipts of all parts and their sums
_SUCCESS         all parts are written
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

from laconic.bulk.labeller import Question
from laconic.bulk.part import BAD, RECEIPTS, Receipt, receipt_of
from laconic.bulk.units import Unit
from laconic.errors import ConfigError, DataError
from laconic.storage.json_files import read_json, write_json
from laconic.storage.manifest import version_of
from laconic.system.files import replacing_file, sweep_files
from laconic.system.locks import locked
from laconic.units import counted

_JOB, _MANIFEST, _SUCCESS = "_job.json", "_manifest.json", "_SUCCESS"
_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Job:
    """Units to answer with a model, and the folder that their parts go to."""

    folder: Path
    model: Path  # the folder that answers: a packed model, or a model
    question: Question
    units: Sequence[Unit]
    skip_bad: bool = False

    def description(self) -> dict[str, Any]:
        """Return all that decides on what the parts hold; skipping bad rows may begin later."""
        files = dict.fromkeys(unit.file for unit in self.units)
        about = {
            "format": _FORMAT,
            "model": version_of(self.model),
            "files": {str(file): [file.stat().st_size, file.stat().st_mtime_ns] for file in files},
            "question": asdict(self.question),
        }
        found: dict[str, Any] = json.loads(json.dumps(about))
        return found


class Totals(NamedTuple):
    """The sums over all parts of a folder."""

    parts: int
    rows: int
    bad: int


@contextmanager
def opened_job(job: Job) -> Iterator[list[Unit]]:
    """Hold the folder of a job and yield the units whose parts are missing; a folder of another job is refused."""
    with locked(job.folder) as alone:
        _check_folder(job)
        (job.folder / RECEIPTS).mkdir(parents=True, exist_ok=True)
        if alone:  # what killed processes have left
            for folder in (job.folder, job.folder / RECEIPTS, job.folder / BAD):
                sweep_files(folder)
        _write(job.folder / _JOB, job.description())
        yield [unit for unit in job.units if _receipt(job.folder, unit) is None]


def finished(job: Job) -> Totals | None:
    """Return the sums of a folder where all parts are written, else None; a folder of another job is refused."""
    _check_folder(job)
    success = job.folder / _SUCCESS
    return Totals(**_read(success)) if success.exists() else None


def finish(job: Job) -> Totals:
    """Write the manifest and then _SUCCESS; all parts must be there."""
    receipts = [receipt for unit in job.units if (receipt := _receipt(job.folder, unit)) is not None]
    missing = {unit.name for unit in job.units} - {receipt.part for receipt in receipts}
    if missing:
        raise DataError(
            f"{job.folder}: {counted(len(missing), 'part is', 'parts are')} missing, the first is {min(missing)}; run "
            "the command again"
        )
    totals = Totals(len(receipts), sum(one.rows for one in receipts), sum(one.bad for one in receipts))
    _write(job.folder / _MANIFEST, job.description() | totals._asdict() | {"written": [*map(asdict, receipts)]})
    _write(job.folder / _SUCCESS, totals._asdict())
    rmtree(job.folder / RECEIPTS)
    return totals


def _check_folder(job: Job) -> None:
    """Refuse a folder that holds something else than this job."""
    folder = job.folder
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--out {folder}: this is a file, where a folder is needed; choose another name")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / _JOB).exists():
        raise ConfigError(f"--out {folder}: the folder holds files that are no answers; choose another name")
    before, now = _read(folder / _JOB), job.description()
    differing = next((key for key in now if before.get(key) != now[key]), None)
    if differing is not None:
        what = {"model": "another model", "files": "other files, or files that have changed since"}
        raise ConfigError(
            f"--out {folder}: its parts are of {what.get(differing, 'other options')}; choose another folder, or "
            "remove this one to begin anew"
        )


def _receipt(folder: Path, unit: Unit) -> Receipt | None:
    """Return the receipt of a part that is there in its size; None: it has to be written."""
    path, part = receipt_of(folder, unit), folder / unit.name
    if not path.exists() or not part.exists():
        return None
    receipt = Receipt(**_read(path))
    return receipt if receipt.bytes == part.stat().st_size else None


def _write(path: Path, value: Mapping[str, Any]) -> None:
    with replacing_file(path) as partial:
        write_json(partial, value)


def _read(path: Path) -> dict[str, Any]:
    return read_json(path, lambda what: DataError(f"{path}: {what}; remove the folder to begin anew"))
