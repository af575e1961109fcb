"""Label a dataset of Ray Data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from laconic.bulk.batch_predictor import BatchPredictor
from laconic.bulk.ray_cluster import needs_of, workers_of

_ROWS = 16_384  # of a batch: a multiple of those that a model answers together, so that scores do not depend on it


def predict(dataset: Any, model: str | Path, *, workers: int | None = None, **question: Any) -> Any:
    """Return a dataset with the columns `labels`, `scores` and `known_words`, which are computed when it is read.

    Args:
        dataset: The dataset of Ray, with a column of texts.
        model: Folder of the model, or of a packed one, which must be at this path on every machine.
        workers: Number of processes, each with one core and, for `device="cuda"`, with one GPU, which more processes
            than GPUs share. None: as many as there are.
        **question: Arguments of `BatchPredictor`, such as `column`, `k` and `min_score`.

    Example:
        >>> laconic.bulk.predict(ray.data.read_parquet("s3://bucket/titles"), "model", k=3).write_parquet("s3://bucket/labels")
    """
    device = str(question.get("device", ""))
    most = workers_of(device, workers)
    return dataset.map_batches(
        BatchPredictor,
        fn_constructor_args=(str(model),),
        fn_constructor_kwargs=question,
        batch_format="pyarrow",
        batch_size=_ROWS,
        concurrency=(1, most),
        **{name: number for name, number in needs_of(device, most).items() if number},
    )
