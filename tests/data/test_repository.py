"""Folders of the Extreme Classification Repository: every published form, and what is said when pieces do not fit."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, save_npz

from laconic.data.formats import repository
from laconic.errors import DataError
from tests.variants import examples

SHARED = Path(__file__).parents[3] / "shared" / "data"

LABELS = csr_array(np.array([[1, 0, 0.5], [0, 1, 0]], dtype=np.float32))
FEATURES = csr_array(np.array([[0, 0.25, 0, 0], [1, 0, 0, 2]], dtype=np.float32))
MATRICES = {"trn_X_Y.txt": "2 3\n0:1 2:0.5\n1:1\n", "trn_X_Xf.txt": "2 4\n1:.25\n0:1 3:2\n"}
RECORDS = [
    {"uid": "B1", "title": "red shoe", "content": "long", "target_ind": [2, 0], "target_rel": [0.5, 1.0]},
    {"uid": "B2", "title": "blue hat", "content": "long", "target_ind": [1], "target_rel": [1.0]},
]
LABEL_RECORDS = [{"uid": f"L{n}", "title": f"label {n}"} for n in range(3)]


def json_lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def folder_of(tmp_path: Path) -> Callable[[dict[str, str | bytes]], Path]:
    def write(files: dict[str, str | bytes]) -> Path:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return tmp_path

    return write


Folder = Callable[[dict[str, str | bytes]], Path]


def same(one: Any, other: csr_array) -> bool:
    return bool(one.dtype == np.float32 and np.array_equal(one.toarray(), other.toarray()))


# ---- forms ----


def test_a_pair_of_sparse_files_is_read(folder_of: Folder) -> None:
    folder = folder_of(MATRICES | {"tst_X_Y.txt.gz": "1 3\n2:1\n", "tst_X_Xf.txt.gz": "1 4\n\n"})
    corpus = repository.read(folder)
    assert repository.recognises(folder)
    assert list(corpus.splits) == ["train", "test"]
    assert same(corpus.split("train").labels, LABELS)
    assert same(corpus.split("train").features, FEATURES)
    assert corpus.labels.names == ["0", "1", "2"]
    assert corpus.split("train").texts is corpus.split("train").leave_out is corpus.labels.texts is None


def test_npz_and_npy_take_the_place_of_text(folder_of: Folder) -> None:
    folder = folder_of({})
    save_npz(folder / "trn_X_Y.npz", LABELS)
    np.save(folder / "trn_X.npy", FEATURES.toarray().astype(np.float64))
    train = repository.read(folder).split("train")
    assert same(train.labels, LABELS)
    assert train.features.dtype == np.float32
    assert np.array_equal(train.features, FEATURES.toarray())


@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz", "Eurlex_train.txt"])
def test_an_old_single_file_is_read_and_is_not_mistaken_for_a_filter(name: str, folder_of: Folder) -> None:
    folder = folder_of({name: "2 4 3\n2,0 1:.25\n1 0:1 3:2\n", "filter_labels_train.txt": "1 2\n"})
    train = repository.read(folder).split("train")
    assert same(train.labels, LABELS.astype(bool).astype(np.float32))
    assert same(train.features, FEATURES)
    assert train.leave_out.toarray().tolist() == [[0, 0, 0], [0, 0, 1]]


def test_an_old_single_file_by_itself_is_a_corpus_of_one_split(folder_of: Folder) -> None:
    path = folder_of({"anything.svm": "2 4 3\n2,0 1:.25\n1 0:1 3:2\n", "other.txt": "2 4\n"}) / "anything.svm"
    assert repository.recognises_file(path)
    assert not repository.recognises_file(path.with_name("other.txt"))
    corpus = repository.read_file(path)
    assert same(corpus.split("all").features, FEATURES)
    assert len(corpus.labels) == 3


def test_raw_records_keep_titles_weights_and_uids(folder_of: Folder) -> None:
    folder = folder_of({"trn.json.gz": json_lines(RECORDS), "lbl.json": json_lines(LABEL_RECORDS)})
    corpus = repository.read(folder)
    train = corpus.split("train")
    assert train.texts == ["red shoe", "blue hat"]
    assert train.ids == ["B1", "B2"]
    assert same(train.labels, LABELS)
    assert corpus.labels.names == ["L0", "L1", "L2"]
    assert corpus.labels.texts == ["label 0", "label 1", "label 2"]


def test_without_a_list_of_labels_there_are_as_many_as_the_largest_number_says(folder_of: Folder) -> None:
    test = [{"title": "x", "target_ind": [6]}]
    corpus = repository.read(folder_of({"trn.json": json_lines(RECORDS), "tst.json": json_lines(test)}))
    assert corpus.split("train").labels.shape == (2, 7)
    assert corpus.split("test").labels.shape == (1, 7)
    assert corpus.split("test").ids is None
    assert len(corpus.labels) == 7


def test_texts_stand_beside_features_and_labels(folder_of: Folder) -> None:
    files = {"trn_X.txt": "red shoe\r\n\n", "Y.txt": "shoes\nhats\nshoes\n", "Yf.txt": "3 4\n0:1\n\n3:1\n"}
    corpus = repository.read(folder_of(MATRICES | files | {"Xf.txt": b"caf\xe9\n\x85\nb\nc\n"}))
    assert corpus.split("train").texts == ["red shoe", ""]
    assert same(corpus.split("train").features, FEATURES)
    assert corpus.labels.names == ["shoes", "hats", "shoes #2"]
    assert corpus.labels.texts == ["shoes", "hats", "shoes"]
    assert corpus.labels.features.shape == (3, 4)
    assert corpus.feature_names == ["café", "\x85", "b", "c"]


def test_names_of_labels_are_made_unique(folder_of: Folder) -> None:
    texts = "a\na\na #1\n\n3\n"
    corpus = repository.read(folder_of({"trn_X_Y.txt": "1 5\n0:1\n", "Y.txt": texts}))
    assert corpus.labels.names == ["a", "a #1", "a #1 #2", "3", "3 #4"]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("filter_labels_train.txt", "train"),
        ("trn_filter_labels.txt", "train"),
        ("filter_labels_test.txt.gz", "test"),
        ("tst_filter_labels.txt", "test"),
        ("filter_labels_text.txt", "test"),
    ],
)
def test_filters_are_found_under_all_their_names(name: str, split: str, folder_of: Folder) -> None:
    corpus = repository.read(folder_of(MATRICES | {"tst_X_Y.txt": "2 3\n\n0:1\n", name: "0 2\n1 0\n0 2\n"}))
    assert corpus.split(split).leave_out.toarray().tolist() == [[0, 0, 1], [1, 0, 0]]
    assert corpus.split("test" if split == "train" else "train").leave_out is None


def test_an_empty_filter_leaves_nothing_out(folder_of: Folder) -> None:
    corpus = repository.read(folder_of(MATRICES | {"filter_labels_train.txt": ""}))
    assert corpus.split("train").leave_out.nnz == 0


def test_labels_of_weight_zero_are_no_labels(folder_of: Folder) -> None:
    corpus = repository.read(folder_of({"trn_X_Y.txt": "2 3\n0:0 1:1\n2:0\n"}))
    assert corpus.split("train").labels.nnz == 1
    assert corpus.notes == ["train: 1 text has no label, of 2"]


def test_what_was_mended_is_noted(folder_of: Folder) -> None:
    records = [{"title": "a", "target_ind": [1, 1, 0], "target_rel": [0.5, 2, 1]}, {"title": "b", "target_ind": []}]
    corpus = repository.read(folder_of({"trn.json": json_lines(records)}))
    assert corpus.split("train").labels.toarray().tolist() == [[1, 2], [0, 0]]
    assert corpus.notes == [
        "train: 1 text has no label, of 2",
        "train: 1 repeated label ignored",
    ]


def test_a_label_matrix_goes_before_the_records(folder_of: Folder) -> None:
    folder = folder_of({"trn.json": json_lines(RECORDS), "trn_X_Y.txt": "2 3\n0:1 2:0.5\n2:1\n"})
    corpus = repository.read(folder)
    assert corpus.split("train").labels.toarray().tolist() == [[1, 0, 0.5], [0, 0, 1]]
    assert corpus.split("train").texts == ["red shoe", "blue hat"]
    assert "differ in labels" in corpus.notes[0]


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data are not here")
def test_the_published_test_labels_of_131k_are_read_with_their_filter() -> None:
    corpus = repository.read(SHARED / "xc-lf-amazontitles-131k-partial")
    test = corpus.split("test")
    assert test.labels.shape == (134_835, 131_073)
    assert len(corpus.labels) == 131_073
    assert test.leave_out.shape == test.labels.shape
    assert test.leave_out.nnz == 79_663
    assert test.texts is test.features is None


# ---- what does not fit ----


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"trn_X_Y.txt": "1 3\n0:1\n"}, r"trn_X_Xf\.txt has 2 train texts, but .*trn_X_Y\.txt has 1"),
        ({"trn_X.txt": "a\nb\nc\n"}, r"trn_X\.txt has 3 train texts, but .*trn_X_Y\.txt has 2"),
        ({"trn.json": json_lines(RECORDS[:1])}, r"trn\.json has 1 train texts, but .*trn_X_Y\.txt has 2"),
        ({"tst_X_Y.txt": "1 9\n0:1\n"}, r"tst_X_Y\.txt has 9 labels, but .*trn_X_Y\.txt has 3"),
        (
            {"tst_X_Y.txt": "1 3\n0:1\n", "tst_X_Xf.txt": "1 9\n0:1\n"},
            r"tst_X_Xf\.txt has 9 features, but .*trn_X_Xf\.txt has 4",
        ),
        ({"Y.txt": "a\nb\n"}, r"trn_X_Y\.txt has 3 labels, but .*Y\.txt has 2"),
        ({"lbl.json": json_lines(LABEL_RECORDS[:1])}, r"trn_X_Y\.txt has 3 labels, but .*lbl\.json has 1"),
        ({"Yf.txt": "9 4\n" + "\n" * 9}, r"Yf\.txt has 9 labels, but .*trn_X_Y\.txt has 3"),
        ({"lbl_X_Xf.txt": "3 9\n\n\n\n"}, r"lbl_X_Xf\.txt has 9 features, but .*trn_X_Xf\.txt has 4"),
        ({"Xf.txt": "a\nb\n"}, r"Xf\.txt has 2 features, but .*trn_X_Xf\.txt has 4"),
        ({"tst_X_Xf.txt": "1 4\n0:1\n"}, r"tst_X_Xf\.txt: its labels are missing; put tst_X_Y\.txt beside it"),
        ({"trn_X_Y.txt": "2 3\n0:1\n5:1\n"}, r"trn_X_Y\.txt:3: label 5 is outside 0\.\.2 announced in the header"),
        ({"trn_X_Y.txt": "2 3\n0:1\n1:-1\n"}, r"trn_X_Y\.txt: row 1: label 1 has the weight -1\.0"),
        ({"filter_labels_train.txt": "0 0\n2 0\n"}, r"filter_labels_train\.txt:2: text 2 is outside 0\.\.1"),
        ({"filter_labels_train.txt": "0 3\n"}, r"filter_labels_train\.txt:1: label 3 is outside 0\.\.2"),
        ({"filter_labels_train.txt": "0 -1\n"}, r"filter_labels_train\.txt:1: label -1 is outside 0\.\.2"),
        ({"filter_labels_train.txt": "0\n"}, r"filter_labels_train\.txt:1: the line is '0', where two numbers"),
        ({"filter_labels_train.txt": "0 x\n"}, r"filter_labels_train\.txt:1: the line is '0 x'"),
    ],
)
def test_files_that_disagree_are_refused_by_name_and_number(
    files: dict[str, str | bytes], message: str, folder_of: Folder
) -> None:
    with pytest.raises(DataError, match=message):
        repository.read(folder_of(MATRICES | files))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"title": "a"', r"trn\.json:2: this is not JSON"),
        ('{"target_ind": [0]}', r'trn\.json:2: the key "title" is missing'),
        ('{"title": "a"}', r'trn\.json:2: the key "target_ind" is missing'),
        ('{"title": 5, "target_ind": [0]}', r'trn\.json:2: "title" is 5, where a text is needed'),
        ('{"title": "\\ud800", "target_ind": [0]}', r'trn\.json:2: "title" holds half of a character'),
        ('{"title": "a", "target_ind": [3]}', r'trn\.json:2: "target_ind": label 3 is outside 0\.\.2'),
        ('{"title": "a", "target_ind": [-1]}', r'trn\.json:2: "target_ind": label -1 is outside 0\.\.2'),
        ('{"title": "a", "target_ind": ["0"]}', r'trn\.json:2: "target_ind" is "0", where an integer'),
        ('{"title": "a", "target_ind": 0}', r'trn\.json:2: "target_ind" is 0, where a list is needed'),
        ('{"title": "a", "target_ind": [0], "target_rel": [NaN]}', r"trn\.json:2: NaN is not a JSON number"),
        ('{"title": "a", "target_ind": [0], "target_rel": [-1]}', r'trn\.json:2: "target_rel": the weight -1\.0'),
        ('{"title": "a", "target_ind": [0], "target_rel": [1e39]}', r'trn\.json:2: "target_rel": the weight 1e\+39'),
        ('{"title": "a", "target_ind": [0], "target_rel": []}', r"trn\.json:2: 1 label in .* but 0 weights in"),
        ('{"uid": [], "title": "a", "target_ind": [0]}', r'trn\.json:2: "uid" is \[\], where a text is needed'),
    ],
)
def test_a_wrong_record_is_refused_with_its_line(line: str, message: str, folder_of: Folder) -> None:
    files = {"trn.json": json_lines(RECORDS[:1]) + line + "\n", "lbl.json": json_lines(LABEL_RECORDS)}
    with pytest.raises(DataError, match=message):
        repository.read(folder_of(files))


def test_a_folder_of_other_things_is_not_recognised(folder_of: Folder) -> None:
    folder = folder_of(
        {"train.jsonl": "{}\n", "train.txt": "one text\n", "readme.md": "", "filter_labels_test.txt": ""}
    )
    assert not repository.recognises(folder)
    assert not repository.recognises(folder / "readme.md")
    with pytest.raises(DataError, match=r"none of trn_X_Y\.txt, trn\.json and train\.txt is here"):
        repository.read(folder)


def test_two_old_files_for_one_split_are_refused(folder_of: Folder) -> None:
    with pytest.raises(DataError, match=r"both .*train\.txt and .*train\.txt are there"):
        repository.read(folder_of({"a_train.txt": "0 1 1\n", "b_train.txt": "0 1 1\n"}))


WHOLE: dict[str, str | bytes] = {
    "trn.json": json_lines(RECORDS),
    "lbl.json": json_lines(LABEL_RECORDS),
    **MATRICES,
    "tst_X_Y.txt": "1 3\n0:1\n",
    "test.txt": "1 4 3\n0 1:1\n",
    "tst_X.txt": "a text\n",
    "Yf.txt": "3 4\n0:1\n\n\n",
    "Xf.txt": "a\nb\nc\nd\n",
    "filter_labels_test.txt": "0 1\n",
}


@settings(examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), name=st.sampled_from(sorted(WHOLE)))
def test_a_damaged_folder_is_read_or_refused(data: st.DataObject, name: str, folder_of: Folder) -> None:
    damaged = bytearray(str(WHOLE[name]).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged)))
        damaged[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    folder = folder_of(WHOLE | {name: bytes(damaged)})
    try:
        corpus = repository.read(folder)
    except DataError:
        return
    assert all(split.labels.shape == (len(split), len(corpus.labels)) for split in corpus.splits.values())
    assert len(set(corpus.labels.names)) == len(corpus.labels)
