"""Batches of every kind get the answers of a model, in any process."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from laconic.bulk import BatchPredictor
from laconic.errors import ConfigError, DataError
from laconic.evaluation.thresholds import Threshold
from laconic.predict.label_filter import make_finder
from laconic.predict.min_score import Limits, reaching
from laconic.predict.prediction import RankedTexts, named
from tests.bulk.jobs import expected_rows
from tests.serve.small import TEXTS, write


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("models") / "model")


def batches() -> dict[str, Any]:
    table = pa.table({"title": TEXTS, "key": list(range(len(TEXTS)))})
    return {
        "table": table,
        "record batch": table.to_batches()[0],
        "pandas": table.to_pandas(),
        "dict": {"title": np.array(TEXTS), "key": np.arange(len(TEXTS))},
    }


@pytest.mark.parametrize("kind", batches())
def test_a_batch_comes_back_as_it_was_with_answers(model: Path, kind: str) -> None:
    batch = batches()[kind]
    found = pickle.loads(pickle.dumps(BatchPredictor(model, k=3)))(batch)
    assert type(found) is type(batch)
    frame = pd.DataFrame(found) if kind == "dict" else found.to_pandas() if kind != "pandas" else found
    assert list(frame.columns) == ["title", "key", "labels", "scores", "known_words"]
    assert frame["key"].tolist() == list(range(len(TEXTS)))
    rows = [(list(labels), list(scores), known) for *_, labels, scores, known in frame.itertuples(index=False)]
    assert rows == expected_rows(model, TEXTS, 3)


def test_an_empty_batch_has_empty_columns(model: Path) -> None:
    found = BatchPredictor(model)(pa.table({"text": pa.array([], pa.string())}))
    assert found.num_rows == 0
    assert found.schema.field("labels").type == pa.list_(pa.string())


def test_several_columns_are_joined_as_predict_joins_them(model: Path) -> None:
    table = pa.table({"a": TEXTS, "b": ["", None, *TEXTS[2:]]})
    found = BatchPredictor(model, column="a:2,b")(table)
    texts = [" ".join(filter(None, [a, b, a])) for a, b in zip(*table.to_pydict().values(), strict=True)]
    assert found["labels"].to_pylist() == [labels for labels, _, _ in expected_rows(model, texts, 5)]


def test_wrong_batches_say_what_is_wrong(model: Path) -> None:
    predictor = BatchPredictor(model)
    with pytest.raises(DataError, match="row 2 of a batch: 'text' is None"):
        predictor(pa.table({"text": ["a", None]}))
    with pytest.raises(DataError, match="no column 'text'"):
        predictor(pa.table({"other": ["a"]}))
    with pytest.raises(ConfigError, match="a batch must be"):
        predictor(["a"])
    with pytest.raises(ConfigError, match="one string"):
        BatchPredictor(model, allow="L1")
    with pytest.raises(ConfigError, match="does not have: 'nobody'"):
        BatchPredictor(model, allow=["nobody"])(pa.table({"text": ["a"]}))


def test_limits_of_arrays_keep_what_limits_of_predictions_keep() -> None:
    generator, names = np.random.default_rng(0), [f"L{number}" for number in range(20)]
    labels = np.stack([generator.permutation(20)[:6] for _ in range(50)])
    ranked = RankedTexts(labels, generator.random((50, 6)).astype(np.float32), np.ones(50, dtype=np.int64))
    own = {"L3": 0.9, "L17": 0.1, "gone": 0.0}
    stored = Threshold(aim="F1", score=0.5, labels=own, k=6, texts=1, precision=1.0, recall=1.0)
    for asked in ("stored", 0.3, float(ranked.scores[0, 0])):
        limits = Limits.of(asked, stored, make_finder(names))
        assert limits is not None
        kept = limits.reached(ranked)
        predictions = named(ranked.labels, ranked.scores, names)
        expected = [[one.label for one in reaching(own, asked, stored)] for own in predictions]
        assert [[names[label] for label in row[place]] for row, place in zip(labels, kept, strict=True)] == expected
    assert Limits.of(None, stored, make_finder(names)) is None
