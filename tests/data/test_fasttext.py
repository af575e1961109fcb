"""fastText's files are read by their content, and written."""

import gzip

import pytest

from laconic.data.fasttext_output import write_fasttext
from laconic.data.formats.fasttext import label_words
from laconic.data.sources import read
from laconic.errors import DataError, UserError

LINES = "__label__flower __label__red red rose\n\n__label__water blue  sea\nno label at all\n"


def pairs(corpus, split="train"):
    part = corpus.split(split)
    names = [[corpus.labels.names[label] for label in part.labels[[row]].indices] for row in range(len(part))]
    return list(zip(part.texts, names, strict=True))


EXPECTED = [("red rose", ["flower", "red"]), ("blue sea", ["water"]), ("no label at all", [])]


@pytest.mark.parametrize("name", ["cooking.train", "data.txt", "data.csv"])
def test_a_file_is_recognised_by_its_first_line(tmp_path, name):
    (tmp_path / name).write_text(LINES)
    assert pairs(read(tmp_path / name)) == EXPECTED


def test_a_folder_has_its_splits(tmp_path):
    (tmp_path / "train.txt").write_text(LINES)
    (tmp_path / "test.txt.gz").write_bytes(gzip.compress(b"__label__water wide sea\n"))
    corpus = read(tmp_path)
    assert pairs(corpus) == EXPECTED
    assert pairs(corpus, "test") == [("wide sea", ["water"])]


def test_the_repositorys_old_file_of_the_same_name_is_still_read(tmp_path):
    (tmp_path / "train.txt").write_text("2 3 2\n0 0:1 2:0.5\n1 1:1\n")
    assert read(tmp_path).split("train").features.shape == (2, 3)


def test_labels_may_stand_behind_the_text(tmp_path):
    (tmp_path / "data").write_text("__label__a one\ntwo __label__b words\n")
    assert pairs(read(tmp_path / "data")) == [("one", ["a"]), ("two words", ["b"])]


def test_a_prefix_without_a_name_is_refused_with_its_line(tmp_path):
    (tmp_path / "data").write_text("__label__a one\n__label__ two\n")
    with pytest.raises(DataError, match="data:2: __label__ without a name"):
        read(tmp_path / "data")


def test_what_is_written_is_read_again(tmp_path):
    (tmp_path / "data").write_text(LINES)
    assert write_fasttext(read(tmp_path / "data"), tmp_path / "out") == []
    assert (tmp_path / "out" / "train.txt").read_text().startswith("__label__flower __label__red red rose\n")
    assert pairs(read(tmp_path / "out")) == EXPECTED


def test_blanks_of_labels_become_underscores_and_are_reported(tmp_path):
    (tmp_path / "data.csv").write_text("text,labels\nred rose,cut flower|red\nblue\nsea,water\n".replace("blue\n", ""))
    notes = write_fasttext(read(tmp_path / "data.csv"), tmp_path / "out")
    assert notes == ["1 label has blanks, which became underscores: 'cut flower' is 'cut_flower'"]
    assert (tmp_path / "out" / "train.txt").read_text().splitlines()[0] == "__label__cut_flower __label__red red rose"


def test_labels_that_would_become_one_are_refused():
    with pytest.raises(DataError, match="'a b' and 'a_b' would both be __label__a_b"):
        label_words(["a b", "a_b"])


def test_a_text_that_would_be_read_as_a_label_is_refused(tmp_path):
    (tmp_path / "data.csv").write_text("text,labels\nabout __label__x,a\n")
    with pytest.raises(DataError, match=r"data.csv, all, text 1: the word '__label__x' of the text"):
        write_fasttext(read(tmp_path / "data.csv"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_fasttext_cannot_hold_is_reported(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.jsonl").write_text('{"text": "rose", "labels": ["f"], "weight": 2}\n')
    (tmp_path / "in" / "labels.jsonl").write_text('{"id": "f", "text": "flower"}\n')
    notes = write_fasttext(read(tmp_path / "in"), tmp_path / "out")
    assert notes == ["fastText has nothing like texts of labels and weights; they were left out"]


def test_an_existing_folder_is_not_written_to(tmp_path):
    (tmp_path / "data").write_text(LINES)
    with pytest.raises(UserError, match="this is there already"):
        write_fasttext(read(tmp_path / "data"), tmp_path)
