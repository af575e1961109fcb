"""More nodes than two bytes can number: in banks, forests are what they are with nodes in four bytes, bit by bit."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from laconic.errors import ModelError
from laconic.models.label_trees.features import Reading
from laconic.models.label_trees.forest import (
    Forest,
    arrays_of,
    banks_of,
    entries_of,
    graft,
    is_sound,
    join_trees,
    prune,
    pruned,
)
from laconic.models.label_trees.rows import Entries, by_feature, quantise, rows_of
from laconic.models.trees_ranker import StoredForest, TreesRanker
from laconic.packed.engine.trees import Trees
from laconic.types import Tokens
from laconic.update.rankers.words import NewWords, add_words
from tests.linear.making import FEATURES, forest, frozen
from tests.linear.test_searching import ranked, scored

WIDE, DEEP = 270, 255  # nodes below the root, and below each of these
NODES = 1 + WIDE + WIDE * DEEP
LABELS = 2 * WIDE * DEEP
READING = Reading(FEATURES, FEATURES, 0)


@cache
def many_nodes() -> Forest:
    """A tree of 69,121 nodes, the last ones with two labels each."""
    chance = np.random.default_rng(3)
    starts = np.cumsum([0, WIDE, *([DEEP] * WIDE), *([2] * (WIDE * DEEP))])
    targets = np.concatenate([np.arange(1, NODES), -1 - chance.permutation(LABELS)])
    nodes = np.repeat(np.arange(NODES), np.diff(starts))
    child, feature = np.nonzero(chance.random((len(nodes), FEATURES)) < 0.4)
    values, scales = quantise(chance.normal(size=len(child)), child, len(nodes))
    entries = Entries(nodes[child], feature, child - starts[nodes[child]], values)
    biases = chance.normal(size=len(nodes)).astype(np.float32)
    rows = by_feature([rows_of(entries)], NODES)
    return frozen(Forest(np.zeros(1, np.int32), starts, targets.astype(np.int32), biases, scales, *rows))


def in_four_bytes(trees: Forest) -> Forest:
    """As earlier versions wrote them."""
    banks, starts = banks_of(trees), trees.feature_starts
    groups = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    nodes = (trees.nodes + (groups % banks << 16)).astype(np.int32)
    return frozen(trees._replace(feature_starts=starts[::banks], nodes=nodes))


def same(one: Forest, other: Forest) -> bool:
    pairs = zip(arrays_of(one), arrays_of(other), strict=True)
    return all((a.dtype, a.tobytes()) == (b.dtype, b.tobytes()) for a, b in pairs)


def test_nodes_take_two_bytes_and_mean_what_four_say() -> None:
    trees = many_nodes()
    plain = in_four_bytes(trees)
    assert (trees.nodes.dtype, banks_of(trees), banks_of(plain)) == (np.uint16, 2, 1)
    assert len(trees.feature_starts) - 1 == 2 * FEATURES == 2 * (len(plain.feature_starts) - 1)
    assert plain.nodes.max() == NODES - 1
    assert is_sound(trees)
    assert is_sound(plain)
    for mine, others in zip(entries_of(trees), entries_of(plain), strict=True):
        assert np.array_equal(mine, others)


@pytest.mark.parametrize("beam", [1, 20])
def test_labels_and_scores_are_those_of_four_bytes(beam: int) -> None:
    trees = many_nodes()
    labels, scores = ranked(trees, 7, beam, LABELS)
    expected = ranked(in_four_bytes(trees), 7, beam, LABELS)
    assert np.array_equal(labels, expected[0])
    assert np.array_equal(scores, expected[1])
    others = np.random.default_rng(beam).integers(LABELS, size=labels.shape)
    assert np.array_equal(scored(trees, others), scored(in_four_bytes(trees), others))
    assert np.array_equal(scored(trees, labels), scores)


def test_forests_are_edited_as_those_of_four_bytes() -> None:
    trees, kept = many_nodes(), np.arange(0, LABELS, 3)
    plain = in_four_bytes(trees)
    biases = np.full(5, -1, dtype=np.float32)
    new = csr_array(np.random.default_rng(0).random((5, FEATURES + 2)).astype(np.float32))
    assert same(prune(trees, kept, LABELS), prune(plain, kept, LABELS))
    assert same(pruned(trees, 0.5), pruned(plain, 0.5))
    assert same(graft(trees, new, biases, LABELS), graft(plain, new, biases, LABELS))
    for edited in (prune(trees, kept, LABELS), pruned(trees, 0.5), graft(trees, new, biases, LABELS)):
        assert banks_of(edited) == 2
        assert is_sound(edited)


def test_trees_are_joined_whatever_their_nodes_take() -> None:
    trees = many_nodes()
    joined = join_trees([trees, in_four_bytes(trees)])
    assert banks_of(joined) == 3
    assert is_sound(joined)
    assert same(joined, join_trees([trees, trees]))
    rows, twice = entries_of(trees), entries_of(joined)
    order = np.lexsort((twice.places, twice.features, twice.nodes))
    first = np.lexsort((rows.places, rows.features, rows.nodes))
    assert np.array_equal(twice.nodes[order], np.concatenate([rows.nodes[first], rows.nodes[first] + NODES]))
    assert np.array_equal(twice.values[order], np.tile(rows.values[first], 2))


def test_few_nodes_are_one_bank() -> None:
    small = forest(2)
    assert (small.nodes.dtype, banks_of(small)) == (np.uint16, 1)


def test_few_rows_of_many_features_keep_their_nodes_in_four_bytes() -> None:
    entries = Entries(np.array([0, 70_000]), np.array([3, 900]), np.zeros(2, np.int64), np.ones(2, np.int8))
    starts, nodes, *_ = by_feature([rows_of(entries)], NODES)
    assert (nodes.dtype, nodes.tolist(), len(starts)) == (np.int32, [0, 70_000], 902)


def test_models_with_nodes_in_four_bytes_open_and_answer_as_others() -> None:
    trees = many_nodes()
    inputs = torch.from_numpy(np.random.default_rng(1).random((4, FEATURES), dtype=np.float32))
    new = TreesRanker(StoredForest.of(trees), READING, beam=3)
    tensors = {f"trees.{name}": part for name, part in StoredForest.of(in_four_bytes(trees)).named_buffers()}
    assert tensors["trees.nodes"].dtype == torch.int32
    old = TreesRanker(StoredForest.of_tensors(tensors, "trees"), READING, beam=3)
    expected = new.rank(inputs, 5)
    for found in (old.rank(inputs, 5), Trees.of(trees, READING, 3).rank(inputs.numpy(), 5)):
        assert np.array_equal(np.asarray(found.labels), expected.labels.numpy())
        assert np.array_equal(np.asarray(found.scores), expected.scores.numpy())
    packed = Trees.of(in_four_bytes(trees), READING, 3).rank(inputs.numpy(), 5)
    assert np.array_equal(packed.labels, expected.labels.numpy())
    assert np.array_equal(packed.scores, expected.scores.numpy())


def test_new_words_leave_answers_as_they_are() -> None:
    bags = Tokens(torch.tensor([[2, 3, 5]]), torch.tensor([[0.5, 0.4, 0.3]]))
    ranker = TreesRanker(StoredForest.of(many_nodes()), READING, beam=3)
    before = ranker.rank(bags, 5)
    add_words(ranker, NewWords(at=4, count=3, beside=csr_array((3, FEATURES))))
    assert len(ranker.forest.feature_starts) - 1 == 2 * (FEATURES + 3)
    assert is_sound(ranker.forest)
    moved = Tokens(torch.tensor([[2, 3, 8]]), bags.weights)
    after = ranker.rank(moved, 5)
    assert torch.equal(after.labels, before.labels)
    assert torch.equal(after.scores, before.scores)


@pytest.mark.parametrize("what", ["a bank too few", "a node after the last", "nodes out of order"])
def test_damaged_banks_are_refused(what: str) -> None:
    trees = many_nodes()
    starts, nodes = trees.feature_starts, trees.nodes.copy()
    if what == "a bank too few":
        starts = np.append(starts[:-2], starts[-1])
    else:
        nodes[-1 if what == "a node after the last" else starts[2]] = 65_535
    damaged = frozen(trees._replace(feature_starts=starts, nodes=nodes))
    assert not is_sound(damaged)
    with pytest.raises(ModelError, match="pack it again"):
        Trees.of(damaged, READING, 3)
