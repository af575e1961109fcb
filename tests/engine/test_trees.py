"""Packed trees against the method's own ranker."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from laconic.data.prepare import input_rows, prepare
from laconic.data.tokenizer import inputs_of
from laconic.errors import ModelError
from laconic.export.rankers import pack_ranker
from laconic.methods.trees import Config, build
from laconic.models.trees_ranker import TreesRanker
from laconic.packed.engine.texts import Texts
from laconic.packed.engine.trees import Trees
from laconic.types import NO_LABEL
from tests.engine.making import mapped, texts_of
from tests.planted import planted_texts, planted_vectors
from tests.variants import some_slow

LABELS = 12


def made(beam: int = 2) -> tuple[Trees, TreesRanker, Texts]:
    """The packed ranker, torch's, and texts to ask both, some of which have no words or words that nobody knows."""
    config, corpus = Config(fan_out=2, leaf=2, beam=beam), planted_texts(num_labels=LABELS, num_texts=90)
    data, tokenizer = prepare(corpus, config.text, config.vocabulary)
    assert tokenizer is not None
    ranker = build(data, config)
    part = pack_ranker(ranker)
    assert isinstance(part, Trees)
    asked = planted_texts(num_labels=LABELS, num_texts=160, seed=5).split("test").texts
    return part, ranker, texts_of(tokenizer.rows([*(asked or ()), "", "xyzzy", "bababa bababa bababa"]))


@pytest.mark.parametrize("beam", some_slow([1, 2, 10], 2))
def test_answers_are_those_of_the_model_itself(beam: int) -> None:
    part, ranker, asked = made(beam)
    width = int(asked.ids.max(initial=0)) + 1
    inputs = inputs_of(csr_array((asked.weights, asked.ids, asked.starts), shape=(asked.size, width)))
    for k in (0, 1, 5, LABELS, LABELS + 3):
        found, expected = part.rank(asked, k), ranker.rank(inputs, k)
        assert np.array_equal(found.labels, expected.labels.numpy())
        np.testing.assert_allclose(found.scores, expected.scores.numpy(), rtol=1e-5, atol=1e-7)
        assert np.array_equal(part.score(asked, found.labels), found.scores)
    labels = np.tile([3, NO_LABEL, 11, 3], (asked.size, 1))
    np.testing.assert_allclose(
        part.score(asked, labels), ranker.score(inputs, torch.from_numpy(labels)).numpy(), rtol=1e-5, atol=1e-7
    )


def test_answers_to_vectors_are_those_of_the_model_itself() -> None:
    corpus, config = planted_vectors(), Config(fan_out=2, leaf=2)
    ranker = build(prepare(corpus, config.text, config.vocabulary).data, config)
    features = np.asarray(input_rows(corpus.split("test"), None), dtype=np.float32)
    found, expected = pack_ranker(ranker).rank(features, 5), ranker.rank(torch.from_numpy(features), 5)
    assert np.array_equal(found.labels, expected.labels.numpy())
    np.testing.assert_allclose(found.scores, expected.scores.numpy(), rtol=1e-5)


def test_a_wider_beam_finds_what_every_label_scored_would() -> None:
    part, _, asked = made(beam=1)
    everything = part.score(asked, np.tile(np.arange(LABELS), (asked.size, 1)))
    assert np.array_equal(part.exact().rank(asked, LABELS).scores, -np.sort(-everything, axis=1))
    assert part.with_beam(3).beam == 3
    assert part.with_beam(10**6).beam == part.exact().beam


def test_threads_do_not_disturb_each_other() -> None:
    part, _, asked = made()
    expected = part.rank(asked, 5)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: part.rank(asked, 5), range(40)))
    assert all(np.array_equal(answer.labels, expected.labels) for answer in answers)
    assert all(np.array_equal(answer.scores, expected.scores) for answer in answers)


def test_trees_that_are_no_longer_used_are_let_go_at_once() -> None:
    """A service that changes its model would hold both until Python looks for circles."""
    part, _, texts = made()
    part.rank(texts, 3)
    gone = weakref.ref(part)
    gc.disable()
    try:
        del part
        assert gone() is None
    finally:
        gc.enable()


def test_mapped_arrays_answer_the_same(folder: Path) -> None:
    part, _, asked = made()
    assert np.array_equal(mapped(part, folder).rank(asked, 7).labels, part.rank(asked, 7).labels)


def test_what_is_no_forest_is_refused() -> None:
    part, _, asked = made()
    targets = part.targets.copy()
    targets[-1] = targets[-2]
    with pytest.raises(ModelError, match="trees do not lead to every label; pack it again"):
        replace(part, targets=targets)
    with pytest.raises(ModelError, match="trees' biases must be float32"):
        replace(part, biases=part.biases.astype(np.float64))
    with pytest.raises(ModelError, match="beam must be 1 or more, but is 0"):
        replace(part, beam=0)
    with pytest.raises(ModelError, match="labels to be scored point outside of -1 to 11"):
        part.score(asked.part(0, 1), np.array([[LABELS]]))
