"""Sparse rows of numbers and values: an inverted index, or texts as bags of words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np

from laconic.errors import ModelError
from laconic.kernels.checks import check_array, check_finite, check_starts, for_kernels
from laconic.kernels.csr import Lists
from laconic.kernels.jit import compiled
from laconic.kernels.selection import ascending
from laconic.packed.engine.layer_kernels import readable
from laconic.packed.engine.parts import Part
from laconic.packed.engine.texts import Inputs, Texts

_UNREADABLE = "the texts' token ids are negative, or their bounds do not lie in order among their words"
_ANY = np.iinfo(np.int32).max  # words that an index does not know are passed over there


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs(Part):
    """A sparse matrix by rows."""

    starts: np.ndarray  # int64 or, in a combined model, int32
    numbers: np.ndarray  # int32 or, in a combined model, uint16
    values: np.ndarray  # float32 or, in a combined model, float16

    def __post_init__(self) -> None:
        check_array(self.starts, "bounds of lists", (np.int64, np.int32), (None,))
        check_array(self.numbers, "numbers of lists", (np.int32, np.uint16), (None,))
        check_array(self.values, "values of lists", (np.float32, np.float16), self.numbers.shape)
        check_finite(self.values, "values of lists")
        check_starts(self.starts, "bounds of lists", len(self.numbers))

    @staticmethod
    def of(lists: Lists) -> Pairs:
        return Pairs(starts=lists.starts, numbers=lists.numbers, values=lists.values)

    @cached_property
    def lists(self) -> Lists:
        values = self.values.astype(np.float32) if self.values.dtype == np.float16 else self.values
        return Lists(for_kernels(self.starts), for_kernels(self.numbers), for_kernels(values))


def tokens_of(texts: Texts) -> Lists:
    """Return words in reading order, unknown ones included."""
    ids, weights, starts = contiguous(texts)
    tokens = Lists(starts, ids, weights)
    if not are_readable(tokens):
        refuse_unreadable()
    return tokens


def contiguous(texts: Texts) -> Texts:
    """Return texts as kernels read them, which check them by `are_readable`."""
    ids, weights, starts = texts
    return Texts(
        np.ascontiguousarray(ids, np.int32),
        np.ascontiguousarray(weights, np.float32),
        np.ascontiguousarray(starts, np.int64),
    )


def refuse_unreadable() -> NoReturn:
    """Report texts that a kernel could not read."""
    raise ModelError(_UNREADABLE)


@compiled
def are_readable(tokens):  # type: ignore[no-untyped-def]
    return readable(Texts(tokens.numbers, tokens.values, tokens.starts), _ANY)


def bags_of(inputs: Inputs) -> Lists:
    """Return every known word of a text once, by id; dense features have no words."""
    nothing = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
    texts = inputs if isinstance(inputs, Texts) else Texts(*nothing, np.zeros(len(inputs) + 1, dtype=np.int64))
    starts = np.zeros(texts.size + 1, dtype=np.int64)
    numbers, values = np.empty(len(texts.ids), dtype=np.int32), np.empty(len(texts.ids), dtype=np.float32)
    if not sum_words(texts, starts, numbers, values):
        refuse_unreadable()
    return Lists(starts, numbers[: starts[-1]], values[: starts[-1]])


@compiled
def sum_words(texts, starts, numbers, values):  # type: ignore[no-untyped-def]
    """Write the bags of the texts; return whether the texts can be read."""
    if not readable(texts, _ANY):
        return False
    ids, weights, bounds = texts
    count = 0
    for text in range(len(bounds) - 1):
        first, begun = bounds[text], count
        order = ascending(ids[first : bounds[text + 1]])
        for place in order:
            word, weight = ids[first + place], weights[first + place]
            if count > begun and numbers[count - 1] == word:
                values[count - 1] += weight
            else:
                if count > begun and values[count - 1] == 0:
                    count -= 1
                numbers[count], values[count] = word, weight
                count += 1
        if count > begun and values[count - 1] == 0:
            count -= 1
        starts[text + 1] = count
    return True
