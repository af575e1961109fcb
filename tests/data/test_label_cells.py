"""A table's cells of labels: which separator is chosen, lists as Python and JSON write them, and what is reported."""

from __future__ import annotations

import csv
import io
import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.data.corpus import Corpus
from laconic.data.formats import label_cells
from laconic.data.formats.label_cells import Familiar
from laconic.data.formats.tabular import Columns
from laconic.data.sources import read
from laconic.errors import ConfigError, DataError


def table(cells: list[str]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["text", "labels"])
    writer.writerows((f"text {number}", cell) for number, cell in enumerate(cells))
    return buffer.getvalue()


def corpus_with(folder: Path, cells: list[str], **columns: Any) -> Corpus:
    path = folder / "shop.csv"
    path.write_text(table(cells), "utf-8", newline="")
    return read(path, Columns(**columns))


def labels_in(corpus: Corpus, split: str = "train") -> list[list[str]]:
    matrix, names = corpus.split(split).labels, corpus.labels.names
    return [[names[label] for label in matrix[[row]].indices] for row in range(matrix.shape[0])]


def labels(folder: Path, cells: list[str], **columns: Any) -> list[list[str]]:
    return labels_in(corpus_with(folder, cells, **columns))


COLOURS = ["red", "green", "blue", "black", "white"]
SHIRTS = [f"clothing, {kind}, {COLOURS[number % 5]}" for number in range(20) for kind in ("shirts", "hats", "shoes")]
DEPARTMENTS = ["Home, Garden & Tools", "Books", "Clothing, Shoes & Jewelry", "Toys", "Books"] * 4


@pytest.mark.parametrize("stray", ["shirts; long", "AC|DC"])
def test_one_stray_sign_does_not_change_the_separator_of_the_file(stray: str, tmp_path: Path) -> None:
    found = labels(tmp_path, [*SHIRTS, stray])
    assert found[0] == ["clothing", "shirts", "red"]
    assert found[-1] == [stray]


def test_a_row_of_labels_that_never_varies_is_still_a_list(tmp_path: Path) -> None:
    found = labels(tmp_path, ["clothing, shirts, blue"] * 50 + ["a;b"])
    assert found[0] == ["clothing", "shirts", "blue"]


def test_single_labels_with_a_comma_inside_stay_whole(tmp_path: Path) -> None:
    assert labels(tmp_path, DEPARTMENTS) == [[cell] for cell in DEPARTMENTS]
    few = ["Home, Garden & Tools", "Books", "Toys"]
    assert labels(tmp_path, few) == [[cell] for cell in few]


def test_names_with_commas_are_told_from_lists_of_them(tmp_path: Path) -> None:
    found = labels(tmp_path, [f"{one}|Sale" for one in DEPARTMENTS] + DEPARTMENTS)
    assert [sorted(own) for own in found[:2]] == [["Home, Garden & Tools", "Sale"], ["Books", "Sale"]]
    assert found[20] == ["Home, Garden & Tools"]


def test_some_of_very_many_cells_tell_lists_from_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_cells, "_ENOUGH", 4)
    assert labels(tmp_path, [*SHIRTS, "a;b"])[0] == ["clothing", "shirts", "red"]
    assert labels(tmp_path, DEPARTMENTS)[0] == ["Home, Garden & Tools"]


def test_labels_that_also_stand_alone_are_a_list(tmp_path: Path) -> None:
    cells = ["red", "green", "blue", "black", "red, green", "blue, black", "green", "red", "blue"]
    assert labels(tmp_path, cells)[4] == ["red", "green"]


def test_the_end_of_an_html_entity_separates_nothing(tmp_path: Path) -> None:
    cells = ["Health &amp; Beauty", "Books &#38; Films, Music", "Music, Films", "Films, Books"]
    assert labels(tmp_path, cells)[0] == ["Health &amp; Beauty"]


@pytest.mark.parametrize("separator", ["none", ""])
def test_a_cell_is_one_label_where_the_user_says_so(separator: str, tmp_path: Path) -> None:
    cells = ["a, b; c|d", "['a', 'b']", "", " x "]
    assert labels(tmp_path, cells, separator=separator) == [["a, b; c|d"], ["['a', 'b']"], [], ["x"]]


@pytest.mark.parametrize("separator", ["|", ";", ",", " / ", "&"])
def test_a_separator_that_the_user_names_is_obeyed(separator: str, tmp_path: Path) -> None:
    cells = [f"Home, Garden{separator}Tools", *DEPARTMENTS]
    found = labels(tmp_path, cells, separator=separator)
    assert found == [[part.strip() for part in cell.split(separator)] for cell in cells]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("['a', 'b c']", ["a", "b c"]),
        ('["a","b"]', ["a", "b"]),
        ("[]", []),
        (" [ ] ", []),
        ("[ 'a' ]", ["a"]),
        ("""["it's", 'x "y"']""", ["it's", 'x "y"']),
        (r"['it\'s', 'back\\slash', 'new\nline']", ["it's", r"back\slash", "new\nline"]),
        (r'["caf\u00e9", "\ud83d\ude00", "a\/b"]', ["café", "😀", "a/b"]),
        ("['a, b', 'c; d', 'e|f', '[g]']", ["a, b", "c; d", "e|f", "[g]"]),
        ("['a' 'b'\n 'c']", ["a", "b", "c"]),  # as numpy prints an array
        ("[np.str_('a'), np.str_('b')]", ["a", "b"]),
        ("['a', 'b',]", ["a", "b"]),
        ("[1, 20]", ["1", "20"]),
        ("[solved]", ["[solved]"]),
    ],
)
def test_lists_are_read_as_python_numpy_and_json_write_them(cell: str, expected: list[str], tmp_path: Path) -> None:
    corpus = corpus_with(tmp_path, [cell, "['other']"])
    assert sorted(labels_in(corpus)[0]) == sorted(expected)


def test_an_empty_cell_has_no_labels(tmp_path: Path) -> None:
    assert labels(tmp_path, ["", "  ", "a|b", "[]"]) == [[], [], ["a", "b"], []]


NAMES = st.text(string.printable + "éß漢😀", min_size=1, max_size=6).filter(lambda name: name.strip() != "")


@given(
    lists=st.lists(st.lists(NAMES, max_size=4, unique=True), min_size=1, max_size=4),
    write=st.sampled_from([str, json.dumps]),
)
def test_lists_that_python_or_json_has_written_are_read_back(lists: list[list[str]], write: Any, folder: Path) -> None:
    assert [sorted(own) for own in labels(folder, [write(own) for own in lists])] == [sorted(own) for own in lists]


@pytest.mark.parametrize("cell", ["['a', 'b]", "['a' ... 'z']", "['a', nan]", "['a', ['b']]", '["a\\q"]'])
def test_a_list_that_is_broken_is_refused_with_its_place(cell: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"shop\.csv:3: the labels .* are not a whole list.*--separator none"):
        corpus_with(tmp_path, ["['a']", cell])
    assert labels(tmp_path, ["['a']", cell], separator="none")[1] == [cell]


def test_all_files_of_a_folder_have_one_separator(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(table(SHIRTS))
    (tmp_path / "test.csv").write_text(table(["clothing, socks", "shirts; long", "hats; wide"]))
    found = labels_in(read(tmp_path), "test")
    assert found == [["clothing", "socks"], ["shirts; long"], ["hats; wide"]]


def further(folder: Path, cells: list[str], names: list[str], separator: str = "") -> list[list[str]]:
    """The labels of further data for a model that has these labels and was trained on tables with that separator."""
    (folder / "further.csv").write_text(table(cells))
    return labels_in(read(folder / "further.csv", familiar=Familiar(separator, lambda: names)))


def test_data_for_a_model_is_cut_so_that_its_labels_are_found(tmp_path: Path) -> None:
    cells = ["Home, Garden & Tools", "clothing; shirts"]
    assert further(tmp_path, cells[:1], ["Home, Garden & Tools"]) == [["Home, Garden & Tools"]]
    assert further(tmp_path, cells[:1], ["Home", "Garden & Tools"]) == [["Home", "Garden & Tools"]]
    for trained in ("", ";", ","):  # another separator than in training is recognised
        assert further(tmp_path, cells[1:], ["clothing", "shirts"], trained) == [["clothing", "shirts"]]


def test_data_for_a_model_with_unknown_labels_is_cut_as_its_training_data_was(tmp_path: Path) -> None:
    cells = ["clothing, socks", "shirts; long", "hats; wide"]
    assert further(tmp_path, cells, ["other"], ",")[0] == ["clothing", "socks"]
    assert further(tmp_path, cells, ["other"], "none")[0] == ["clothing, socks"]
    assert further(tmp_path, cells, ["other"])[1] == ["shirts", "long"]  # nothing is known: as most cells have it


def note_about(corpus: Corpus, words: str) -> str:
    (note,) = (note for note in corpus.notes if words in note)
    return note


def test_the_choice_is_reported_with_the_other_signs_that_occur(tmp_path: Path) -> None:
    corpus = corpus_with(tmp_path, [*SHIRTS, "shirts; long", "AC;DC", "x|y"])
    assert "labels are separated by ','" in note_about(corpus, "separated")
    semicolon = note_about(corpus, "';'")
    assert "2 cells" in semicolon
    assert "'shirts; long'" in semicolon
    assert "shop.csv:62" in semicolon
    assert "--separator ';'" in semicolon
    assert "1 cell " in note_about(corpus, "'|'")


def test_single_labels_are_reported_as_such(tmp_path: Path) -> None:
    corpus = corpus_with(tmp_path, DEPARTMENTS)
    assert "each cell is one label" in note_about(corpus, "one label")
    assert "8 cells" in note_about(corpus, "','")


def test_lists_are_reported_and_what_only_looks_like_one_too(tmp_path: Path) -> None:
    assert "3 cells are lists" in note_about(corpus_with(tmp_path, ["['a', 'b']", "[]", "['b']"]), "lists")
    note = note_about(corpus_with(tmp_path, ["[a, b]", "[c, d]", "[a, c]"]), "look like lists")
    assert "3 cells" in note
    assert "'[a, b]'" in note


def test_a_named_separator_is_silent_unless_it_does_not_occur(tmp_path: Path) -> None:
    assert not corpus_with(tmp_path, [*SHIRTS, "a;b"], separator=",").notes
    assert not corpus_with(tmp_path, [*SHIRTS, "a;b"], separator="none").notes
    note = note_about(corpus_with(tmp_path, SHIRTS, separator=";"), "no cell has")
    assert "60 cells have ','" in note
    lists = corpus_with(tmp_path, ["['a', 'b']", "['b']"], separator=",")
    assert "2 cells look like lists" in note_about(lists, "lists")


def test_a_corpus_knows_the_columns_that_were_read(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text("sku,Title,price,tags\n1,hat,9,a;b\n2,cap,9,b\n")
    facts = read(tmp_path / "shop.csv").table
    assert facts is not None
    assert facts.columns == {"all": ["sku", "Title", "price", "tags"]}
    assert facts.used == {"all": {"text": "Title", "labels": "tags"}}
    assert (facts.separator, facts.lists) == (";", 0)


def test_data_that_is_no_table_has_no_separator(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"text": "hat", "labels": ["a;b"]}\n')
    corpus = read(tmp_path / "data.jsonl")
    assert corpus.table is None
    assert not corpus.notes


def test_a_blank_that_is_no_space_is_refused_as_a_separator() -> None:
    with pytest.raises(ConfigError, match=r"must be a sign or a single space, but is '\\t'"):
        Columns(separator="\t")
