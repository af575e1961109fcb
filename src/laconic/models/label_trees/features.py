"""Features of texts for label trees: bags of words and of hashed pairs of neighbouring words, of length 1."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from laconic.kernels.csr import Lists, make_unit
from laconic.kernels.jit import compiled
from laconic.system.sparse import csr_array
from laconic.types import FIRST_WORD

MOST_FEATURES = 1 << 31  # numbers of features are counted in 32 bits


class Reading(NamedTuple):
    """The numbering of features: token ids first, then buckets of word pairs."""

    words: int  # token ids below it are words; what comes after them in a row has no order
    ids: int  # token ids of any kind; numbers of pairs follow them
    pairs: int  # buckets that pairs of words are hashed into; 0: there are none

    @property
    def size(self) -> int:
        return self.ids + self.pairs

    def is_sound(self) -> bool:
        return 0 <= self.words <= self.ids and self.pairs >= 0 and self.size <= MOST_FEATURES


def normalise_rows(rows: Lists) -> Lists:
    """Return the rows divided by their length; rows of zeros stay zero."""
    own = rows._replace(values=rows.values.copy())
    make_unit(own)
    return own


def features_of(tokens: Lists, reading: Reading) -> Lists:
    """Return each text's words and pairs of neighbours, once each; a pair weighs the geometric mean of its words."""
    size = len(tokens.numbers) * (2 if reading.pairs else 1)
    found = Lists(np.zeros_like(tokens.starts), np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32))
    count = fill_features(tokens, reading, found)
    return Lists(found.starts, found.numbers[:count], found.values[:count])


@compiled
def fill_features(tokens, reading, found):  # type: ignore[no-untyped-def]
    """Write the features of all texts; return their number."""
    count, slots = 0, _slots(tokens)
    for text in range(len(tokens.starts) - 1):
        begun, first, last = count, tokens.starts[text], tokens.starts[text + 1]
        for i in range(first, last):
            if tokens.values[i] != 0:
                count = _put(found, slots, begun, count, tokens.numbers[i], tokens.values[i])
        if reading.pairs:
            for i in range(first + 1, last):
                weight = tokens.values[i - 1] * tokens.values[i]
                if weight > 0 and _is_word(tokens.numbers[i - 1], reading) and _is_word(tokens.numbers[i], reading):
                    number = reading.ids + _bucket(tokens.numbers[i - 1], tokens.numbers[i], reading.pairs)
                    count = _put(found, slots, begun, count, number, np.sqrt(weight))
        found.starts[text + 1] = count
    make_unit(Lists(found.starts, found.numbers[:count], found.values[:count]))
    return count


@compiled
def _slots(tokens):  # type: ignore[no-untyped-def]
    """Return an empty hash table of positions, a power of two that the features of the longest text fill half at most.

    What an earlier text left in a slot is a position before the text's first, so no slot needs to be emptied.
    """
    longest = 0
    for text in range(len(tokens.starts) - 1):
        longest = max(longest, tokens.starts[text + 1] - tokens.starts[text])
    size = 1
    while size < 4 * longest:  # a text has at most as many pairs as words
        size *= 2
    return np.full(size, -1, dtype=np.int64)


@compiled
def _put(found, slots, begun, count, number, weight):  # type: ignore[no-untyped-def]
    """Add to a feature's weight and return the number of features so far."""
    mixed = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    slot = np.int64((mixed >> np.uint64(32)) & np.uint64(len(slots) - 1))
    while slots[slot] >= begun:
        if found.numbers[slots[slot]] == number:
            found.values[slots[slot]] += weight
            return count
        slot = (slot + 1) & (len(slots) - 1)
    slots[slot] = count
    found.numbers[count], found.values[count] = number, weight
    return count + 1


@compiled
def _is_word(number, reading):  # type: ignore[no-untyped-def]
    return FIRST_WORD <= number < reading.words


@compiled
def _bucket(left, right, buckets):  # type: ignore[no-untyped-def]
    """Hash an ordered pair of words. Stored models depend on it: it must never change."""
    mixed = np.uint64(left) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(right)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed % np.uint64(buckets))


def feature_rows(inputs: csr_array | Float[np.ndarray, "texts dim"], reading: Reading) -> Lists:
    sparse = isinstance(inputs, csr_array)
    return features_of(Lists.of(inputs), reading) if sparse else normalise_rows(Lists.dense(inputs))
