"""Dataset folders: JSON Lines to a corpus, or an error with file, line, value and remedy."""

from __future__ import annotations

import gzip
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, save_npz

from laconic.data.corpus import Corpus
from laconic.data.formats.jsonl import label_rows, read_folder, rows
from laconic.errors import DataError
from tests.variants import examples

LABELS = [{"id": "red", "text": "Red things"}, {"id": "blue"}, {"id": 7, "text": "Seven"}]
TRAIN = [
    {"text": "apple", "labels": ["red"], "weight": 2.5},
    {"text": "sky", "labels": [1, 2], "label_weights": [0.5, 2]},
    {"text": "", "labels": []},
]


def written(folder: Path, name: str, records: Any) -> Path:
    path = folder / name
    text = records if isinstance(records, str) else "".join(json.dumps(record) + "\n" for record in records)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def corpus(folder: Path, train: Any, labels: Any = None, **others: Any) -> Corpus:
    splits = {name: written(folder, f"{name}.jsonl", records) for name, records in {"train": train, **others}.items()}
    return read_folder(folder, splits, None if labels is None else label_rows(written(folder, "labels.jsonl", labels)))


def test_labels_may_be_names_or_row_numbers_and_keep_their_weights(tmp_path: Path) -> None:
    read = corpus(tmp_path, TRAIN, LABELS)
    assert read.labels.names == ["red", "blue", "7"]
    assert read.labels.texts == ["Red things", "", "Seven"]
    train = read.split("train")
    assert train.texts == ["apple", "sky", ""]
    np.testing.assert_array_equal(train.labels.toarray(), [[1, 0, 0], [0, 0.5, 2], [0, 0, 0]])
    assert train.labels.dtype == np.float32
    assert train.weights is not None
    assert train.weights.tolist() == [2.5, 1, 1]  # a text without a weight counts once
    assert (train.ids, train.leave_out, read.notes) == (None, None, [])


def test_a_key_that_is_not_needed_may_be_null(tmp_path: Path) -> None:
    record = '{"text": "a", "labels": ["red"], "id": null, "weight": null, "label_weights": null, "leave_out": null}\n'
    label = '{"id": "red", "text": null, "alternatives": null, "broader": null, "shade": null}\n'
    read, plain = (
        corpus(tmp_path, train, labels)
        for train, labels in ((record, label), ('{"text": "a", "labels": ["red"]}\n', '{"id": "red"}\n'))
    )
    assert read.labels == plain.labels
    assert read.split("train").leave_out is None
    assert read.split("train").weights is None
    assert (read.split("train").labels.data.tolist(), read.notes) == ([1.0], [])


def test_packed_files_are_read_as_plain_ones_are(tmp_path: Path) -> None:
    train, labels = written(tmp_path, "train.jsonl.gz", TRAIN), written(tmp_path, "labels.jsonl.gz", LABELS)
    packed, plain = read_folder(tmp_path, {"train": train}, label_rows(labels)), corpus(tmp_path, TRAIN, LABELS)
    assert packed.labels == plain.labels
    assert packed.split("train").texts == plain.split("train").texts
    np.testing.assert_array_equal(packed.split("train").labels.toarray(), plain.split("train").labels.toarray())


def test_all_splits_share_one_set_of_labels(tmp_path: Path) -> None:
    read = corpus(tmp_path, [{"text": "a", "labels": ["x"]}], test=[{"text": "b", "labels": ["y", "x"]}])
    assert read.labels.names == ["x", "y"]
    assert read.labels.texts is None
    assert read.split("train").labels.toarray().tolist() == [[1, 0]]
    assert read.split("test").labels.toarray().tolist() == [[1, 1]]
    with pytest.raises(DataError, match="there is no split 'valid'; it has train, test"):
        read.split("valid")


def test_without_a_list_of_labels_a_number_is_a_name(tmp_path: Path) -> None:
    read = corpus(tmp_path, [{"text": "a", "labels": [40, "x", -1]}, {"text": "b", "labels": ["40"]}])
    assert read.labels.names == ["40", "x", "-1"]
    assert read.split("train").labels.toarray().tolist() == [[1, 1, 1], [1, 0, 0]]


def test_a_record_that_is_a_label_itself_leaves_that_pair_out(tmp_path: Path) -> None:
    records = [
        {"text": "a", "labels": ["red"], "id": "red"},
        {"text": "b", "labels": ["red"], "id": "another"},
        {"text": "c", "labels": ["red"], "id": 7, "leave_out": ["blue", 0]},
        {"text": "d", "labels": ["red"], "id": None},
    ]
    read = corpus(tmp_path, records, LABELS)
    train = read.split("train")
    assert train.ids == ["red", "another", "7", None]
    assert train.leave_out is not None
    assert train.leave_out.toarray().tolist() == [[1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 0, 0]]
    assert read.keeping_self_pairs().split("train").leave_out is None


def test_a_label_beyond_the_list_is_added_to_it_and_noted(tmp_path: Path) -> None:
    read = corpus(tmp_path, [{"text": "a", "labels": ["green", "red"]}], LABELS)
    assert read.labels.names == ["red", "blue", "7", "green"]
    assert read.labels.texts == ["Red things", "", "Seven", ""]
    assert read.notes == ["1 label is not in the list of labels, for example 'green'; it was added to it"]


def test_a_label_that_stands_twice_counts_once_with_its_larger_weight(tmp_path: Path) -> None:
    records = [
        {"text": "a", "labels": ["x", "y", "x"], "label_weights": [3, 1, 2]},
        {"text": "b", "labels": ["y", "y"]},
    ]
    read = corpus(tmp_path, records)
    assert read.split("train").labels.toarray().tolist() == [[3, 1], [0, 1]]
    assert read.notes == ["train: 2 repeated labels ignored"]


def test_features_stand_beside_the_records(tmp_path: Path) -> None:
    sparse = csr_array(np.array([[0, 2, 0], [1, 0, 0]], dtype=np.float32))
    save_npz(tmp_path / "train_features.npz", sparse)
    save_npz(tmp_path / "labels_features.npz", sparse)
    (tmp_path / "features.txt").write_text("one\ntwo\nthree\n")
    read = corpus(tmp_path, [{"labels": ["a"]}, {"labels": ["b"]}], [{"id": "a"}, {"id": "b"}])
    train = read.split("train")
    assert train.texts is None
    assert isinstance(train.features, csr_array)
    assert train.features.toarray().tolist() == sparse.toarray().tolist()
    assert read.labels.features is not None
    assert read.feature_names == ["one", "two", "three"]


def test_dense_features_stand_beside_the_records(tmp_path: Path) -> None:
    np.save(tmp_path / "train_features.npy", np.ones((1, 4), dtype=np.float64))
    features = corpus(tmp_path, [{"labels": ["a"], "text": "with its text"}]).split("train").features
    assert isinstance(features, np.ndarray)
    assert features.tolist() == [[1, 1, 1, 1]]


def test_features_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    one = [{"labels": ["a"]}]
    np.save(tmp_path / "train_features.npy", np.ones((2, 4), dtype=np.float32))
    with pytest.raises(DataError, match=r"train has 1 record, but 2 rows of features; they must stand row by row"):
        corpus(tmp_path, one)
    np.save(tmp_path / "train_features.npy", np.ones((1, 4), dtype=np.float32))
    np.save(tmp_path / "test_features.npy", np.ones((1, 5), dtype=np.float32))
    with pytest.raises(DataError, match=r"train is dense with 4 columns, test is dense with 5 columns"):
        corpus(tmp_path, one, test=one)
    save_npz(tmp_path / "test_features.npz", csr_array(np.ones((1, 4), dtype=np.float32)))
    with pytest.raises(DataError, match=r"train is dense with 4 columns, test is sparse with 4 columns"):
        corpus(tmp_path, one, test=one)
    np.save(tmp_path / "labels_features.npy", np.ones((1, 4), dtype=np.float32))
    with pytest.raises(DataError, match=r"the labels' features must be sparse"):
        corpus(tmp_path, one)
    save_npz(tmp_path / "labels_features.npz", csr_array(np.ones((2, 4), dtype=np.float32)))
    with pytest.raises(DataError, match=r"labels has 1 record, but 2 rows of features"):
        corpus(tmp_path, one)


GOOD = '{"text": "a", "labels": ["red"]}\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"}', r'train\.jsonl:2: the key "labels" is missing \(the record\'s keys: "text"\); add it'),
        ('{"labels": []}', r':2: the key "text" is missing'),
        ('{"text": 5, "labels": []}', r':2: "text" is 5, where a text is needed'),
        ('{"text": "a", "labels": "red"}', r':2: "labels" is "red", where a list is needed'),
        ('{"text": "a", "labels": [3]}', r":2: label 3 is outside 0\.\.2, the rows of the list of labels"),
        ('{"text": "a", "labels": [-1]}', r":2: label -1 is outside 0\.\.2"),
        ('{"text": "a", "labels": [99999999999999999999]}', r":2: label 99999999999999999999 is outside 0\.\.2"),
        ('{"text": "a", "labels": [true]}', r':2: "labels" is true, where an integer is needed'),
        ('{"text": "a", "labels": [1.5]}', r':2: "labels" is 1\.5, where a text is needed'),
        ('{"text": "a", "labels": [null]}', r':2: "labels" is null, where a text is needed'),
        ('{"text": "a", "labels": [0], "leave_out": [3]}', r":2: label 3 is outside 0\.\.2"),
        ('{"text": "a", "labels": [0], "label_weights": []}', r":2: 1 label but 0 label weights; give one for each"),
        ('{"text": "a", "labels": [0], "label_weights": [0]}', r":2: a label weight must be above 0 .*, but is 0"),
        ('{"text": "a", "labels": [0], "label_weights": [-2]}', r":2: a label weight must be above 0 .*, but is -2"),
        ('{"text": "a", "labels": [0], "label_weights": [1e39]}', r"at most 3\.4e\+38, but is 1e\+39; mend it"),
        ('{"text": "a", "labels": [0], "label_weights": [1e-46]}', r":2: a label weight must be above 0"),
        ('{"text": "a", "labels": [0], "label_weights": [NaN]}', r":2: NaN is not a JSON number"),
        ('{"text": "a", "labels": [0], "label_weights": ["1"]}', r':2: "label_weights" is "1", where a number'),
        ('{"text": "a", "labels": [], "weight": -1}', r":2: the weight of a text must be 0 or more, but is -1"),
        ('{"text": "a", "labels": [], "weight": 1e300}', r":2: the weight of a text must be .*, but is 1e\+300"),
        ('{"text": "a", "labels": [], "id": 1.5}', r':2: "id" is 1\.5, where a text is needed'),
        ('{"text": "\\ud800", "labels": []}', r':2: "text" holds half of a character, \\ud800, at position 1'),
        ('{"text": "a", "labels"', r":2: this is not JSON \(.*\); every line must be one whole JSON object|near"),
    ],
)
def test_a_record_that_is_wrong_is_refused_with_its_place_and_value(line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        corpus(tmp_path, GOOD + line, LABELS)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ('{"id": "a"}\n{"id": "b"}\n{"id": "a"}', r"labels\.jsonl:3: the label 'a' was listed before, as number 0"),
        ('{"text": "a"}', r'labels\.jsonl:1: the key "id" is missing; it is the label\'s name'),
        ('{"id": ["a"]}', r':1: "id" is \["a"\], where a text is needed'),
        ('{"id": "a", "text": 3}', r':1: "text" is 3, where a text is needed'),
        ("", r"labels\.jsonl: the file is empty"),
    ],
)
def test_a_list_of_labels_that_is_wrong_is_refused(labels: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        corpus(tmp_path, GOOD, labels)


def test_a_file_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.jsonl: the file is empty"):
        corpus(tmp_path, "")
    with pytest.raises(DataError, match=r"there is no record at all in the split 'test'; fill its file"):
        corpus(tmp_path, GOOD, test="\n  \n")


@examples(40)
@given(cut=st.integers(0, 10_000))
def test_a_packed_file_that_is_cut_off_is_refused(cut: int, folder: Path) -> None:
    path = written(folder, "train.jsonl.gz", TRAIN * 20)
    data = path.read_bytes()
    path.write_bytes(data[: cut % len(data)])
    with pytest.raises(DataError):
        read_folder(folder, {"train": path}, None)


@examples(100)
@given(cut=st.integers(0, 10_000))
def test_a_plain_file_that_is_cut_off_within_a_record_is_refused(cut: int, folder: Path) -> None:
    path = written(folder, "train.jsonl", TRAIN)
    data = path.read_bytes()[:-1]
    kept = data[: cut % len(data)]
    path.write_bytes(kept)
    if kept.endswith((b"}\n", b"}")):
        assert len(list(rows(path))) == kept.count(b"}")
    else:
        with pytest.raises(DataError, match=r"train\.jsonl"):
            list(rows(path))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
KEYS = ("text", "labels", "id", "weight", "label_weights", "leave_out")
ALMOST_RECORDS = st.fixed_dictionaries(
    {
        "text": st.text(max_size=5) | JSON,
        "labels": st.lists(st.sampled_from(["red", "x", 0, 1, 5, -1]), max_size=3) | JSON,
    },
    optional={key: JSON | st.lists(st.integers(-1, 3) | st.floats(), max_size=3) for key in KEYS[2:]},
)


@examples(200)
@given(records=st.lists(ALMOST_RECORDS, min_size=1, max_size=3), listed=st.booleans())
def test_almost_any_record_is_read_or_refused(records: list[dict[str, Any]], listed: bool, folder: Path) -> None:
    refusal = ""
    try:
        read = corpus(folder, records, LABELS if listed else None)
    except DataError as error:
        refusal = str(error)
    if refusal:
        assert re.search(r"train\.jsonl:\d+: ", refusal)
        return
    train = read.split("train")
    assert train.texts == [record["text"] for record in records]
    assert train.labels.shape == (len(records), len(read.labels))
    assert np.isfinite(train.labels.data).all()
    assert (train.labels.data > 0).all()
    names = [{str(name) for name in record["labels"] if isinstance(name, str)} for record in records]
    for row, known in enumerate(names):
        assert known <= {read.labels.names[label] for label in train.labels[[row]].indices}


@examples(100)
@given(data=st.binary(max_size=80) | st.text(max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes, folder: Path) -> None:
    path = folder / "any.jsonl"
    path.write_bytes(data)
    for read in (rows, label_rows):
        with suppress(DataError):
            list(read(path))
