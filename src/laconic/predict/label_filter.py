"""Rank among some labels only: those that names (`allow`, `block`) and attributes (`where`) leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from laconic.data.attributes import LabelAttributes, Where, having
from laconic.errors import ConfigError
from laconic.packed.engine.texts import Ranked
from laconic.types import NO_LABEL

_FEW = 1000  # labels that are scored one by one, or ranked beyond k, without a second thought
_SCORED_AT_ONCE = 1 << 13  # pairs of text and label; a combined model has kilobytes of scores for each
_RANKED_AT_ONCE = 1 << 20  # pairs of text and label

# The labels of names, NO_LABEL for a name that none has.
Find: TypeAlias = Callable[[Sequence[str]], Int[np.ndarray, "n"]]


class Rankable(NamedTuple):
    """A batch of texts that can be ranked and scored by row number."""

    rank: Callable[[Int[np.ndarray, "n"], int], Ranked]
    score: Callable[[Int[np.ndarray, "n"], Int[np.ndarray, "n m"]], Float[np.ndarray, "n m"]]


def make_finder(names: Sequence[str]) -> Find:
    """Return a function that finds the numbers of names in a list."""
    return partial(_found, {name: number for number, name in enumerate(names)})  # which can be pickled


def _found(number: Mapping[str, int], names: Sequence[str]) -> Int[np.ndarray, "n"]:
    return np.array([number.get(name, NO_LABEL) for name in names], dtype=np.int64)


class LabelFilter(NamedTuple):
    """Which labels may be predicted; None: nothing is asked of them so."""

    allow: Iterable[str] | None = None  # these alone
    block: Iterable[str] | None = None  # none of these
    where: Where | None = None  # those with these values of attributes

    @property
    def given(self) -> bool:
        return any(part is not None for part in self)

    def permitted(self, find: Find, attributes: LabelAttributes | None, num_labels: int) -> Bool[np.ndarray, "labels"]:
        """Return which labels fulfil all that is asked."""
        permitted = np.full(num_labels, self.allow is None)
        if self.allow is not None:
            permitted[_numbers_of("allow", self.allow, find)] = True
        if self.block is not None:
            permitted[_numbers_of("block", self.block, find)] = False
        if self.where is not None:
            permitted &= having(attributes, self.where)
        return permitted


def _numbers_of(argument: str, names: Iterable[str], find: Find) -> Int[np.ndarray, "n"]:
    if isinstance(names, str):
        raise ConfigError(f"{argument} must be a list of label names, but is one string: {names!r}")
    names = list(names)
    numbers = find(names)
    unknown = [names[at] for at in np.flatnonzero(numbers == NO_LABEL)]
    if unknown:
        shown = ", ".join(map(repr, unknown[:5])) + (f" and {len(unknown) - 5:,} more" if unknown[5:] else "")
        raise ConfigError(f"{argument} names labels that the model does not have: {shown}")
    return numbers


def rank_among(texts: Rankable, count: int, permitted: Bool[np.ndarray, "labels"], k: int) -> Ranked:
    """Return the best k permitted labels of the first `count` texts; k is at most the number of permitted labels."""
    if not k:
        return Ranked.empty(count, 0)
    allowed = int(np.count_nonzero(permitted))
    forbidden = len(permitted) - allowed
    every = np.arange(count)
    if allowed <= min(forbidden, _FEW):
        return _of_scores(texts, every, np.flatnonzero(permitted), k)
    return _of_rankings(texts, every, permitted, k, k + min(forbidden, _FEW))


def joined(parts: Sequence[Ranked], k: int) -> Ranked:
    """Concatenate the rankings of consecutive texts."""
    if not parts:
        return Ranked.empty(0, k)
    if len(parts) == 1:
        return parts[0]
    return Ranked(np.concatenate([part.labels for part in parts]), np.concatenate([part.scores for part in parts]))


def _of_scores(texts: Rankable, which: Int[np.ndarray, "n"], numbers: Int[np.ndarray, "m"], k: int) -> Ranked:
    """Score all permitted labels, including those that a shortlist would miss."""
    parts = []
    for part in _parts(which, _SCORED_AT_ONCE // len(numbers)):
        labels = np.tile(numbers, (len(part), 1))
        scores = texts.score(part, labels)
        best = (-scores).argsort(axis=1, kind="stable")[:, :k]
        parts.append(Ranked(numbers[best], np.take_along_axis(scores, best, axis=1)))
    return joined(parts, k)


def _of_rankings(
    texts: Rankable, which: Int[np.ndarray, "n"], permitted: Bool[np.ndarray, "labels"], k: int, width: int
) -> Ranked:
    """Rank more than k labels and drop the forbidden ones; where fewer than k are left, rank more."""
    width, parts = min(width, len(permitted)), []
    for part in _parts(which, _RANKED_AT_ONCE // width):
        best = _kept(texts.rank(part, width), permitted, k)
        short = (best.labels == NO_LABEL).any(axis=1)
        if width < len(permitted) and short.any():
            best.labels[short], best.scores[short] = _of_rankings(texts, part[short], permitted, k, 8 * width)
        parts.append(best)
    return joined(parts, k)


def _kept(ranked: Ranked, permitted: Bool[np.ndarray, "labels"], k: int) -> Ranked:
    """Keep the permitted labels of a ranking, in its order."""
    kept = permitted[ranked.labels] & (ranked.labels != NO_LABEL)
    first = (~kept).argsort(axis=1, kind="stable")[:, :k]
    labels, scores = np.where(kept, ranked.labels, NO_LABEL), np.where(kept, ranked.scores, np.float32(0))
    return Ranked(np.take_along_axis(labels, first, axis=1), np.take_along_axis(scores, first, axis=1))


def _parts(which: Int[np.ndarray, "n"], size: int) -> list[Int[np.ndarray, "m"]]:
    return [which[first : first + max(size, 1)] for first in range(0, len(which), max(size, 1))]
