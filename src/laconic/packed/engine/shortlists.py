"""Packed shortlisters: the labels to score for each text, with their similarities.

Here are those of learnt clusters, and labels whose own texts share words with a text; the others are in near_labels.py
and space_labels.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.kernels.checks import (
    check_array,
    check_kind,
    check_numbers,
    check_order,
    check_starts,
    check_whole,
    for_kernels,
)
from laconic.kernels.csr import add_products, clear, take_best
from laconic.kernels.jit import compiled
from laconic.kernels.selection import ascending, choose
from laconic.packed.engine.pairs import Pairs, bags_of
from laconic.packed.engine.parts import Part, PerThread, scratch_for
from laconic.packed.engine.row_kernels import Grid, fine_dot, quantise, score_run
from laconic.packed.engine.rows import Rows, Sizes
from laconic.packed.engine.texts import Inputs, Ranked
from laconic.packed.engine.transforms import Transform
from laconic.types import NO_LABEL

_SPARE = 16  # clusters that are scored again though they are not needed: coarse scores may err about the last
_MOST_PLACES = 1 << 16  # for labels with words, where labels are fewer
_WORDS = np.float32(1e-3)  # weight of a cosine of words: after all that another shortlister names itself


class Leaves(NamedTuple):
    """Clusters as the kernel reads them."""

    rows: Grid
    fine: Int[np.ndarray, "clusters dim"]
    starts: Int[np.ndarray, "clusters+1"]
    order: Int[np.ndarray, "labels"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Shortlist(Part, ABC):
    """A shortlister of the packed engine."""

    num_labels: int

    @property
    @abstractmethod
    def dim(self) -> int:
        """Return the width of the vectors it reads."""

    @property
    @abstractmethod
    def cells(self) -> int:
        """Return the number of cells, of which `with_beam` probes some."""

    @abstractmethod
    def listed(self, inputs: Inputs, vectors: Float[np.ndarray, "texts dim"], size: int) -> Ranked:
        """Return the best labels of each text, given as tokens and as a vector; rows end in NO_LABEL."""

    @property
    def longest(self) -> int:
        """Return the size from which on lists gain no more labels; one place stays without a label."""
        return self.num_labels + 1

    @abstractmethod
    def with_beam(self, beam: int) -> Shortlist:
        """Return the shortlister with this many clusters or cells probed, if it has some."""

    @abstractmethod
    def exact(self) -> Shortlist:
        """Return the shortlister with exact search."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterLabels(Shortlist):
    """The labels of the best clusters, with the similarity of their cluster."""

    transform: Transform
    clusters: Rows
    order: np.ndarray  # int32: the label of each place
    starts: np.ndarray  # int32: where clusters begin

    def __post_init__(self) -> None:
        check_whole(self.num_labels, "number of labels", 1)
        check_kind(self.transform, "transform of vectors for clusters", Transform)
        check_kind(self.clusters, "clusters", Rows)
        if self.clusters.dim != self.transform.width:
            raise ModelError("the packed model's clusters do not fit their transform; pack it again")
        check_array(self.order, "order of labels", np.int32, (self.num_labels,))
        check_order(self.order, "order of labels")
        check_array(self.starts, "bounds of clusters", np.int32, (self.clusters.size + 1,))
        check_starts(self.starts, "bounds of clusters", self.num_labels)

    @property
    def dim(self) -> int:
        return self.transform.inputs

    @property
    def cells(self) -> int:
        return 1  # as many clusters are probed as a list takes

    def listed(self, inputs: Inputs, vectors: Float[np.ndarray, "texts dim"], size: int) -> Ranked:
        labels, nearness = found = Ranked.empty(len(vectors), size)
        enough = int(self._sizes.of_smallest.searchsorted(size)) + 1  # whichever they are
        list_clusters(self._leaves, enough + _SPARE, self.transform.apply(vectors), (labels, nearness))
        return found

    def with_beam(self, beam: int) -> ClusterLabels:
        return self

    def exact(self) -> ClusterLabels:
        return self

    @cached_property
    def _sizes(self) -> Sizes:
        return Sizes.of(self.starts)

    @cached_property
    def _leaves(self) -> Leaves:
        return Leaves(self.clusters.grid, self.clusters.second, for_kernels(self.starts), for_kernels(self.order))


@dataclass(frozen=True, kw_only=True, eq=False)
class WordLabels(Shortlist):
    """Fills some positions of another shortlist with the labels whose own texts are nearest by words."""

    others: Shortlist
    count: int
    label_texts: Pairs  # for each word the labels that have it

    def __post_init__(self) -> None:
        check_whole(self.num_labels, "number of labels", 1)
        check_kind(self.others, "shortlist", Shortlist)
        check_kind(self.label_texts, "words of labels", Pairs)
        check_numbers(self.label_texts.numbers, "labels of words", 0, self.num_labels)
        check_whole(self.count, "places for labels with words", 0)
        if self.count > max(_MOST_PLACES, self.num_labels):
            raise ModelError(f"the packed model has {self.count:,} places for labels with words; pack it again")
        if self.others.num_labels != self.num_labels:
            raise ModelError("the packed model's shortlists are not of the same labels; pack it again")

    @property
    def dim(self) -> int:
        return self.others.dim

    @property
    def cells(self) -> int:
        return self.others.cells

    @property
    def longest(self) -> int:
        return self.others.longest + self.count

    def listed(self, inputs: Inputs, vectors: Float[np.ndarray, "texts dim"], size: int) -> Ranked:
        count = min(self.count, size - 1)
        listed = self.others.listed(inputs, vectors, size - count)
        labels, cosines = Ranked.empty(len(vectors), count)
        list_worded(self.label_texts.lists, bags_of(inputs), listed.labels, self._scratch(), (labels, cosines))
        return Ranked(
            np.concatenate([listed.labels, labels], axis=1), np.concatenate([listed.scores, _WORDS * cosines], axis=1)
        )

    def with_beam(self, beam: int) -> WordLabels:
        return replace(self, others=self.others.with_beam(beam))

    def exact(self) -> WordLabels:
        return replace(self, others=self.others.exact())

    @cached_property
    def _scratch(self) -> PerThread[tuple[np.ndarray, np.ndarray]]:
        return PerThread(partial(scratch_for, self.num_labels))


@compiled
def list_clusters(leaves, beam, vectors, into):  # type: ignore[no-untyped-def]
    """Write the labels of one cluster after another, the best first, until a list is full."""
    labels, nearness = into
    clusters = len(leaves.starts) - 1
    scores, scratch = np.empty(clusters, np.float32), np.empty(clusters, np.float32)
    chosen, numbers = np.empty(clusters, np.int32), np.empty(vectors.shape[1], np.int16)
    for text in range(len(labels)):
        scale = quantise(vectors[text], numbers)
        score_run(leaves.rows, 0, clusters, numbers, scale, scores, 0)
        probed, count = choose(scores, clusters, beam, scratch, chosen), 0
        for i in range(probed):
            scratch[i] = -(fine_dot(leaves.rows, leaves.fine, chosen[i], vectors[text]) + leaves.rows.biases[chosen[i]])
        for best in ascending(scratch[:probed]):
            first, last = leaves.starts[chosen[best]], leaves.starts[chosen[best] + 1]
            for place in range(first, min(last, first + labels.shape[1] - count)):
                labels[text, count], nearness[text, count] = leaves.order[place], -scratch[best]
                count += 1


@compiled
def list_worded(index, words, there, scratch, into):  # type: ignore[no-untyped-def]
    """Write the labels whose words are nearest to a text's, without those already listed."""
    (totals, touched), (labels, cosines) = scratch, into
    for text in range(len(labels)):
        count = add_products(index, words, text, np.float32(1), totals, touched, 0)
        for label in there[text]:
            if label >= 0 and totals[label] != 0:
                totals[label] = -1  # after all others, and yet something that is cleared
        kept = take_best(totals, touched, count, labels[text], cosines[text])
        for i in range(kept):
            if cosines[text, i] <= 0:
                labels[text, i], cosines[text, i] = NO_LABEL, 0
        clear(totals, touched, count)
