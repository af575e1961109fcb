"""Texts that share an id, such as a package described in several languages, are held out together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus, Labels, Split
from laconic.data.dataset import Dataset
from laconic.data.evaluation_texts import TrainedOn, as_trained, cut_test
from laconic.data.formats.tabular import Columns
from laconic.data.holdout import group_in_facts
from laconic.data.prepare import prepare
from laconic.data.sketch import TextSketch
from laconic.data.sources import read
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.methods import distillation
from laconic.update.model import Config as UpdateConfig
from laconic.update.model import _held_out

PACKAGES = [f"package {number // 3}" for number in range(210)]  # in three languages each


def split_with(ids: Sequence[str | None], groups: Sequence[str | None] | None = None) -> Split:
    labels = csr_array(np.ones((len(ids), 1), dtype=np.float32))
    return Split(labels=labels, texts=[f"word{row} thing" for row in range(len(ids))], ids=ids, groups=groups)


def prepared(split: Split) -> Dataset:
    corpus = Corpus(splits={"train": split}, labels=Labels(names=["a"]), source="packages")
    return prepare(corpus, Splitter(), VocabularyConfig()).data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": id, "text": f"word{row} thing", "labels": ["a"]} for row, id in enumerate(PACKAGES)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.mark.parametrize("seed", range(3))
def test_texts_of_one_id_are_on_one_side(folder: Path, seed: int) -> None:
    data = prepare(read(folder), Splitter(), VocabularyConfig()).data
    learn, held = data.split(0.1, seed)
    assert learn.groups is not None
    assert held.groups is not None
    assert len(held) == 21
    assert not {*learn.groups} & {*held.groups}


def test_ids_of_single_texts_change_no_draw() -> None:
    named = prepared(split_with([str(row) for row in range(100)]))
    nameless = prepared(replace(split_with([None] * 100), ids=None))
    assert named.groups is None
    for one, other in zip(named.split(0.2, 7), nameless.split(0.2, 7), strict=True):
        np.testing.assert_array_equal(one.inputs.toarray(), other.inputs.toarray())


def test_groups_come_before_ids() -> None:
    groups: list[str | None] = ["x", "y", "x", "y"]
    assert split_with(["1", "1", "2", "2"], groups).held_together() == groups


def test_texts_without_an_id_are_alone() -> None:
    numbers = split_with(["1", None, "1", None, "2"]).group_numbers()
    assert numbers is not None
    assert numbers.tolist() == [0, 1, 0, 2, 3]


def test_an_id_of_most_texts_holds_nothing_together() -> None:
    assert split_with(["same"] * 30).held_together() is None
    assert split_with(["same"] * 5 + [str(row) for row in range(4)]).held_together() is None
    assert split_with(["same"] * 5 + [str(row) for row in range(5)]).held_together() is not None


@pytest.mark.parametrize("column", ["id", "sku"])
def test_a_test_split_is_cut_by_ids_and_found_again_by_the_model_s_facts(tmp_path: Path, column: str) -> None:
    table = tmp_path / "shop.csv"
    lines = [f"word{row} thing,a,{id}\n" for row, id in enumerate(PACKAGES)]
    table.write_text(f"text,labels,{column}\n" + "".join(lines))
    cut = cut_test(read(table, Columns(id=column)), 0.1)
    learnt, tested = ({*(cut.split(name).ids or ())} for name in ("train", "test"))
    assert tested
    assert not learnt & tested
    assert cut.holdout is not None
    assert group_in_facts({"data": {"holdout": cut.holdout.facts()}}) == column
    hashes = cut.split("train").hashes()
    assert hashes is not None
    table.write_text(f"text,labels,{column}\n" + "".join(reversed(lines)))
    again = as_trained(read(table, Columns(model_group=column)), [TrainedOn(TextSketch.of(hashes), cut.holdout)])
    assert {*(again.split("test").texts or ())} == {*(cut.split("test").texts or ())}


def test_the_texts_that_an_update_holds_out_keep_ids_together() -> None:
    data = prepared(split_with([*PACKAGES]))
    assert data.groups is not None
    labels = csr_array(np.hstack([np.ones((len(data), 1)), np.eye(len(data))[:, :60:3]]).astype(np.float32))
    chosen = _held_out(replace(data, labels=labels), UpdateConfig(validation=0.2), known=1)
    assert chosen.any()
    assert not {*data.groups[chosen]} & {*data.groups[~chosen]}
    assert not chosen[:60].any()  # the first text of each id there is the only example of a new label


def test_the_texts_that_choose_a_student_keep_ids_together() -> None:
    corpus = Corpus(splits={"train": split_with([*PACKAGES])}, labels=Labels(names=["a"]), source="packages")
    parts = distillation._with_validation(corpus, distillation.Config(validation=0.1)).splits
    learnt, chosen = ({*(parts[name].ids or ())} for name in ("train", "valid"))
    assert len(parts["valid"]) == 21
    assert not learnt & chosen
