"""Frames and tables of every library give the same model, by what they can do."""

from __future__ import annotations

from typing import Any

import pytest

from laconic import Laconic
from laconic.data.formats.memory import corpus_in_memory, texts_in_memory
from laconic.errors import DataError

TEXTS, LABELS = ["red rose", "blue sea", "old oak"], [["flower", "red"], ["water"], ["tree"]]


def pandas_frame() -> Any:
    return pytest.importorskip("pandas").DataFrame({"text": TEXTS, "labels": LABELS})


def polars_frame() -> Any:
    return pytest.importorskip("polars").DataFrame({"text": TEXTS, "labels": LABELS})


def arrow_table() -> Any:
    return pytest.importorskip("pyarrow").table({"text": TEXTS, "labels": LABELS})


class Classes:
    """A feature of a Hugging Face dataset: numbers that have names."""

    def __init__(self, names: list[str]) -> None:
        self.feature, self.names = self, names


class Dataset:
    """What a Hugging Face dataset can do."""

    column_names = ["text", "labels"]  # noqa: RUF012 - as there

    def __init__(self) -> None:
        names = ["flower", "red", "water", "tree"]
        self.features = {"text": None, "labels": Classes(names)}
        self.columns = {"text": TEXTS, "labels": [[names.index(name) for name in own] for own in LABELS]}

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]


FRAMES = [pandas_frame, polars_frame, arrow_table, Dataset]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_is_read_like_lists(frame: Any) -> None:
    found, expected = corpus_in_memory("train", frame(), None), corpus_in_memory("train", TEXTS, LABELS)
    assert list(found.split("train").texts or ()) == TEXTS
    assert found.labels.names == expected.labels.names
    assert (found.split("train").labels != expected.split("train").labels).nnz == 0


@pytest.mark.parametrize("frame", FRAMES[:3])
def test_columns_are_taken_one_by_one_too(frame: Any) -> None:
    table = frame()
    found = corpus_in_memory("train", table["text"], table["labels"])
    assert found.labels.names == corpus_in_memory("train", TEXTS, LABELS).labels.names
    assert texts_in_memory(table) == texts_in_memory(table["text"]) == TEXTS


def test_a_dictionary_of_datasets_is_refused_with_the_remedy() -> None:
    several = Dataset()
    several.column_names = {"train": ["text"]}  # type: ignore[assignment]  # as of a DatasetDict
    with pytest.raises(DataError, match=r"a dictionary of datasets; give one of them, such as dataset\['train'\]"):
        texts_in_memory(several)


@pytest.mark.parametrize("frame", FRAMES[:3])
def test_answers_come_as_a_frame_of_the_same_library(frame: Any) -> None:
    given = frame()
    model = Laconic("nearest").fit(given)
    found = model.predict(given, k=2, as_frame=True)
    assert type(found) is type(given)
    answers = model.predict(TEXTS, k=2)
    columns = found.to_pydict() if hasattr(found, "to_pydict") else {name: list(found[name]) for name in found.columns}
    assert list(columns) == ["row", "text", "rank", "label", "score"]
    assert columns["label"] == [one.label for own in answers for one in own]
    assert columns["row"] == [row for row, own in enumerate(answers) for _ in own]
    assert columns["rank"] == [rank for own in answers for rank, _ in enumerate(own, 1)]


def test_one_text_or_a_list_makes_a_frame_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    model = Laconic("nearest").fit(TEXTS, LABELS)
    found = model.predict("a rose", k=1, as_frame=True)
    assert isinstance(found, pandas.DataFrame)
    assert found["label"].tolist() == ["flower"]
    indexed = pandas.DataFrame({"text": TEXTS}, index=["a", "b", "c"])
    assert model.predict(indexed, k=1, as_frame=True)["row"].tolist() == ["a", "b", "c"]
