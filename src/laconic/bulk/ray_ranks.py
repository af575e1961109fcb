"""Rank the rows of an evaluation with actors of Ray; metrics are computed from all of them, as in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from laconic.bulk.labeller import Question, open_predictor
from laconic.bulk.model_copy import ModelCopy
from laconic.bulk.ray_cluster import connected, workers_of
from laconic.bulk.ray_pool import results, start_actors
from laconic.data.dataset import Rows
from laconic.errors import UserError
from laconic.packed.engine.texts import Ranked
from laconic.predict.interface import TextPredictor
from laconic.predict.label_filter import joined

_ROWS = 4096  # of an actor's work: a multiple of those that a model ranks together, so that scores do not depend on it


@dataclass(frozen=True)
class RanksOnRay:
    """Ranks rows on a cluster, with the model of a folder."""

    folder: Path
    question: Question  # device, settings and speed
    address: str = ""
    workers: int | None = None

    def __call__(self, rows: Rows, k: int, on_batch: Callable[[int], None]) -> Ranked:
        """Return the best k labels of rows, in their order."""
        import ray

        ranges = [range(first, min(first + _ROWS, rows.shape[0])) for first in range(0, rows.shape[0], _ROWS)]
        parts: dict[int, Ranked] = {}
        with connected(self.address) as several:
            given = ModelCopy.of(self.folder, travels=several), self.question
            count = min(workers_of(self.question.device, self.workers), len(ranges))
            actors = start_actors(RankActor, given, count, self.question.device)
            for one, ranked in results(actors, ranges, k, ray.put(rows)):
                parts[one.start] = Ranked(*map(np.array, ranked))  # out of the store
                on_batch(len(one))
        return joined([parts[first] for first in sorted(parts)], k)


class RankActor:
    """A model that ranks ranges of rows."""

    def __init__(self, model: ModelCopy, question: Question) -> None:
        self._model, self._question = model, question

    def open(self) -> UserError | None:
        """Open the model."""
        try:
            assert self._predictor
        except UserError as error:
            return error
        return None

    def work(self, which: range, k: int, rows: Rows) -> Ranked | UserError:
        """Return the best k labels of a range of rows."""
        some = rows[which.start : which.stop]
        try:
            return self._predictor.rank_rows(np.array(some) if isinstance(some, np.ndarray) else some, k)
        except UserError as error:
            return error

    @cached_property
    def _predictor(self) -> TextPredictor:
        folder = self._model.here()
        return open_predictor(folder, self._question, verify=folder != self._model.folder)  # which was verified
