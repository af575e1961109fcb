"""Label batches of tables: of Ray Data, in a pandas UDF of Spark, or in `map_partitions` of Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from laconic.bulk.arrow_labels import AnswerColumns
from laconic.bulk.labeller import Labeller, Question, answering_folder, open_labeller
from laconic.bulk.table_texts import TextColumns, arrow_values, row_texts
from laconic.data.attributes import Where
from laconic.errors import ConfigError, DataError

Batch = TypeVar("Batch")
_open: dict[str, Labeller] = {}  # by model and question, in this process


class BatchPredictor:
    """Adds the columns `labels`, `scores` and `known_words` to batches that have a column of texts.

    A batch is a table or a record batch of Arrow, a frame of pandas, or a dict of arrays as Ray Data has; what comes
    back is of the same kind. The model is opened by the first batch, once in each process: an instance is a few
    settings, which are cheap to send to other machines. Each process uses one thread.

    Args:
        model: Folder of the model, or of a packed one, which must be at this path on every machine.
        column: Name of the column of the texts; several are written `title:2,subtitle`. Empty: the columns that the
            model was trained on, or else `text`, `title`, `query` or `name`.
        k: Labels per text. None: 5, or as many as a stored threshold was chosen for.
        min_score: Lowest score of a label, or `"stored"` for the threshold that is stored in the model.
        allow: Names of labels; only these are predicted.
        block: Names of labels that are not predicted.
        where: Values of attributes that predicted labels must have.
        device: `auto`, `cpu` or `cuda`.

    Example:
        >>> dataset.map_batches(BatchPredictor, fn_constructor_args=("model",), batch_format="pyarrow", concurrency=2)
    """

    def __init__(
        self,
        model: str | Path,
        *,
        column: str = "",
        k: int | None = None,
        min_score: float | str | None = None,
        allow: Iterable[str] | None = None,
        block: Iterable[str] | None = None,
        where: Where | None = None,
        device: str = "auto",
    ) -> None:
        self.model = Path(model)
        self.question = Question(
            column=column,
            k=k,
            min_score=min_score,
            allow=_names("allow", allow),
            block=_names("block", block),
            where=where,
            device=device,
        )

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with the columns of answers."""
        return cast(Batch, _labelled(batch, self._labeller()))

    def _labeller(self) -> Labeller:
        key = repr((self.model, self.question))
        if key not in _open:
            _open[key] = open_labeller(answering_folder(self.model, self.question), self.question)
        return _open[key]


def _labelled(batch: Any, labeller: Labeller) -> Any:
    """Return a batch of any kind with the columns of answers in it."""
    if isinstance(batch, Mapping):
        answers = _answers(labeller, list(batch), lambda name: np.asarray(batch[name], dtype=object).tolist())
        return {**batch, **{name: _objects(column) for name, column in answers._asdict().items()}}
    if hasattr(batch, "schema"):  # an Arrow table, or a record batch
        return _with_columns(batch, _answers(labeller, batch.schema.names, lambda name: arrow_values(batch[name])))
    if hasattr(batch, "assign"):  # a frame of pandas
        answers = _answers(labeller, list(batch.columns), lambda name: batch[name].tolist())
        return batch.assign(**{name: list(_objects(column)) for name, column in answers._asdict().items()})
    raise ConfigError(f"a batch must be an Arrow table, a frame of pandas or a dict of arrays, but is {type(batch)}")


def _answers(labeller: Labeller, header: Sequence[str], values_of: Callable[[str], list[Any]]) -> AnswerColumns:
    columns = TextColumns.of(header, labeller.column, labeller.fields, "the batch")
    return labeller.answers(row_texts(columns, values_of, lambda row: f"row {row + 1} of a batch", _refuse).texts)


def _with_columns(table: Any, answers: AnswerColumns) -> Any:
    for name, column in answers._asdict().items():
        at = table.schema.get_field_index(name)
        table = table.append_column(name, column) if at < 0 else table.set_column(at, name, column)
    return table


def _objects(column: Any) -> np.ndarray:
    """Return an array of lists, or of numbers."""
    values = column.to_pylist()
    found = np.empty(len(values), dtype=object if values and isinstance(values[0], list) else np.int64)
    found[:] = values
    return found


def _refuse(error: DataError) -> NoReturn:
    raise error


def _names(argument: str, names: Iterable[str] | None) -> tuple[str, ...] | None:
    if isinstance(names, str):
        raise ConfigError(f"{argument} must be a list of label names, but is one string: {names!r}")
    return None if names is None else tuple(names)
