"""Subject vocabularies become lists of labels, with names in several languages and a hierarchy."""

import gzip
import sys

import numpy as np
import pytest

from laconic.data.corpus import Corpus, Labels, Split
from laconic.data.formats.subjects import label_rows, named
from laconic.data.hierarchy import ancestors, with_broader
from laconic.data.output import write_folder
from laconic.data.prepare import label_texts
from laconic.data.sources import read
from laconic.errors import DataError, UserError
from laconic.system.sparse import csr_array

TURTLE = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix ex: <http://example.org/> .
ex:animals a skos:Concept ; skos:prefLabel "animals"@en, "eläimet"@fi ; skos:narrower ex:birds .
ex:birds a skos:Concept ; skos:prefLabel "birds"@en, "linnut"@fi ; skos:altLabel "fowl"@en, "bird"@en, "lintu"@fi .
ex:owls a skos:Concept ; skos:prefLabel "pöllöt"@fi ; skos:broader ex:birds, ex:elsewhere, ex:gone .
ex:gone a skos:Concept ; skos:prefLabel "gone"@en ; owl:deprecated true .
ex:a-collection a skos:Collection ; skos:prefLabel "not a concept"@en .
"""
CSV = 'uri,label_fi,label_en,notation\nhttp://example.org/birds,linnut,"birds, all",598\n<http://example.org/old>,,,\n'


@pytest.fixture
def turtle(tmp_path):
    pytest.importorskip("rdflib")
    path = tmp_path / "vocabulary.ttl"
    path.write_text(TURTLE, encoding="utf-8")
    return path


def by_name(rows):
    return {row.name.rpartition("/")[2]: row for row in rows}


def test_concepts_are_labels_with_all_their_names(turtle):
    rows = by_name(label_rows(turtle))
    assert list(rows) == ["animals", "birds", "owls"]  # deprecated ones and collections are none
    assert rows["birds"].text == "birds"
    assert rows["birds"].alternatives == ["linnut", "bird", "fowl", "lintu"]
    assert rows["owls"].text == "pöllöt"  # there is no English name


def test_languages_can_be_chosen_and_the_first_names_the_label(turtle):
    rows = by_name(label_rows(turtle, ["fi", "en"]))
    assert (rows["birds"].text, rows["birds"].alternatives) == ("linnut", ["birds", "lintu", "bird", "fowl"])
    only = by_name(label_rows(turtle, ["en"]))
    assert (only["birds"].text, only["birds"].alternatives) == ("birds", ["bird", "fowl"])
    assert only["owls"].text is None


def test_broader_and_narrower_are_one_hierarchy_within_the_vocabulary(turtle):
    rows = by_name(label_rows(turtle))
    assert rows["birds"].broader == ["http://example.org/animals"]
    assert rows["owls"].broader == ["http://example.org/birds"]


@pytest.mark.parametrize(("ending", "form"), [("rdf", "xml"), ("nt", "nt")])
def test_rdf_xml_and_n_triples_say_the_same(turtle, ending, form):
    import rdflib

    other = turtle.with_suffix(f".{ending}.gz")
    other.write_bytes(gzip.compress(rdflib.Graph().parse(turtle).serialize(format=form, encoding="utf-8")))
    expected = [row._replace(place="") for row in label_rows(turtle)]
    assert [row._replace(place="") for row in label_rows(other)] == expected


@pytest.mark.parametrize("name", ["v.ttl", "v.rdf", "v.nt"])
def test_a_damaged_vocabulary_is_refused(tmp_path, name):
    pytest.importorskip("rdflib")
    (tmp_path / name).write_text("<rdf:RDF this is no RDF of any kind")
    with pytest.raises(DataError, match=f"{name}: this is not whole"):
        label_rows(tmp_path / name)


def test_rdf_without_concepts_is_refused(tmp_path):
    pytest.importorskip("rdflib")
    (tmp_path / "v.nt").write_text('<http://a> <http://b> "c" .\n')
    with pytest.raises(DataError, match="there is no skos:Concept here"):
        label_rows(tmp_path / "v.nt")


def test_without_rdflib_the_error_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "v.ttl").write_text(TURTLE)
    monkeypatch.setitem(sys.modules, "rdflib", None)
    with pytest.raises(UserError, match=r"needs rdflib, which is not installed; pip install .*\[vocabulary\]"):
        label_rows(tmp_path / "v.ttl")


def test_annifs_csv_has_a_name_per_language(tmp_path):
    (tmp_path / "v.csv").write_text(CSV)
    (row,) = label_rows(tmp_path / "v.csv")
    assert (row.name, row.text, row.alternatives) == ("http://example.org/birds", "birds, all", ["linnut"])


def test_annifs_tsv_must_have_addresses(tmp_path):
    (tmp_path / "v.tsv").write_text("<http://example.org/birds>\tbirds\nnot an address\twolf\n")
    with pytest.raises(DataError, match=r"v.tsv:2: 'not an address' is not the address of a subject"):
        list(label_rows(tmp_path / "v.tsv"))


def test_a_plain_list_of_names_is_refused_with_the_forms_that_are_read(tmp_path):
    (tmp_path / "names.txt").write_text("red roses\nblue sky\n")
    with pytest.raises(DataError, match=r"names.txt:1: .* a table with the columns id and text, or JSON Lines"):
        list(label_rows(tmp_path / "names.txt"))


def test_a_name_that_several_labels_have_is_that_of_the_one_whose_text_it_is(turtle):
    turtle.write_text(TURTLE + 'ex:z a skos:Concept ; skos:prefLabel "z"@en ; skos:altLabel "birds"@en .')
    assert named(turtle)["birds"] == "http://example.org/birds"


def test_other_names_are_read_with_the_text(turtle, tmp_path):
    (tmp_path / "corpus.tsv").write_text("A title\t<http://example.org/birds>\n")
    corpus = read(tmp_path / "corpus.tsv", vocabulary=turtle, languages=["en"])
    assert corpus.labels.texts == ["animals", "birds", ""]
    assert label_texts(corpus.labels) == ["animals", "birds; bird; fowl", ""]


def test_a_converted_folder_keeps_names_and_hierarchy(turtle, tmp_path):
    (tmp_path / "corpus.tsv").write_text("A title\t<http://example.org/owls>\n")
    corpus = read(tmp_path / "corpus.tsv", vocabulary=turtle)
    write_folder(corpus, tmp_path / "out")
    again = read(tmp_path / "out")
    assert list(again.labels.alternatives) == [list(one) for one in corpus.labels.alternatives]
    assert (again.labels.broader.toarray() == corpus.labels.broader.toarray()).all()


def test_two_vocabularies_are_refused(turtle, tmp_path):
    (tmp_path / "train.tsv").write_text("A title\t<http://example.org/owls>\n")
    with pytest.raises(DataError, match=r"vocabulary.ttl is there, and .*other.tsv was named too"):
        read(tmp_path, vocabulary=tmp_path / "other.tsv")


def test_a_broader_label_must_be_listed(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"text": "a", "labels": ["x"]}\n')
    (tmp_path / "labels.jsonl").write_text('{"id": "x", "broader": ["y"]}\n')
    with pytest.raises(DataError, match=r"labels.jsonl:1: the broader label 'y' of 'x' is not in the list"):
        read(tmp_path)


def test_ancestors_are_all_steps_up_and_circles_end():
    broader = csr_array(np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0]], dtype=bool))
    assert ancestors(broader).toarray().tolist() == [[0, 1, 1, 1], [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]]


def test_broader_labels_are_added_with_the_largest_weight():
    broader = csr_array(np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool))
    split = Split(labels=csr_array(np.array([[0.5, 2, 0], [0, 0, 1]], dtype=np.float32)), texts=["a", "b"])
    labels = Labels(names=["owl", "duck", "bird"], broader=broader)
    corpus = with_broader(Corpus(splits={"train": split}, labels=labels, source="here"))
    assert corpus.split("train").labels.toarray().tolist() == [[0.5, 2, 2], [0, 0, 1]]


def test_without_a_hierarchy_there_is_nothing_to_add():
    split = Split(labels=csr_array(np.ones((1, 1), dtype=np.float32)), texts=["a"])
    with pytest.raises(DataError, match="here: the labels have no broader ones"):
        with_broader(Corpus(splits={"train": split}, labels=Labels(names=["x"]), source="here"))
