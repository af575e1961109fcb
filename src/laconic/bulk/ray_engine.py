"""Answer the units of a job with actors of Ray, one core or one GPU each.

Actors of Ray itself and not of Ray Data: each takes about 50 MB less, and a unit is bound to its part. An actor that is
killed is started again by Ray and gets its unit once more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from laconic.bulk.job import Job, Totals, finish, finished, opened_job
from laconic.bulk.labeller import Labeller, Question, open_labeller
from laconic.bulk.model_copy import ModelCopy
from laconic.bulk.part import Receipt, answer_unit
from laconic.bulk.ray_cluster import connected, workers_of
from laconic.bulk.ray_pool import results, start_actors
from laconic.bulk.units import Unit
from laconic.errors import DataError, UserError

_STORE = 256 << 20  # bytes: receipts need little


def answer_job(
    job: Job, *, address: str = "", workers: int | None = None, on_part: Callable[[Receipt], None] = lambda part: None
) -> Totals:
    """Write the missing parts of a job, then its manifest; `on_part` hears of each part that is written."""
    done = finished(job)
    if done is not None:
        return done
    with opened_job(job) as units:
        if units:
            with connected(address, _STORE) as several:
                model = ModelCopy.of(job.model, travels=several)
                count = min(workers_of(job.question.device, workers), len(units))
                given = model, job.question, job.folder, job.skip_bad
                for _, receipt in results(start_actors(UnitActor, given, count, job.question.device), units):
                    on_part(receipt)
        return finish(job)


class UnitActor:
    """A model that answers units."""

    def __init__(self, model: ModelCopy, question: Question, folder: Path, skip_bad: bool) -> None:
        self._model, self._question, self._folder, self._skip_bad = model, question, folder, skip_bad

    def open(self) -> UserError | None:
        """Open the model."""
        try:
            if not self._folder.is_dir():
                raise DataError(
                    f"{self._folder}: a machine of the cluster does not see this folder; choose one that all share"
                )
            assert self._labeller
        except UserError as error:
            return error
        return None

    def work(self, unit: Unit) -> Receipt | UserError:
        """Write the part of a unit."""
        try:
            return answer_unit(unit, self._labeller, self._folder, skip_bad=self._skip_bad)
        except UserError as error:
            return error

    @cached_property
    def _labeller(self) -> Labeller:
        folder = self._model.here()
        return open_labeller(folder, self._question, verify=folder != self._model.folder)  # which was verified
