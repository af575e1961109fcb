"""trees: what is learnt, what is not, and what a model's file may not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor

from laconic.config import Settings
from laconic.data.dataset import Dataset
from laconic.data.prepare import input_rows, prepare
from laconic.data.tokenizer import Tokenizer, inputs_of
from laconic.errors import ConfigError, ModelError
from laconic.methods.registry import config_of
from laconic.methods.restore import with_settings
from laconic.methods.train import train_model
from laconic.methods.trees import Config, build, restore
from laconic.models.label_trees.forest import entries_of, starts_of
from laconic.models.trees_ranker import TreesRanker
from laconic.training.run import Run
from laconic.types import FIRST_WORD, Inputs
from tests.planted import planted_texts, planted_vectors, share_of_right_first_labels

SMALL = Config(fan_out=4, leaf=2)


def trained(config: Config = SMALL, num_labels: int = 12) -> tuple[TreesRanker, Inputs, csr_array]:
    """A ranker, and texts to ask it with their labels."""
    corpus = planted_texts(num_labels=num_labels)
    data, tokenizer = prepare(corpus, config.text, config.vocabulary)
    test = corpus.split("test")
    return build(data, config), inputs_of(input_rows(test, tokenizer)), test.labels


@pytest.mark.parametrize(
    "config", [Config(), SMALL, replace(SMALL, trees=1, beam=1), replace(SMALL, fan_out=2), replace(SMALL, cost=10.0)]
)
def test_planted_labels_are_found(config: Config) -> None:
    ranker, inputs, truth = trained(config)
    assert share_of_right_first_labels(ranker.rank(inputs, 5).labels.numpy(), truth) > 0.95


def test_planted_vectors_are_learnt_too() -> None:
    corpus = planted_vectors()
    ranker = build(prepare(corpus, SMALL.text, SMALL.vocabulary).data, SMALL)
    test = corpus.split("test")
    ranking = ranker.rank(inputs_of(input_rows(test, None)), 5)
    assert share_of_right_first_labels(ranking.labels.numpy(), test.labels) > 0.9


def test_scores_are_the_same_to_the_bit_whoever_asks_for_them() -> None:
    ranker, inputs, _ = trained(replace(SMALL, beam=1))
    labels, scores = ranker.rank(inputs, 7)
    assert torch.equal(ranker.score(inputs, labels), scores)


def test_the_same_seed_gives_the_same_bits_and_another_another_tree() -> None:
    one, same, other = (trained(replace(SMALL, seed=seed))[0].state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(tensor, same[name]) for name, tensor in one.items())
    assert not torch.equal(one["trees.targets"], other["trees.targets"])


def test_a_higher_threshold_leaves_fewer_weights_and_none_below_it() -> None:
    few, many = (trained(replace(SMALL, threshold=threshold))[0].forest.weights.values for threshold in (0.5, 0.1))
    assert 0 < len(few) < len(many)
    assert np.abs(few).min() >= 0.5
    assert np.abs(many).min() >= 0.1


def data_of(rows: list[list[float]], labels: list[list[float]], **parts: csr_array | np.ndarray | None) -> Dataset:
    """Data by hand: the rows' columns are words."""
    tokens = np.hstack([np.zeros((len(rows), FIRST_WORD)), rows]).astype(np.float32)
    return Dataset(inputs=csr_array(tokens), labels=csr_array(np.array(labels, dtype=np.float32)), **parts)


def scores_of(ranker: TreesRanker, data: Dataset) -> np.ndarray:
    labels = torch.arange(ranker.num_labels).expand(len(data), -1).contiguous()
    return ranker.score(inputs_of(data.inputs), labels).numpy()


ONE = Config(trees=1)


def test_a_score_by_hand() -> None:
    # One label, one text [1]: a = 1 / (1.5 + 1/16), w = a, bias = a / 16, and the score is exp(-(1 - w - bias)²).
    data = data_of([[1]], [[1]])
    expected = np.exp(-((1 - 1.0625 / 1.5625) ** 2))
    np.testing.assert_allclose(scores_of(build(data, ONE), data), [[expected]], rtol=1e-3)


def test_texts_of_weight_zero_teach_nothing() -> None:
    weights = np.array([1, 1, 0], dtype=np.float32)
    data = data_of([[1, 0], [0, 1], [1, 0]], [[1, 0], [0, 1], [0, 1]], weights=weights)
    alone = data.rows(np.arange(2))
    assert np.array_equal(scores_of(build(data, ONE), data), scores_of(build(replace(alone, weights=None), ONE), data))


def test_a_text_that_counts_more_pulls_more() -> None:
    rows, labels = [[1, 0], [1, 0], [0, 1]], [[1, 0], [0, 1], [0, 1]]
    light, heavy = (
        scores_of(
            build(data_of(rows, labels, weights=np.array([weight, 1, 1], dtype=np.float32)), ONE), data_of(rows, labels)
        )
        for weight in (1, 5)
    )
    assert heavy[0, 0] > light[0, 0]


def test_a_label_that_is_half_true_pulls_less() -> None:
    rows = [[1, 0], [0, 1]]
    whole, half = (
        scores_of(build(data_of(rows, [[truth, 0], [0, 1]]), ONE), data_of(rows, rows)) for truth in (1, 0.3)
    )
    assert half[0, 0] < whole[0, 0]


def test_a_left_out_pair_is_no_evidence_against_a_label() -> None:
    rows, labels = [[1, 0.1], [0, 1], [1, 0]], [[0, 1], [0, 1], [1, 0]]
    left_out = csr_array(np.array([[1, 0], [0, 0], [0, 0]], dtype=np.bool_))
    with_pair, without = (
        scores_of(build(data_of(rows, labels, leave_out=pairs), ONE), data_of(rows, labels))
        for pairs in (left_out, None)
    )
    assert with_pair[2, 0] > without[2, 0]


def test_data_without_any_label_still_gives_a_ranker() -> None:
    data = data_of([[1, 0], [0, 1]], [[0, 0, 0], [0, 0, 0]])
    labels, scores = build(data, Config(leaf=2)).rank(inputs_of(data.inputs), 3)
    assert labels.tolist() == [[0, 1, 2]] * 2
    assert scores.isfinite().all()


def test_the_beam_can_be_overruled_and_nothing_that_was_learnt() -> None:
    model = train_model(planted_texts(), "trees", config_of("trees", {"leaf": 2}), Run.unkept())
    assert with_settings(model, {"beam": 3}).facts["config"]["beam"] == 3
    with pytest.raises(ConfigError, match="leaf cannot be changed without training"):
        with_settings(model, {"leaf": 3})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trees": 0}, "trees must be 1 to 64, but is 0"),
        ({"fan_out": 1}, "fan_out must be 2 to 32,768, but is 1"),
        ({"leaf": 1}, "leaf must be 2 to 32,768, but is 1"),
        ({"cost": 0.0}, r"cost must be 1e-06 to 1,000,000\.0, but is 0\.0"),
        ({"threshold": -0.1}, r"threshold must be 0 to 1,000, but is -0\.1"),
        ({"beam": 0}, "beam must be 1 to 1,048,576, but is 0"),
        ({"cost": float("nan")}, "cost must be .*, but is nan"),
    ],
)
def test_a_setting_outside_its_range_is_refused(settings: Settings, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("targets", 999),
        ("roots", 999),
        ("weight_steps", 255),
        ("nodes", 999),
        ("child_starts", 999),
        ("weight_blocks", 9),
    ],
)
def test_a_damaged_forest_is_refused(name: str, value: int) -> None:
    state = trained()[0].state_dict()
    tensor = state[f"trees.{name}"].clone()
    tensor[-1] = value
    with pytest.raises(ModelError, match=r"tensors trees\.\* are no trees; the file is damaged"):
        restore(SMALL, state | {f"trees.{name}": tensor})


def of_version_0_2(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of trees as version 0.2 stored them: positions of children, and weights in float32."""
    ranker = restore(SMALL, state)
    forest, entries = ranker.forest, entries_of(ranker.forest)
    scales = forest.scales[forest.child_starts[entries.nodes] + entries.places]
    own = {
        "feature_starts": forest.feature_starts.astype(np.int64),
        "nodes": forest.nodes.astype(np.int32),
        "weight_starts": starts_of(forest),
        "weight_children": entries.places.astype(np.int32),
        "weights": entries.values.astype(np.float32) * scales,
    }
    gone = ("trees.scales", "trees.weight_steps", "trees.weight_blocks")
    left = {name: tensor for name, tensor in state.items() if name not in gone}
    return left | {f"trees.{name}": torch.from_numpy(array) for name, array in own.items()}


def test_trees_of_version_0_2_are_read() -> None:
    ranker, inputs, _ = trained()
    old = restore(SMALL, of_version_0_2(ranker.state_dict()))
    found, expected = (one.rank(inputs, 3) for one in (old, ranker))
    assert torch.equal(found.labels, expected.labels)
    torch.testing.assert_close(found.scores, expected.scores)


def test_trees_whose_rows_are_not_in_blocks_are_read() -> None:
    ranker, inputs, _ = trained()
    state, forest = ranker.state_dict(), ranker.forest
    plain = {"nodes": forest.nodes.astype(np.int32), "weight_starts": starts_of(forest).astype(np.int32)}
    left = {name: tensor for name, tensor in state.items() if name != "trees.weight_blocks"}
    old = restore(SMALL, left | {f"trees.{name}": torch.from_numpy(array) for name, array in plain.items()})
    found, expected = (one.rank(inputs, 3) for one in (old, ranker))
    assert torch.equal(found.labels, expected.labels)
    assert torch.equal(found.scores, expected.scores)


@pytest.mark.parametrize(
    ("name", "value"), [("weight_children", 999), ("nodes", 999), ("weight_starts", 999), ("weights", float("nan"))]
)
def test_damaged_trees_of_version_0_2_are_refused(name: str, value: float) -> None:
    state = of_version_0_2(trained()[0].state_dict())
    tensor = state[f"trees.{name}"].clone()
    tensor[-1] = value
    with pytest.raises(ModelError, match="the file is damaged"):
        restore(SMALL, state | {f"trees.{name}": tensor})


ORDERED = ("dog bites man", "man bites dog", "cat sees bird", "bird sees cat")


def by_order(config: Config, tokens: csr_array, *, ordered: bool = True) -> float:
    """The share of texts told apart that only differ in the order of their words."""
    labels = csr_array(np.tile(np.eye(4, dtype=np.float32), (5, 1)))
    ranker = build(Dataset(inputs=tokens, labels=labels, ordered=ordered), config)
    return share_of_right_first_labels(ranker.rank(inputs_of(tokens), 1).labels.numpy(), labels)


def test_pairs_of_words_tell_an_order_from_another() -> None:
    tokens = Tokenizer.of(ORDERED * 5, ONE.text, ONE.vocabulary).rows(ORDERED * 5)
    assert by_order(ONE, tokens) == 1
    assert by_order(replace(ONE, pairs=0), tokens) <= 0.5


def test_bags_have_no_order_and_so_no_pairs() -> None:
    tokens = Tokenizer.of(ORDERED * 5, ONE.text, ONE.vocabulary).rows(ORDERED * 5)
    assert by_order(ONE, tokens, ordered=False) <= 0.5


def test_sub_words_are_in_no_pair() -> None:
    config = replace(ONE, vocabulary=replace(ONE.vocabulary, subwords=64))
    tokenizer = Tokenizer.of(ORDERED, config.text, config.vocabulary)
    labels = csr_array(np.eye(4, dtype=np.float32))
    ranker = build(Dataset(inputs=tokenizer.rows(ORDERED), labels=labels, ordered=True), config)
    num_ids = tokenizer.vocabulary.num_ids
    assert ranker.features[:2] == (num_ids - 64, num_ids)
    assert 0 < ranker.features.pairs < config.pairs


def test_features_without_order_count_no_sub_words() -> None:
    config = replace(ONE, vocabulary=replace(ONE.vocabulary, subwords=4096))
    data = data_of([[1, 0], [0, 1]], [[1, 0], [0, 1]])
    assert build(data, config).features == (4, 4, 0)


def test_empty_texts_and_left_out_pairs_without_any_label_are_no_trouble() -> None:
    tokens = Tokenizer.of(ORDERED, ONE.text, ONE.vocabulary).rows(["", *ORDERED])
    labels = csr_array(np.eye(5, 4, -1, dtype=np.float32))
    assert build(Dataset(inputs=tokens, labels=labels, ordered=True), ONE).features.pairs
    nothing = csr_array((5, 4), dtype=np.float32)
    ranker = build(Dataset(inputs=tokens, labels=nothing, leave_out=labels, ordered=True), ONE)
    assert ranker.rank(inputs_of(tokens), 4).labels.shape == (5, 4)


@pytest.mark.parametrize(
    ("name", "value"), [("words", 999), ("words", -1), ("pairs", -1), ("ids", 1 << 31), ("ids", [9])]
)
def test_counts_that_cannot_be_are_refused(name: str, value: object) -> None:
    state = trained()[0].state_dict()
    with pytest.raises(ModelError, match=name):
        restore(SMALL, {**state, name: torch.tensor(value)})
