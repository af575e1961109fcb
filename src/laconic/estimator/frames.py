"""Return predictions as a frame of the library that the texts came in: pandas, polars or Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from laconic.errors import ConfigError
from laconic.predict.prediction import Prediction


def prediction_columns(
    given: object, texts: Sequence[str], answers: Sequence[Sequence[Prediction]]
) -> dict[str, list[Any]]:
    """Return a row for each text and label: where the text was, the text, the label's rank, name and score."""
    index = getattr(given, "index", None)
    rows = list(index) if index is not None and not callable(index) and len(index) == len(texts) else range(len(texts))
    pairs = [(row, rank, one) for row, own in enumerate(answers) for rank, one in enumerate(own, 1)]
    return {
        "row": [rows[row] for row, _, _ in pairs],
        "text": [texts[row] for row, _, _ in pairs],
        "rank": [rank for _, rank, _ in pairs],
        "label": [one.label for _, _, one in pairs],
        "score": [one.score for _, _, one in pairs],
    }


def frame_like(given: object, columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return the columns as a frame of the library of `given`; of pandas where it is none."""
    library = type(given).__module__.partition(".")[0]
    if library == "pyarrow":
        return import_module(library).table(columns)
    try:
        frames = import_module("polars" if library == "polars" else "pandas")
    except ModuleNotFoundError:
        raise ConfigError("as_frame=True needs pandas for texts in a list; `pip install pandas`") from None
    return frames.DataFrame(columns)
