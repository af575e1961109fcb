"""Groups of texts: read from tables and records, held out together, and found again by who evaluates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from laconic import Laconic
from laconic.data.dataset import Dataset
from laconic.data.evaluation_texts import TrainedOn, as_trained, cut_test
from laconic.data.formats.tabular import Columns
from laconic.data.holdout import Holdout, group_in_facts
from laconic.data.output import records
from laconic.data.prepare import prepare
from laconic.data.sketch import TextSketch
from laconic.data.sources import read
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import DataError

GROUPS = [f"source {number // 5}" for number in range(200)]  # five texts each
TABLE = "text,labels,source\n" + "".join(f"word{row} thing,a,{group}\n" for row, group in enumerate(GROUPS))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "shop.csv"
    path.write_text(TABLE)
    return path


def grouped_data(groups: list[int]) -> Dataset:
    size = len(groups)
    labels = csr_array(np.ones((size, 1), dtype=np.float32))
    return Dataset(inputs=np.arange(size, dtype=np.float32)[:, None], labels=labels, groups=np.array(groups))


@pytest.mark.parametrize("seed", range(3))
def test_whole_groups_are_held_out(seed: int) -> None:
    data = grouped_data([number // 5 for number in range(200)])
    learn, held = data.split(0.1, seed)
    assert learn.groups is not None
    assert held.groups is not None
    assert not {*learn.groups} & {*held.groups}
    assert len(held) == 20
    assert sorted([*learn.inputs[:, 0], *held.inputs[:, 0]]) == [*range(200)]


@pytest.mark.parametrize(
    ("groups", "held"),
    [
        ([0] * 50, 0),  # one group: nothing can be held out
        ([0] * 40 + [*range(1, 11)], 5),  # the large group is never held out
        ([0] * 15 + [1] * 5, 5),  # both are too large: the smaller one
        ([0, 0, 0, 1], 0),  # a tenth of four texts is none
    ],
)
def test_about_as_many_texts_are_held_out_as_wanted_and_a_group_is_always_left(groups: list[int], held: int) -> None:
    assert {len(grouped_data(groups).split(0.1, seed)[1]) for seed in range(30)} == {held}


def test_texts_without_a_group_are_alone(table: Path) -> None:
    table.write_text("text,labels,source\none,a,x\ntwo,a,\nthree,a,x\nfour,a,\n")
    corpus = read(table, Columns(group="source"))
    assert corpus.split("train").groups == ["x", None, "x", None]
    data = prepare(corpus, Splitter(), VocabularyConfig()).data
    assert data.groups is not None
    assert data.groups.tolist() == [0, 1, 0, 2]


def test_groups_are_read_where_they_are_named_and_only_there(table: Path, tmp_path: Path) -> None:
    assert read(table).split("train").groups is None
    corpus = read(table, Columns(group="source"))
    assert corpus.split("train").groups == GROUPS
    lines = tmp_path / "shop.jsonl"
    written = [*records(corpus.split("train"), corpus.labels)]
    assert written[0]["group"] == "source 0"
    lines.write_text("".join(json.dumps(one) + "\n" for one in written))
    assert read(lines, Columns(group="group")).split("train").groups == GROUPS


@pytest.mark.parametrize("name", ["shop.csv", "shop.jsonl"])
def test_a_group_that_is_asked_for_must_be_there(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(TABLE if name.endswith("csv") else '{"text": "a rose", "labels": ["a"]}\n')
    with pytest.raises(DataError, match=f"{name}: no text has a group 'origin' .*--column group=origin"):
        read(path, Columns(group="origin"))


def test_a_test_split_is_cut_by_groups_and_found_again_by_the_model_s_facts(table: Path) -> None:
    corpus = read(table, Columns(group="source"))
    cut = cut_test(corpus, 0.1)
    sides = [{*(cut.split(name).groups or ())} for name in ("train", "test")]
    assert sides[1]
    assert not sides[0] & sides[1]
    assert cut.holdout is not None
    facts = {"data": {"holdout": cut.holdout.facts()}}
    assert Holdout.of_facts(facts) == cut.holdout
    assert group_in_facts(facts) == "source"
    hashes = cut.split("train").hashes()
    assert hashes is not None
    again = as_trained(read(table, Columns(model_group="source")), [TrainedOn(TextSketch.of(hashes), cut.holdout)])
    assert again.split("test").texts == cut.split("test").texts


def test_the_facts_of_a_model_without_groups_name_none() -> None:
    assert group_in_facts({}) == ""
    assert "group" not in Holdout(fraction=0.1, seed=0, below=5).facts()


def test_the_estimator_holds_groups_out_together() -> None:
    texts = [f"word{number % 7} thing{number % 3}" for number in range(60)]
    labels = [[f"label {number % 3}"] for number in range(60)]
    Laconic("nearest").fit(texts, labels, groups=[number // 4 for number in range(60)])
    with pytest.raises(DataError, match="there are 60 texts, but 2 groups; give one for each"):
        Laconic("nearest").fit(texts, labels, groups=["a", "b"])


def test_a_split_s_rows_keep_their_groups(table: Path) -> None:
    corpus = read(table, Columns(group="source"))
    assert replace(corpus.split("train")).rows(np.array([7, 0])).groups == ["source 1", "source 0"]
