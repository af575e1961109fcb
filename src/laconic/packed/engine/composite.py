"""Rankers made of rankers: the mean of several, and a re-ranker over another ranker's best labels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.kernels.checks import check_kind, check_real, check_whole
from laconic.kernels.jit import compiled
from laconic.kernels.selection import ascending
from laconic.packed.engine.encoders import Encoder, check_fits
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.row_kernels import probabilities
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.texts import Inputs, Ranked
from laconic.packed.engine.transforms import Transform
from laconic.types import NO_LABEL

_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True, eq=False)
class Averaged(PackedRanker):
    """The mean score of several rankers, over every label among the best `width` or k of one of them."""

    members: tuple[PackedRanker, ...]
    width: int

    def __post_init__(self) -> None:
        check_kind(self.members, "members", tuple)
        for member in self.members:
            check_kind(member, "member", PackedRanker)
        check_whole(self.width, "width of a list", 1)
        if len({member.num_labels for member in self.members}) != 1:
            raise ModelError("the packed model's members are none, or not of the same labels; pack it again")

    @property
    def num_labels(self) -> int:
        return self.members[0].num_labels

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        width = min(max(k, self.width), self.num_labels)
        every = each_once(np.concatenate([member.rank(inputs, width).labels for member in self.members], axis=1))
        return in_order(every, self.score(inputs, every), k)

    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        total = self.members[0].score(inputs, labels)
        for member in self.members[1:]:
            total = total + member.score(inputs, labels)
        return total / np.float32(len(self.members))

    def with_beam(self, beam: int) -> Averaged:
        return replace(self, members=tuple(member.with_beam(beam) for member in self.members))

    def exact(self) -> Averaged:
        return replace(self, members=tuple(member.exact() for member in self.members))


@dataclass(frozen=True, kw_only=True, eq=False)
class Reranked(PackedRanker):
    """Re-scores the best `size` labels of the base by rows; both scores are divided by the text's largest."""

    base: PackedRanker
    encoder: Encoder
    transform: Transform
    rows: Rows  # label by label
    size: int
    alpha: float  # the rows' share; the base's is the rest

    def __post_init__(self) -> None:
        check_kind(self.base, "base", PackedRanker)
        check_kind(self.rows, "re-ranker's rows", Rows)
        check_fits(self.encoder, self.transform, self.rows.dim)
        check_whole(self.size, "size of a list", 1)
        check_real(self.alpha, "share of the re-ranker", 0.0, 1.0)
        if self.rows.size != self.base.num_labels:
            raise ModelError("the packed model's re-ranker does not fit its base; pack it again")

    @property
    def num_labels(self) -> int:
        return self.rows.size

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        ranked = self.base.rank(inputs, min(max(self.size, k), self.num_labels))
        own = np.zeros_like(ranked.scores)
        own[:, : self.size] = self._shares(inputs, ranked.labels[:, : self.size])
        scores = np.float32(self.alpha) * own + np.float32(1 - self.alpha) * ranked.scores / largest_of(ranked.scores)
        return in_order(ranked.labels, scores, k)

    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        ranked = self.base.rank(inputs, min(self.size, self.num_labels))
        shares = self._shares(inputs, ranked.labels)
        own = values_of(labels, ranked.labels, shares)
        by_base = self.base.score(inputs, labels) / largest_of(ranked.scores)
        scores: np.ndarray = np.float32(self.alpha) * own + np.float32(1 - self.alpha) * by_base
        scores[labels == NO_LABEL] = 0
        return scores

    def with_beam(self, beam: int) -> Reranked:
        return replace(self, base=self.base.with_beam(beam))

    def exact(self) -> Reranked:
        return replace(self, base=self.base.exact())

    def _shares(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        vectors = self.transform.apply(self.encoder.encode(inputs))
        found = np.zeros(labels.shape, dtype=np.float32)
        probabilities(self.rows.grid, self.rows.second, vectors, np.ascontiguousarray(labels), found)
        found /= largest_of(found)
        return found


def in_order(labels: Int[np.ndarray, "texts n"], scores: Float[np.ndarray, "texts n"], k: int) -> Ranked:
    """Return the best k; ties keep their order."""
    found = Ranked.empty(len(labels), k)
    _order(np.ascontiguousarray(labels), np.ascontiguousarray(scores, dtype=np.float32), *found)
    return found


def each_once(labels: Int[np.ndarray, "texts n"]) -> Int[np.ndarray, "texts k"]:
    """Return every label of a row once, smallest first; rows end in NO_LABEL."""
    ordered = np.sort(np.where(labels == NO_LABEL, _LAST, labels), axis=1)
    repeated = np.zeros(ordered.shape, dtype=bool)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    once = np.sort(np.where(repeated, _LAST, ordered), axis=1)
    width = int((once != _LAST).any(0).sum())
    return np.where(once == _LAST, NO_LABEL, once)[:, :width]


def values_of(
    labels: Int[np.ndarray, "texts n"], listed: Int[np.ndarray, "texts k"], values: Float[np.ndarray, "texts k"]
) -> Float[np.ndarray, "texts n"]:
    """Return the value that each label has in a text's list, which names it once; 0 for those that it does not name."""
    found = np.zeros(labels.shape, dtype=np.float32)
    lists = np.ascontiguousarray(listed), np.ascontiguousarray(values, dtype=np.float32)
    _look_up(np.ascontiguousarray(labels), *lists, found)
    return found


def largest_of(scores: Float[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts 1"]:
    """Return the largest of each row, to divide by."""
    largest: np.ndarray = np.maximum(scores.max(1, keepdims=True, initial=0), np.float32(1e-12))
    return largest


@compiled
def _order(labels, scores, best, best_scores):  # type: ignore[no-untyped-def]
    behind = np.empty(labels.shape[1], dtype=np.float32)
    for text in range(len(labels)):
        for i in range(len(behind)):
            behind[i] = -scores[text, i] if labels[text, i] != NO_LABEL else np.inf
        order = ascending(behind)
        for i in range(min(len(order), best.shape[1])):
            label = labels[text, order[i]]
            best[text, i] = label
            best_scores[text, i] = scores[text, order[i]] if label != NO_LABEL else 0


@compiled
def _look_up(labels, listed, values, found):  # type: ignore[no-untyped-def]
    for text in range(len(labels)):
        order = np.argsort(listed[text])
        ordered = listed[text][order]
        for i in range(labels.shape[1]):
            place = np.searchsorted(ordered, labels[text, i])
            if labels[text, i] != NO_LABEL and place < len(ordered) and ordered[place] == labels[text, i]:
                found[text, i] = values[text, order[place]]
