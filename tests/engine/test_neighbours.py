"""Nearest texts, by words and by vectors, against the method `nearest`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from laconic.data.prepare import input_rows, prepare
from laconic.data.tokenizer import inputs_of
from laconic.errors import DataError, ModelError
from laconic.export.rankers import pack_ranker
from laconic.methods.nearest import Config, build
from laconic.models.nearest_ranker import NearestRanker
from laconic.models.shortlisters.nearest import queries_of
from laconic.packed.engine.cells import Cells
from laconic.packed.engine.neighbours import Neighbours
from laconic.packed.engine.pairs import bags_of
from laconic.packed.engine.texts import Texts
from laconic.types import NO_LABEL, Inputs
from tests.engine.making import mapped, texts, texts_of
from tests.planted import planted_texts, planted_vectors

LABELS = 12


def by_words(**settings: float) -> tuple[Neighbours, NearestRanker, Texts]:
    """The packed ranker, torch's, and texts to ask both, some of which have no words or words that nobody knows."""
    config = replace(Config(), **settings)
    corpus = planted_texts(num_labels=LABELS, num_texts=90, with_label_texts=True)
    data, tokenizer = prepare(corpus, config.text, config.vocabulary)
    assert tokenizer is not None
    ranker = build(data, config)
    part = pack_ranker(ranker)
    assert isinstance(part, Neighbours)
    asked = planted_texts(num_labels=LABELS, num_texts=160, seed=5).split("test").texts
    rows = tokenizer.rows([*(asked or ()), "", "xyzzy", "bababa bababa bababa"])
    return part, ranker, texts_of(rows)


def torch_inputs(asked: Texts) -> Inputs:
    width = int(asked.ids.max(initial=0)) + 1
    return inputs_of(csr_array((asked.weights, asked.ids, asked.starts), shape=(asked.size, width)))


@pytest.mark.parametrize(
    "settings", [{}, {"neighbours": 1}, {"neighbours": 500}, {"power": 0.5}, {"label_text": 0.0}, {"label_text": 3.0}]
)
def test_nearest_texts_by_words_are_those_of_nearest(settings: dict[str, float]) -> None:
    part, ranker, asked = by_words(**settings)
    for k in (0, 1, 5, LABELS, LABELS + 3):
        found, expected = part.rank(asked, k), ranker.rank(torch_inputs(asked), k)
        assert np.array_equal(found.labels, expected.labels.numpy())
        np.testing.assert_allclose(found.scores, expected.scores.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(part.score(asked, found.labels), found.scores, rtol=1e-6)
    labels = np.tile([3, NO_LABEL, 11, 3], (asked.size, 1))
    expected_scores = ranker.score(torch_inputs(asked), torch.from_numpy(labels)).numpy()
    np.testing.assert_allclose(part.score(asked, labels), expected_scores, rtol=1e-5, atol=1e-6)


def test_long_lists_are_only_looked_up_and_cosines_are_whole() -> None:
    """What is found has the cosine that it has among all; the more is gone through, the more of the best is found."""
    part, _, asked = by_words(neighbours=3)
    whole, everything = part.exact().channels(asked), replace(part, walked=0, neighbours=500).channels(asked)
    cosines = [dict(zip(*both, strict=True)) for both in zip(everything.neighbours, everything.weights, strict=True)]
    shares = []
    for walked in (1, 10, 40, 500):
        found = replace(part, walked=walked).channels(asked)
        for known, near, weights in zip(cosines, found.neighbours, found.weights, strict=True):
            assert weights == pytest.approx([known.get(text, 0) for text in near], rel=1e-5)
        there = whole.neighbours >= 0
        shares.append((whole.neighbours[:, :, None] == found.neighbours[:, None]).any(2)[there].mean())
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] == 1


def test_a_word_that_few_texts_have_leaves_nobody_without_neighbours() -> None:
    """Words of label texts alone have an empty list, which comes first."""
    part, _, asked = by_words(neighbours=3)
    empty = replace(part.index, starts=np.append(part.index.starts, part.index.starts[-1]))
    word = np.array([len(part.index.starts) - 1], dtype=np.int32)
    with_it = Texts(
        np.append(word, asked.part(0, 1).ids),
        np.append(0.5, asked.part(0, 1).weights).astype(np.float32),
        np.array([0, 1 + asked.part(0, 1).ids.size]),
    )
    found = replace(part, index=empty, walked=1).channels(with_it)
    assert (found.neighbours >= 0).all()


BAGS = st.lists(st.lists(st.integers(1, 9), max_size=8), max_size=5)


@given(BAGS)
def test_bags_have_every_word_once(bags: list[list[int]]) -> None:
    asked = texts(bags)
    asked.weights[asked.ids == 1] = 0  # as unknown words have
    found = bags_of(asked)
    for text, bag in enumerate(bags):
        part = slice(found.starts[text], found.starts[text + 1])
        words = sorted(set(bag) - {1})
        assert found.numbers[part].tolist() == words
        np.testing.assert_allclose(found.values[part], [bag.count(word) * word / 10 for word in words], rtol=1e-6)
    if asked.size and len(asked.ids):
        expected = queries_of(torch_inputs(asked))
        assert np.array_equal(found.starts, expected.starts)
        assert np.array_equal(found.numbers, expected.numbers)
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-6)


def test_texts_that_cannot_be_read_are_refused() -> None:
    sound = texts([[3, 4], [5]])
    unsound = [
        *(sound._replace(starts=np.array(starts)) for starts in ([0, 4], [-1, 2], [2, 1], [0, 3, 3, 0], [0, 3, 0, 3])),
        sound._replace(ids=np.array([3, -4, 5], dtype=np.int32)),
        sound._replace(weights=sound.weights[:2]),
    ]
    for asked in unsound:
        with pytest.raises(ModelError, match="token ids are negative, or their bounds"):
            bags_of(asked)


def by_vectors() -> tuple[Neighbours, NearestRanker, np.ndarray]:
    corpus, config = planted_vectors(num_texts=200), Config(neighbours=20)
    data, _ = prepare(corpus, config.text, config.vocabulary)
    ranker = build(data, config)
    part = pack_ranker(ranker)
    assert isinstance(part, Neighbours)
    return part, ranker, np.asarray(input_rows(corpus.split("test"), None), dtype=np.float32)


def test_nearest_texts_by_vectors_are_those_of_nearest() -> None:
    part, ranker, features = by_vectors()
    part = part.exact()
    labels, scores = part.rank(features, 5)
    expected = ranker.rank(torch.from_numpy(features), 5)
    assert (expected.labels.numpy()[:, :, None] == labels[:, None]).any(2).mean() > 0.99
    np.testing.assert_allclose(scores, expected.scores.numpy(), atol=1e-3)
    np.testing.assert_allclose(part.score(features, labels), scores, rtol=1e-6)
    assert part.rank(features[:0], 5).labels.shape == (0, 5)


def test_more_cells_of_vectors_find_more() -> None:
    part, _, features = by_vectors()
    assert isinstance(part.index, Cells)
    few, all_of_them = part.with_beam(1), part.with_beam(99)
    assert isinstance(all_of_them.index, Cells)
    assert all_of_them.index.beam == part.index.middles.size > 1
    cosines = [one.channels(features).weights.sum() for one in (few, all_of_them)]
    assert cosines[0] < cosines[1]
    assert np.array_equal(all_of_them.rank(features, 5).labels, part.exact().rank(features, 5).labels)


def test_each_kind_of_text_has_its_own_index() -> None:
    part, _, asked = by_words()
    dense, _, features = by_vectors()
    with pytest.raises(DataError, match="finds texts by their words, but is given dense features"):
        part.rank(features, 5)
    with pytest.raises(DataError, match="reads 16 features, but is given words"):
        dense.rank(asked, 5)
    with pytest.raises(DataError, match="reads 16 features, but is given 15"):
        dense.rank(features[:, 1:], 5)


def test_labels_that_are_not_there_are_refused() -> None:
    part, _, asked = by_words()
    with pytest.raises(ModelError, match="labels to be scored point outside of -1 to 11"):
        part.score(asked.part(0, 1), np.array([[LABELS]]))


def test_threads_do_not_disturb_each_other() -> None:
    part, _, asked = by_words()
    expected = part.rank(asked, 5)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: part.rank(asked, 5), range(40)))
    assert all(np.array_equal(answer.labels, expected.labels) for answer in answers)
    assert all(np.array_equal(answer.scores, expected.scores) for answer in answers)


def test_mapped_arrays_answer_the_same(folder: Path) -> None:
    part, _, asked = by_words()
    back = mapped(part, folder)
    assert np.array_equal(back.rank(asked, 7).labels, part.rank(asked, 7).labels)
    dense, _, features = by_vectors()
    assert np.array_equal(mapped(dense, folder).rank(features, 7).labels, dense.rank(features, 7).labels)
