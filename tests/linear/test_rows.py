"""Words and pairs of words as features, against a plain twin."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.kernels.csr import Lists
from laconic.models.label_trees.features import Reading, _bucket, features_of
from laconic.types import FIRST_WORD, UNKNOWN

WORDS, IDS, PAIRS = 12, 16, 1 << 20
TOKENS = st.lists(st.lists(st.tuples(st.integers(0, IDS - 1), st.sampled_from([0.0, 0.25, 0.5, 1.0])), max_size=9))


def lists_of(texts: list[list[tuple[int, float]]]) -> Lists:
    numbers = np.array([word for text in texts for word, _ in text], dtype=np.int32)
    values = np.array([weight for text in texts for _, weight in text], dtype=np.float32)
    return Lists(np.cumsum([0, *map(len, texts)]), numbers, values)


def number_of(left: int, right: int, reading: Reading) -> int:
    """The feature of two words side by side."""
    found = features_of(lists_of([[(left, 1.0), (right, 1.0)]]), reading)
    (number,) = set(found.numbers.tolist()) - {left, right}
    return int(number)


def rows_of(lists: Lists) -> list[dict[int, float]]:
    bounds = zip(lists.starts[:-1], lists.starts[1:], strict=True)
    return [dict(zip(lists.numbers[a:b].tolist(), lists.values[a:b].tolist(), strict=True)) for a, b in bounds]


@given(TOKENS, st.sampled_from([0, PAIRS]))
def test_features_are_those_of_a_plain_twin(texts: list[list[tuple[int, float]]], pairs: int) -> None:
    reading = Reading(WORDS, IDS, pairs)
    found = rows_of(features_of(lists_of(texts), reading))
    assert len(found) == len(texts)
    for text, row in zip(texts, found, strict=True):
        expected: dict[int, float] = defaultdict(float)
        for word, weight in text:
            if weight:
                expected[word] += weight
        for (left, one), (right, other) in pairwise(text) if pairs else ():
            if all(FIRST_WORD <= word < WORDS for word in (left, right)) and one * other > 0:
                expected[number_of(left, right, reading)] += math.sqrt(one * other)
        length = math.sqrt(sum(value**2 for value in expected.values())) or 1
        assert row == pytest.approx({number: value / length for number, value in expected.items()}, rel=1e-5)


def test_a_pair_is_another_one_the_other_way_round_and_lies_after_all_tokens() -> None:
    reading = Reading(WORDS, IDS, PAIRS)
    numbers = {
        number_of(left, right, reading) for left in range(2, WORDS) for right in range(2, WORDS) if left != right
    }
    assert len(numbers) == (WORDS - 2) * (WORDS - 3)
    assert all(IDS <= number < IDS + PAIRS for number in numbers)


def test_unknown_words_part_their_neighbours() -> None:
    text = [(3, 0.5), (UNKNOWN, 0.0), (4, 0.5)]
    assert set(rows_of(features_of(lists_of([text]), Reading(WORDS, IDS, PAIRS)))[0]) == {3, 4}


def test_a_pair_keeps_its_bucket_for_ever() -> None:
    """Models are kept: another bucket would be another word to them."""
    reading = Reading(1000, 1000, PAIRS)
    assert [number_of(*words, reading) for words in [(2, 3), (3, 2), (999, 2)]] == [289729, 911637, 744316]


@pytest.mark.parametrize("numbers", [(-1, 5, 0), (6, 5, 0), (5, 5, -1), (5, 1 << 31, 1)])
def test_numbers_that_cannot_be_are_not_sound(numbers: tuple[int, int, int]) -> None:
    assert not Reading(*numbers).is_sound()
    assert Reading(5, 5, 10).is_sound()


def test_features_of_long_texts_are_counted_in_the_order_in_which_they_come() -> None:
    chance = np.random.default_rng(0)
    reading = Reading(3000, 3100, 64)
    weights = [0.0, 0.25, 1.0]  # whose sums and square roots are exact
    texts = [
        list(zip(chance.integers(2, 3100, size).tolist(), chance.choice(weights, size).tolist(), strict=True))
        for size in (3, 20_000, 0, 40, 5000)
    ]
    for text, row in zip(texts, rows_of(features_of(lists_of(texts), reading)), strict=True):
        expected: dict[int, float] = defaultdict(float)
        for word, weight in text:
            if weight:
                expected[word] += weight
        for (left, one), (right, other) in pairwise(text):
            if one * other > 0 and max(left, right) < reading.words:
                expected[reading.ids + int(_bucket(left, right, reading.pairs))] += math.sqrt(one * other)
        length = math.sqrt(sum(value**2 for value in expected.values())) or 1
        assert list(row) == list(expected)
        assert list(row.values()) == pytest.approx([value / length for value in expected.values()], rel=1e-5)
