"""A file's name says what it is for, its content what form it has."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array, save_npz

from laconic.data.catalogue import propensity_of
from laconic.data.sources import read
from laconic.errors import DataError

RECORDS = [{"text": "red rose", "labels": ["flower", "red"]}, {"text": "blue sea", "labels": ["water"]}]
CSV = "text,labels\nred rose,flower|red\nblue sea,water\n"


def jsonl(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def check(corpus, split="train"):
    part = corpus.split(split)
    assert list(part.texts) == ["red rose", "blue sea"]
    names = [[corpus.labels.names[label] for label in part.labels[[row]].indices] for row in range(2)]
    assert [sorted(row) for row in names] == [["flower", "red"], ["water"]]


@pytest.mark.parametrize("name", ["data.jsonl", "data.txt", "anything"])
def test_json_lines_are_recognised_whatever_the_files_name(tmp_path, name):
    (tmp_path / name).write_text(jsonl(RECORDS))
    check(read(tmp_path / name))


def test_gzip_is_recognised_whatever_the_files_name(tmp_path):
    (tmp_path / "data").write_bytes(gzip.compress(jsonl(RECORDS).encode()))
    check(read(tmp_path / "data"))


def test_csv_tsv_and_parquet_are_recognised(tmp_path):
    (tmp_path / "a").write_text(CSV)
    (tmp_path / "b").write_text(CSV.replace(",", "\t"))
    pq.write_table(
        pa.table({"text": ["red rose", "blue sea"], "labels": [["flower", "red"], ["water"]]}), tmp_path / "c"
    )
    for name in "abc":
        check(read(tmp_path / name))


def test_a_single_file_is_one_split_to_train_on(tmp_path):
    (tmp_path / "data.csv").write_text(CSV)
    corpus = read(tmp_path / "data.csv")
    assert corpus.split("train") is corpus.split("all")
    with pytest.raises(DataError, match="there is no split 'test'; it has all"):
        corpus.split("test")


def test_the_old_single_file_is_told_from_a_table_by_its_header(tmp_path):
    (tmp_path / "train.txt").write_text("2 3 4\n0,1 0:1 2:0.5\n3 1:1\n")
    corpus = read(tmp_path / "train.txt")
    assert corpus.split("train").features.shape == (2, 3)
    assert len(corpus.labels) == 4


def test_a_folder_may_mix_tables(tmp_path):
    (tmp_path / "train.csv").write_text(CSV)
    (tmp_path / "test.jsonl").write_text(jsonl(RECORDS))
    (tmp_path / "labels.jsonl").write_text(jsonl([{"id": "water", "text": "wet"}]))
    corpus = read(tmp_path)
    check(corpus, "train")
    check(corpus, "test")
    assert corpus.labels.names[0] == "water"
    assert corpus.labels.texts[0] == "wet"


def test_one_sign_separates_labels_in_all_files_of_a_folder(tmp_path):
    (tmp_path / "train.csv").write_text('text,labels\nred rose,"flower, garden|red"\nblue sea,water\n')
    (tmp_path / "test.csv").write_text('text,labels\nwhite rose,"flower, garden"\n')
    corpus = read(tmp_path)
    assert corpus.labels.names == ["flower, garden", "red", "water"]


def test_a_validation_split_has_several_usual_names(tmp_path):
    (tmp_path / "train.csv").write_text(CSV)
    (tmp_path / "dev.csv").write_text(CSV)
    check(read(tmp_path), "valid")


def test_the_repositorys_folder_is_recognised(tmp_path):
    (tmp_path / "trn_X_Y.txt").write_text("2 3\n0:1 1:1\n2:1\n")
    (tmp_path / "trn_X.txt").write_text("red rose\nblue sea\n")
    (tmp_path / "Y.txt").write_text("flower\nred\nwater\n")
    check(read(tmp_path))


def test_dense_features_beside_a_label_file(tmp_path):
    np.save(tmp_path / "trn_X_Xf.npy", np.ones((2, 5), dtype=np.float32))
    save_npz(tmp_path / "trn_X_Y.npz", csr_array(np.eye(2, dtype=np.float32)))
    corpus = read(tmp_path)
    assert corpus.split("train").features.shape == (2, 5)


def test_the_same_table_twice_is_refused(tmp_path):
    (tmp_path / "train.csv").write_text(CSV)
    (tmp_path / "train.jsonl").write_text(jsonl(RECORDS))
    with pytest.raises(DataError, match=r"both train.csv and train.jsonl are there; keep one"):
        read(tmp_path)


def test_an_unknown_folder_lists_what_is_there_and_what_was_expected(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(DataError, match=r"thesis\.tex.*expected are train\.jsonl"):
        read(tmp_path)


def test_what_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no such file or folder"):
        read(tmp_path / "nothing")


def test_an_empty_file_is_an_error(tmp_path):
    (tmp_path / "data").touch()
    with pytest.raises(DataError, match="the file is empty"):
        read(tmp_path / "data")


def test_a_split_that_is_not_there_is_an_error_that_lists_the_others(tmp_path):
    (tmp_path / "train.csv").write_text(CSV)
    with pytest.raises(DataError, match="no split 'test'; it has train"):
        read(tmp_path).split("test")


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("LF-AmazonTitles-131K", 0.6, 2.6),
        ("AmazonTitles-670K", 0.6, 2.6),
        ("WikiTitles-500K", 0.5, 0.4),
        ("Wikipedia-500K", 0.5, 0.4),
        ("WikiSeeAlsoTitles-350K", 0.55, 1.5),
        ("EURLex-4K", 0.55, 1.5),
        ("debian-related", 0.55, 1.5),
    ],
)
def test_propensity_constants_go_by_family(name, a, b):
    assert (propensity_of(name).a, propensity_of(name).b) == (a, b)
