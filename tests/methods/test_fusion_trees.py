"""Label trees of a fused method: grown before they are asked for, or then, they are the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from laconic.data.dataset import Dataset
from laconic.data.prepare import prepare
from laconic.errors import TrainingError
from laconic.methods.config import MethodConfig
from laconic.methods.registry import config_of
from laconic.methods.tree_process import build_apart
from laconic.methods.wrappers import fusion_trees
from laconic.methods.wrappers.fusion_trees import Forests, forests, trees_config
from laconic.models.trees_ranker import TreesRanker
from laconic.training.run import Run
from tests.planted import planted_texts


@pytest.fixture(scope="module")
def data() -> Dataset:
    config = settings()
    return prepare(planted_texts(num_labels=12, num_texts=200), config.text, config.vocabulary).data


def settings(held_out: float = 0.2) -> MethodConfig:
    return config_of("inceptionxml", {"validation": held_out, "fusion": {"trees": 2}})


def same(one: TreesRanker | None, other: TreesRanker | None) -> bool:
    assert one is not None
    assert other is not None
    tensors, others = one.state_dict(), other.state_dict()
    return all(torch.equal(tensor, others[name]) for name, tensor in tensors.items())


def test_trees_that_grow_beside_training_are_those_that_are_grown_when_they_are_asked_for(data: Dataset) -> None:
    later, before = Forests(data, settings(), Run.unkept()), Forests(data, settings(), Run.unkept())
    before.start()
    assert same(before.without_held_out(), later.without_held_out())
    assert same(before.of_all(), later.of_all())
    assert not same(later.of_all(), later.without_held_out())
    assert {"fusion-trees-beside", "fusion-trees-of-all-beside"} <= {fact.stage for fact in before.run.stages}
    assert not any("beside" in fact.stage for fact in later.run.stages)


def test_where_few_texts_are_held_out_the_trees_without_them_are_kept(data: Dataset) -> None:
    grown = Forests(data, settings(held_out=0.05), Run.unkept())
    assert grown.of_all() is grown.without_held_out()
    held = replace(data.rows(range(20)), extend=None)  # type: ignore[arg-type]
    apart = Forests(replace(data, validation=held), settings(), Run.unkept())
    assert apart.of_all() is apart.without_held_out()


def test_what_is_needed_is_decided_before_the_first_of_several_ranks_works_apart(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fusion_trees, "_grow_beside", lambda run: False)
    with forests(data, settings(held_out=0.05), Run.unkept()) as grown:
        monkeypatch.setattr(fusion_trees, "_grow_beside", lambda run: True)
        assert grown.of_all() is grown.without_held_out()


def test_an_error_ends_what_grows_beside_it(data: Dataset) -> None:
    run = Run.unkept()
    with pytest.raises(KeyboardInterrupt), forests(data, settings(), run) as grown:
        grown.start()
        raise KeyboardInterrupt
    assert all(one._done.done() for one in grown._started.values())


def test_a_process_that_fails_says_why(data: Dataset) -> None:
    broken = replace(data, inputs=None)  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match=r"that grew label trees ended with exit code 1 \(.+\); run the same"):
        build_apart(broken, trees_config(settings()), lambda fraction: None)


def test_a_process_whose_trees_nobody_wants_is_ended(data: Dataset) -> None:
    def advance(fraction: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_apart(data, trees_config(settings()), advance)


def test_trees_that_are_there_are_not_grown(data: Dataset) -> None:
    tree = Forests(data, settings(), Run.unkept()).without_held_out()
    assert tree is not None
    known = Forests(data, settings(), Run.unkept()).with_all(tree)
    known.start()
    assert not known._started
    assert known.of_all() is known.without_held_out() is tree
