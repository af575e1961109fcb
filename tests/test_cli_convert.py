"""`laconic convert` reads vocabularies, adds broader labels, and writes files for fastText."""

import json

import pytest
from typer.testing import CliRunner

from laconic.cli.main import app

CORPUS = "Owls at night\t<http://example.org/owls>\n"
VOCABULARY = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix ex: <http://example.org/> .
ex:birds a skos:Concept ; skos:prefLabel "birds"@en, "linnut"@fi .
ex:owls a skos:Concept ; skos:prefLabel "owls"@en ; skos:broader ex:birds .
"""


def convert(*arguments):
    return CliRunner().invoke(app, ["convert", *map(str, arguments)])


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.tsv"
    path.write_text(CORPUS)
    return path


def test_a_vocabulary_names_the_labels_and_broader_ones_can_be_added(corpus, tmp_path):
    pytest.importorskip("rdflib")
    vocabulary = tmp_path / "yso.ttl"
    vocabulary.write_text(VOCABULARY)
    options = ["--vocabulary", vocabulary, "--language", "en", "--add-broader", "--plain"]
    done = convert(corpus, tmp_path / "out", *options)
    assert done.exit_code == 0, done.output
    (record,) = map(json.loads, (tmp_path / "out" / "train.jsonl").read_text().splitlines())
    assert record["labels"] == ["http://example.org/birds", "http://example.org/owls"]
    listed = [json.loads(line) for line in (tmp_path / "out" / "labels.jsonl").read_text().splitlines()]
    assert listed[1] == {"id": "http://example.org/owls", "text": "owls", "broader": ["http://example.org/birds"]}


def test_files_for_fasttext(corpus, tmp_path):
    done = convert(corpus, tmp_path / "out", "--to", "fasttext")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "train.txt").read_text() == "__label__http://example.org/owls Owls at night\n"


def test_an_unknown_format_is_refused(corpus, tmp_path):
    done = convert(corpus, tmp_path / "out", "--to", "csv")
    assert done.exit_code != 0
    assert "--to must be jsonl or fasttext, but is 'csv'" in f"{done.output} {done.exception}"
