"""Jobs over a small model, and the engine of reference: one unit after the other, in this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from laconic.bulk.job import Job, Totals, finish, opened_job
from laconic.bulk.labeller import Question, answering_folder, open_labeller
from laconic.bulk.part import answer_unit
from laconic.bulk.ray_engine import answer_job
from laconic.bulk.units import files_in, units_of
from laconic.predict.load import open_model
from tests.serve.small import TEXTS

UNIT = 1024  # texts


def many_texts(count: int) -> list[str]:
    return [f"{TEXTS[number % len(TEXTS)]} {TEXTS[number * 7 % len(TEXTS)]}" for number in range(count)]


def write_titles(path: Path, count: int) -> Path:
    table = pa.table({"title": many_texts(count), "key": list(range(count))})
    pq.write_table(table, path, row_group_size=700)
    return path


def job_of(model: Path, inputs: Sequence[Path], to: Path, *, skip_bad: bool = False, **asked: Any) -> Job:
    question = Question(**asked)
    units = units_of(files_in(inputs), texts=UNIT)
    return Job(folder=to, model=answering_folder(model, question), question=question, units=units, skip_bad=skip_bad)


def answer_here(job: Job, most: int | None = None) -> Totals | None:
    """Answer the missing units of a job, or as many of them as are asked for; then it is not finished."""
    labeller = open_labeller(job.model, job.question)
    with opened_job(job) as units:
        for unit in units[:most]:
            answer_unit(unit, labeller, job.folder, skip_bad=job.skip_bad)
        return None if most is not None else finish(job)


def parts_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def expected_rows(model: Path, texts: Sequence[str], k: int) -> list[tuple[list[str], list[float], int]]:
    """Return what `laconic predict` answers to the texts of one file: 1,024 at a time."""
    predictor = open_model(model)
    pieces = (texts[first : first + 1024] for first in range(0, len(texts), 1024))
    answers = [answer for piece in pieces for answer in predictor.answer(piece, k)]
    return [([one.label for one in found], [one.score for one in found], known) for found, known in answers]


if __name__ == "__main__":  # a driver that can be killed: MODEL INPUT FOLDER WORKERS
    answer_job(job_of(Path(sys.argv[1]), [Path(sys.argv[2])], Path(sys.argv[3]), k=3), workers=int(sys.argv[4]))
