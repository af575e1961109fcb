"""Annif's corpora in all their forms give the same texts and labels."""

import gzip
import json

import pytest

from laconic.data.sources import read
from laconic.errors import DataError

BIRDS, WOLF = "http://example.org/birds", "http://example.org/wolf"
EXPECTED = [("The mating lives of birds", [BIRDS]), ("Wolves and birds", [BIRDS, WOLF])]
TSV = f"The mating lives of birds\t<{BIRDS}>\nWolves and birds\t<{BIRDS}> <{WOLF}>\n"
VOCABULARY = f"<{BIRDS}>\tbirds\n<{WOLF}>\twolf\t599.7\n<http://example.org/old>\n"


def pairs(corpus, split="train"):
    part = corpus.split(split)
    names = [[corpus.labels.names[label] for label in part.labels[[row]].indices] for row in range(len(part))]
    return [(text, sorted(own)) for text, own in zip(part.texts, names, strict=True)]


def documents(folder, *, ending=".tsv"):
    folder.mkdir(parents=True)
    subjects = {
        ".tsv": (f"<{BIRDS}>\tbirds\n", f"<{BIRDS}>\tbirds\n<{WOLF}>\twolf\n"),
        ".key": ("birds\n", "birds\nwolf\n"),
    }
    for at, (text, _) in enumerate(EXPECTED):
        (folder / f"{at}.txt").write_text(text.replace(" ", "\n", 1) + "\n")
        (folder / f"{at}{ending}").write_text(subjects[ending][at])
    (folder / "without-subjects.txt").write_text("left out, as Annif does\n")
    return folder


def test_tsv_without_a_header(tmp_path):
    (tmp_path / "corpus.tsv").write_text(TSV)
    assert pairs(read(tmp_path / "corpus.tsv")) == EXPECTED
    (tmp_path / "corpus.tsv.gz").write_bytes(gzip.compress(("\ufeff" + TSV).encode()))
    assert pairs(read(tmp_path / "corpus.tsv.gz")) == EXPECTED


def test_a_line_of_tsv_without_subjects_has_no_labels(tmp_path):
    (tmp_path / "corpus.tsv").write_text("no tab\nno subjects\t\n\n" + TSV)
    assert pairs(read(tmp_path / "corpus.tsv")) == [("no tab", []), ("no subjects", []), *EXPECTED]


def test_a_subject_that_is_no_address_is_refused_with_its_line(tmp_path):
    lines = TSV * 200 + "A title\tbirds\n"  # beyond what a format is recognised by
    (tmp_path / "corpus.tsv").write_text(lines)
    with pytest.raises(DataError, match=r"corpus.tsv:401: the subject 'birds' is not an address"):
        read(tmp_path / "corpus.tsv")


def test_a_table_with_a_header_is_still_a_table(tmp_path):
    (tmp_path / "data.tsv").write_text(f"text\tlabels\n{TSV}")
    assert pairs(read(tmp_path / "data.tsv")) == EXPECTED


def test_csv_with_bracketed_or_bare_addresses(tmp_path):
    rows = f'"The mating lives of birds","<{BIRDS}>"\n"Wolves and birds","{WOLF} {BIRDS}"\n'
    (tmp_path / "corpus.csv").write_text(f"text,subject_uris\n{rows}")
    assert pairs(read(tmp_path / "corpus.csv")) == EXPECTED


def records():
    for at, (text, subjects) in enumerate(EXPECTED):
        listed = [{"uri": one, "label": one.rpartition("/")[2]} for one in subjects]
        yield {"document_id": f"d{at}", "text": text, "subjects": listed, "metadata": {"year": "1999"}}


def test_json_lines(tmp_path):
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records()))
    corpus = read(tmp_path / "corpus.jsonl")
    assert pairs(corpus) == EXPECTED
    assert corpus.split("train").ids == ["d0", "d1"]


def test_json_lines_by_names_with_a_vocabulary(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"text": "Wolves", "subjects": [{"label": "wolf"}, {"label": "unknown"}]}\n')
    (tmp_path / "vocabulary.tsv").write_text(VOCABULARY)
    assert pairs(read(tmp_path)) == [("Wolves", [WOLF, "unknown"])]


def test_a_subject_of_json_lines_must_have_an_address_or_a_name(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"text": "Wolves", "subjects": ["wolf"]}\n')
    with pytest.raises(DataError, match=r'corpus.jsonl:1: "subjects" has .*where \{"uri": ...\} or'):
        read(tmp_path / "corpus.jsonl")


@pytest.mark.parametrize("ending", [".tsv", ".key"])
def test_folders_of_documents(tmp_path, ending):
    folder = documents(tmp_path / "documents", ending=ending)
    (tmp_path / "vocabulary.tsv").write_text(VOCABULARY)
    assert pairs(read(folder, vocabulary=tmp_path / "vocabulary.tsv")) == EXPECTED


def test_names_are_labels_where_there_is_no_vocabulary(tmp_path):
    folder = documents(tmp_path / "documents", ending=".key")
    assert pairs(read(folder)) == [(EXPECTED[0][0], ["birds"]), (EXPECTED[1][0], ["birds", "wolf"])]


def test_a_folder_of_json_documents(tmp_path):
    for one in records():
        (tmp_path / f"{one['document_id']}.json").write_text(json.dumps(one, indent=1))
    assert pairs(read(tmp_path)) == EXPECTED


def test_splits_may_be_folders_and_files_beside_a_vocabulary(tmp_path):
    documents(tmp_path / "train")
    (tmp_path / "test.tsv").write_text(TSV)
    (tmp_path / "vocabulary.tsv").write_text(VOCABULARY)
    corpus = read(tmp_path)
    assert pairs(corpus) == pairs(corpus, "test") == EXPECTED
    assert corpus.labels.texts == ["birds", "wolf"]
