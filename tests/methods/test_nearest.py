"""nearest, against its formula written out plainly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from laconic.data.dataset import Dataset
from laconic.data.prepare import input_rows, prepare
from laconic.data.tokenizer import inputs_of
from laconic.errors import ConfigError, ModelError
from laconic.methods.nearest import Config, build, restore
from laconic.models.rankers import Ranker
from laconic.types import FIRST_WORD, NO_LABEL
from tests.planted import bags_in_full, planted_texts, planted_vectors, share_of_right_first_labels
from tests.variants import examples


def scores_of_all(ranker: Ranker, rows: csr_array | np.ndarray) -> np.ndarray:
    labels = torch.arange(ranker.num_labels).expand(rows.shape[0], -1).contiguous()
    return ranker.score(inputs_of(rows), labels).numpy()


def slow_scores(data: Dataset, config: Config, queries: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """The formula of the module's docstring, with everything in full: queries × labels."""
    weights = np.ones(len(data)) if data.weights is None else data.weights
    votes = data.labels.toarray() * weights[:, None]
    scores = np.zeros((len(queries), data.num_labels))
    for row, query in enumerate(queries):
        cosines = texts @ query
        nearest = sorted(range(len(texts)), key=lambda text: (-cosines[text], text))
        for text in nearest[: config.neighbours]:
            if cosines[text] > 0:
                scores[row] += cosines[text] ** config.power * votes[text]
        scores[row] /= max(scores[row].max(), 1e-30)
        if data.label_inputs is not None and isinstance(data.inputs, csr_array):
            scores[row] += config.label_text * (bags_in_full(data.label_inputs, len(query)) @ query)
    return scores


def no_tie_at_the_end(cosines: np.ndarray, neighbours: int) -> bool:
    """Where the last neighbour is as near as the next, rounding decides between them."""
    ordered = -np.sort(-cosines, axis=1)
    return neighbours >= cosines.shape[1] or bool(
        (ordered[:, neighbours - 1] - ordered[:, neighbours] > 1e-5).all() or not ordered[:, neighbours - 1].any()
    )


@examples(40)
@given(
    seed=st.integers(0, 10**6),
    neighbours=st.sampled_from([1, 2, 3, 5, 100]),
    power=st.sampled_from([0.5, 1.0, 3.0]),
    label_text=st.sampled_from([0.0, 0.6, 3.0]),
    weighted=st.booleans(),
    with_label_texts=st.booleans(),
)
def test_scores_of_texts_are_those_of_the_formula(
    seed: int, neighbours: int, power: float, label_text: float, weighted: bool, with_label_texts: bool
) -> None:
    config = Config(neighbours=neighbours, power=power, label_text=label_text)
    corpus = planted_texts(num_labels=6, num_texts=25, seed=seed, with_label_texts=with_label_texts)
    data, tokenizer = prepare(corpus, config.text, config.vocabulary)
    if weighted:
        data = with_weights(data, seed)
    queries = input_rows(corpus.split("test"), tokenizer)
    assert isinstance(data.inputs, csr_array)
    size = data.inputs.shape[1]
    full_queries, full_texts = bags_in_full(queries, size), bags_in_full(data.inputs, size)
    assume(no_tie_at_the_end(full_queries @ full_texts.T, neighbours))
    ours = scores_of_all(build(data, config), queries)
    np.testing.assert_allclose(ours, slow_scores(data, config, full_queries, full_texts), rtol=1e-4, atol=1e-5)


@examples(25)
@given(seed=st.integers(0, 10**6), neighbours=st.sampled_from([1, 4, 100]), weighted=st.booleans())
def test_scores_of_dense_vectors_are_those_of_the_formula(seed: int, neighbours: int, weighted: bool) -> None:
    config = Config(neighbours=neighbours)
    corpus = planted_vectors(num_labels=5, num_texts=30, dim=4, seed=seed)
    data = prepare(corpus, config.text, config.vocabulary).data
    if weighted:
        data = with_weights(data, seed)
    queries = input_rows(corpus.split("test"), None)
    full_queries, full_texts = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries, data.inputs))
    assume(no_tie_at_the_end(full_queries @ full_texts.T, neighbours))
    ours = scores_of_all(build(data, config), queries)
    np.testing.assert_allclose(ours, slow_scores(data, config, full_queries, full_texts), rtol=1e-3, atol=1e-5)


def with_weights(data: Dataset, seed: int) -> Dataset:
    """Return the data with a weight for every text (some 0) and for every label of a text."""
    generator = np.random.default_rng(seed)
    labels = data.labels.copy()
    labels.data = generator.uniform(0.1, 5, labels.nnz).astype(np.float32)
    weights = generator.choice([0, 0.5, 1, 3], len(data)).astype(np.float32)
    return replace(data, labels=labels, weights=weights)


def test_planted_labels_are_found() -> None:
    for corpus in (planted_texts(), planted_texts(with_label_texts=True), planted_vectors()):
        data, tokenizer = prepare(corpus, Config().text, Config().vocabulary)
        test = corpus.split("test")
        ranking = build(data, Config(neighbours=10)).rank(inputs_of(input_rows(test, tokenizer)), 5)
        assert share_of_right_first_labels(ranking.labels.numpy(), test.labels) > 0.95


def sparse_data(rows: list[list[float]], labels: list[list[float]], **parts: csr_array | np.ndarray | None) -> Dataset:
    """Data by hand: the rows' columns are words."""
    tokens = np.hstack([np.zeros((len(rows), FIRST_WORD)), rows]).astype(np.float32)
    return Dataset(inputs=csr_array(tokens), labels=csr_array(np.array(labels, dtype=np.float32)), **parts)


def test_a_score_by_hand() -> None:
    # Two texts: one is the query itself, the other has a cosine of 0.6 with it.
    data = sparse_data([[1, 0], [0.6, 0.8]], [[1, 0, 0], [1, 1, 0]])
    scores = scores_of_all(build(data, Config(power=2.0)), data.inputs[:1])
    np.testing.assert_allclose(scores, [[1, 0.36 / 1.36, 0]], rtol=1e-6)


def test_a_label_without_texts_is_found_by_its_own_text() -> None:
    label_inputs = sparse_data([[1, 0], [0, 1]], [[1]]).inputs
    data = sparse_data([[1, 0]], [[1, 0]], label_inputs=label_inputs)
    query = sparse_data([[0, 1]], [[1]]).inputs
    ranking = build(data, Config(label_text=0.5)).rank(inputs_of(query), 2)
    assert ranking.labels.tolist() == [[1, 0]]
    assert ranking.scores.tolist() == [[0.5, 0]]
    without = build(data, Config(label_text=0.0)).rank(inputs_of(query), 2)
    assert without.labels.tolist() == [[0, 1]]  # by frequency alone


def test_where_words_give_out_frequent_labels_follow() -> None:
    data = sparse_data([[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]], [[0, 1, 0, 0]] * 2 + [[0, 0, 0, 1]] * 3)
    ranker = build(data, Config())
    nothing = sparse_data([[0, 0]], [[1]]).inputs
    assert ranker.rank(inputs_of(nothing), 6).labels.tolist() == [[3, 1, 0, 2, NO_LABEL, NO_LABEL]]
    found = ranker.rank(inputs_of(data.inputs[:1]), 4)
    assert found.labels.tolist() == [[1, 3, 0, 2]]
    assert found.scores.tolist() == [[1, 0, 0, 0]]


def test_a_text_of_weight_zero_has_no_vote() -> None:
    data = sparse_data([[1, 0], [1, 0]], [[1, 0], [0, 1]], weights=np.array([0, 2], dtype=np.float32))
    assert scores_of_all(build(data, Config()), data.inputs[:1]).tolist() == [[0, 1]]
    none = replace(data, weights=np.zeros(2, dtype=np.float32))
    assert scores_of_all(build(none, Config()), data.inputs[:1]).tolist() == [[0, 0]]


def test_opposite_vectors_have_no_say() -> None:
    data = Dataset(inputs=np.eye(2, dtype=np.float32), labels=csr_array(np.eye(2, dtype=np.float32)))
    ranker = build(data, Config())
    assert scores_of_all(ranker, np.array([[-1, -1]], dtype=np.float32)).tolist() == [[0, 0]]
    assert scores_of_all(ranker, np.array([[-1, 1]], dtype=np.float32)).tolist() == [[0, 1]]
    assert scores_of_all(ranker, np.array([[0, 0]], dtype=np.float32)).tolist() == [[0, 0]]


@pytest.mark.parametrize("weight", [3e38, 1e-38])
def test_weights_of_any_size_leave_scores_finite_and_no_label_twice(weight: float) -> None:
    labels = [[weight, 1, 0], [weight, 0, 1]]
    data = sparse_data([[1, 0], [1, 0]], labels, weights=np.array([weight, 1], dtype=np.float32))
    ranking = build(data, Config()).rank(inputs_of(data.inputs), 3)
    assert ranking.scores.isfinite().all()
    assert ranking.labels.sort().values.tolist() == [[0, 1, 2]] * 2


def test_negative_features_cancel_without_a_trace_of_the_label() -> None:
    data = sparse_data([[0.8, 0.6], [0.8, -0.6]], [[1, 0], [0, 1]])
    query = sparse_data([[0.6, 0.8]], [[1]]).inputs
    ranking = build(data, Config()).rank(inputs_of(query), 2)
    assert ranking.labels.tolist() == [[0, 1]]
    np.testing.assert_allclose(ranking.scores, [[1, 0]], atol=1e-20)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("neighbours", 0, "neighbours must be 1 or more, but is 0"),
        ("power", 0.0, r"power must be a number above 0, but is 0\.0"),
        ("power", float("nan"), "power must be a number above 0, but is nan"),
        ("power", float("inf"), "power must be a number above 0, but is inf"),
        ("label_text", -0.1, r"label_text must be 0 or more, but is -0\.1"),
        ("label_text", float("inf"), "label_text must be a number of 0 or more, but is inf"),
    ],
)
def test_an_option_outside_its_range_is_refused(option: str, value: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config(**{option: value})


def test_vectors_that_are_not_one_for_each_text_are_refused() -> None:
    corpus = planted_vectors(num_texts=10)
    state = build(prepare(corpus, Config().text, Config().vocabulary).data, Config()).state_dict()
    for wrong in (torch.ones(9, 16), torch.ones(10), torch.full((10, 16), torch.nan)):
        with pytest.raises(ModelError, match=r"'texts\.vectors' must be 10 rows of finite numbers"):
            restore(Config(), state | {"texts.vectors": wrong})
