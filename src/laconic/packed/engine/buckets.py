"""MACH as a packed ranker: the mean, over members, of the probability of a label's bucket.

Every label is added up from coarse rows of buckets; the best are added up again in 16 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.kernels.checks import check_array, check_kind, check_numbers, check_starts, check_whole, for_kernels
from laconic.kernels.jit import compiled
from laconic.kernels.selection import ascending, choose
from laconic.packed.engine.encoders import Encoder, check_fits
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.row_kernels import Grid, fine_dot, quantise, score_run
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.texts import Inputs, Ranked, size_of
from laconic.packed.engine.transforms import Transform
from laconic.types import NO_LABEL


class Shelves(NamedTuple):
    """Buckets as kernels read them."""

    rows: Grid
    fine: Int[np.ndarray, "buckets dim"]
    starts: Int[np.ndarray, "members+1"]
    buckets: Int[np.ndarray, "labels members"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Buckets(PackedRanker):
    """The packed form of MACH; ties are broken by the smaller label."""

    encoders: tuple[Encoder, ...]  # one of each member
    transforms: tuple[Transform, ...]
    rows: Rows  # the buckets of one member after another
    starts: np.ndarray  # int32: where a member's buckets begin
    buckets: np.ndarray  # int32, labels × members: which rows a label adds up
    rescored: int = 64

    def __post_init__(self) -> None:
        check_kind(self.rows, "buckets", Rows)
        for name in ("encoders", "transforms"):
            check_kind(getattr(self, name), f"members' {name}", tuple)
        if not self.encoders or len(self.encoders) != len(self.transforms):
            raise ModelError("the packed model's members do not have an encoder and a transform each; pack it again")
        for encoder, transform in zip(self.encoders, self.transforms, strict=True):
            check_fits(encoder, transform, self.rows.dim)
        check_array(self.starts, "bounds of members", np.int32, (len(self.encoders) + 1,))
        check_starts(self.starts, "bounds of members", self.rows.size)
        check_array(self.buckets, "buckets of labels", np.int32, (None, len(self.encoders)))
        check_numbers(self.buckets, "buckets of labels", 0, self.rows.size)
        check_whole(len(self.buckets), "number of labels", 1)
        check_whole(self.rescored, "number of labels scored again", 1)

    @property
    def num_labels(self) -> int:
        return len(self.buckets)

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        labels, scores = found = Ranked.empty(size_of(inputs), k)
        add_up(self._shelves, max(self.rescored, 2 * k), self._vectors(inputs), (labels, scores))
        return found

    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        check_numbers(labels, "labels to be scored", NO_LABEL, self.num_labels)
        scores = np.zeros(labels.shape, dtype=np.float32)
        score_labels(self._shelves, self._vectors(inputs), labels, scores)
        return scores

    def with_beam(self, beam: int) -> Buckets:
        return self  # every label is added up

    def exact(self) -> Buckets:
        return replace(self, rescored=max(self.rescored, 256))

    def _vectors(self, inputs: Inputs) -> Float[np.ndarray, "texts members dim"]:
        parts = zip(self.encoders, self.transforms, strict=True)
        return np.stack([transform.apply(encoder.encode(inputs)) for encoder, transform in parts], axis=1)

    @cached_property
    def _shelves(self) -> Shelves:
        return Shelves(self.rows.grid, self.rows.second, for_kernels(self.starts), for_kernels(self.buckets))


@compiled
def add_up(shelves, rescored, vectors, into):  # type: ignore[no-untyped-def]
    """Write the best labels of each text, best first."""
    labels, scores = into
    count, members = shelves.buckets.shape
    likely, totals = np.empty(shelves.starts[-1], np.float32), np.empty(count, np.float32)
    scratch, chosen = np.empty(count, np.float32), np.empty(count, np.int32)
    numbers = np.empty(vectors.shape[2], np.int16)
    for text in range(len(labels)):
        for member in range(members):
            first, last = shelves.starts[member], shelves.starts[member + 1]
            scale = quantise(vectors[text, member], numbers)
            score_run(shelves.rows, first, last, numbers, scale, likely, first)
        for bucket in range(len(likely)):
            likely[bucket] = np.float32(1) / (np.float32(1) + np.exp(-likely[bucket]))
        for label in range(count):
            total = np.float32(0)
            for member in range(members):
                total += likely[shelves.buckets[label, member]]
            totals[label] = total
        kept = choose(totals, count, rescored, scratch, chosen)
        for i in range(kept):
            scratch[i] = -_mean(shelves, vectors[text], chosen[i])
        best = ascending(scratch[:kept])
        for i in range(min(kept, labels.shape[1])):
            labels[text, i], scores[text, i] = chosen[best[i]], -scratch[best[i]]


@compiled
def score_labels(shelves, vectors, labels, scores):  # type: ignore[no-untyped-def]
    for text in range(len(labels)):
        for i in range(labels.shape[1]):
            if labels[text, i] != NO_LABEL:
                scores[text, i] = _mean(shelves, vectors[text], labels[text, i])


@compiled
def _mean(shelves, vectors, label):  # type: ignore[no-untyped-def]
    """Return the mean probability of a label's buckets, by both bytes of rows."""
    total, members = np.float32(0), len(vectors)
    for member in range(members):
        bucket = shelves.buckets[label, member]
        score = fine_dot(shelves.rows, shelves.fine, bucket, vectors[member]) + shelves.rows.biases[bucket]
        total += np.float32(1) / (np.float32(1) + np.exp(-score))
    return total / np.float32(members)
