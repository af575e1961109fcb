"""A packed ranker of an encoder, a tree of clusters, and a row for every label.

What a classifier over all labels and one over learnt clusters have become: the former's tree is grown from its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from laconic.kernels.checks import (
    check_array,
    check_kind,
    check_numbers,
    check_order,
    check_starts,
    check_whole,
    for_kernels,
)
from laconic.kernels.held import Held, hold
from laconic.packed.engine.encoders import Encoder, check_fits
from laconic.packed.engine.nibble_rows import NO_NIBBLES, NibbleRows, in_planes
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.rows import Sizes, check_groups
from laconic.packed.engine.search_kernels import (
    SearchLimits,
    Tree,
    Vectors,
    propose,
    score_candidates,
    score_labels,
    search,
)
from laconic.packed.engine.texts import Inputs, Ranked
from laconic.packed.engine.transforms import Transform
from laconic.types import NO_LABEL

_LEAST_RESCORED = 64
_SPARED = 16  # candidates beside those that are wanted that are scored by all bits
_LEAST_SPARE, _SPARE = 16, 8  # clusters before and behind the last that are scored again: at least, one of so many


@dataclass(frozen=True, kw_only=True, eq=False)
class Searched(PackedRanker):
    """Scores the labels of a text's best clusters."""

    encoder: Encoder
    transform: Transform
    rows: NibbleRows  # in the order of places
    order: np.ndarray  # int32: the label of each place
    starts: np.ndarray  # int32: where clusters begin; places before the first are of labels that are always scored
    clusters: NibbleRows
    cluster_transform: Transform | None  # None: clusters read the labels' vectors
    group_starts: np.ndarray  # int32: where groups of clusters begin
    groups: NibbleRows | None  # None: every cluster is scored
    open_groups: int
    beam: int  # clusters that are probed
    rescored: int = _LEAST_RESCORED
    product: bool = False
    trained: int = 0  # clusters that training probed; 0: every label was scored in training, or this is not known
    probed: int = 0  # clusters that the model probes; 0: all or, where training probed some, as many as are probed here

    def __post_init__(self) -> None:
        check_kind(self.rows, "rows", NibbleRows)
        check_kind(self.clusters, "clusters", NibbleRows)
        check_fits(self.encoder, self.transform, self.rows.dim)
        for_clusters = self.transform if self.cluster_transform is None else self.cluster_transform
        check_fits(self.encoder, for_clusters, self.clusters.dim)
        labels, clusters = self.rows.size, self.clusters.size
        check_array(self.order, "order of labels", np.int32, (labels,))
        check_array(self.starts, "bounds of clusters", np.int32, (clusters + 1,))
        check_starts(np.concatenate([[0], self.starts]), "bounds of clusters", labels)
        check_order(self.order, "order of labels")
        check_groups(self.groups, self.group_starts, self.clusters)
        for name in ("beam", "open_groups", "rescored"):
            check_whole(getattr(self, name), name.replace("_", " "), 1)
        check_kind(self.product, "product", bool)
        check_whole(self.trained, "clusters probed in training", 0)
        check_whole(self.probed, "clusters probed by the model", 0)

    @classmethod
    def upgraded(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Split the rows of version 0.2, which had whole bytes."""
        return in_planes(values)

    @property
    def num_labels(self) -> int:
        return self.rows.size

    @property
    def scores_any(self) -> bool:
        """Return whether any label's score can be compared with any other's, whichever clusters are probed."""
        return not (self.trained or self.probed or self.product)

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        return self.rank_vectors(self.vectors(inputs), k)

    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        check_numbers(labels, "labels to be scored", NO_LABEL, self.num_labels)
        return self.score_vectors(self.vectors(inputs), labels)

    def rank_vectors(self, vectors: Vectors, k: int) -> Ranked:
        """Rank labels for texts that are encoded already."""
        labels = np.empty((len(vectors.for_labels), k), dtype=np.int64)
        scores = np.empty(labels.shape, dtype=np.float32)
        search(self._held(k), *vectors, labels, scores)
        return Ranked(labels, scores)

    def propose(self, vectors: Vectors, k: int) -> Int[np.ndarray, "texts k"]:
        """Return the best k labels by their upper bits, in no order, for texts that are encoded already.

        Where more are scored by all bits, they are the best k by these.
        """
        if self.rescored > k:
            return self.rank_vectors(vectors, k).labels
        labels = np.empty((len(vectors.for_labels), k), dtype=np.int64)
        propose(self._held(k), *vectors, labels)
        return labels

    def score_vectors(self, vectors: Vectors, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        """Score labels for texts that are encoded already."""
        scores = np.empty(labels.shape, dtype=np.float32)
        score_labels(self._held_places, *vectors, np.ascontiguousarray(labels), scores)
        return scores

    def score_candidates(
        self,
        vectors: Vectors,
        labels: Int[np.ndarray, "texts n"],
        proposed: Int[np.ndarray, "texts"],
        wanted: int,
    ) -> Float[np.ndarray, "texts n"]:
        """Score each text's labels, which end in NO_LABEL.

        Of the first, which channels propose, those that are not among the best `wanted` are scored by upper bits.
        """
        scores, again = np.empty(labels.shape, dtype=np.float32), max(wanted + _SPARED, self.rescored)
        score_candidates(self._held_places, vectors.for_labels, labels, proposed, again, scores)
        return scores

    def vectors(self, inputs: Inputs) -> Vectors:
        encoded = self.encoder.encode(inputs)
        own = self.transform.apply(encoded)
        return Vectors(own if self.cluster_transform is None else self.cluster_transform.apply(encoded), own)

    def with_beam(self, beam: int) -> Searched:
        """Return the ranker with this many clusters probed.

        More than in training are scored by the product, because rows say nothing of texts they were not trained on.
        """
        beam = max(1, min(beam, self.clusters.size))
        return replace(self, beam=beam, product=self.product or 0 < self.trained < beam)

    def exact(self) -> Searched:
        """Return the ranker that answers as the model does, with nothing passed over: every label is scored by all bits
        or, where the model probes some clusters, those of as many.
        """
        beam = self.probed or (self.beam if self.trained else self.clusters.size)
        return replace(self.without_groups(), beam=beam, rescored=self.num_labels)

    def without_groups(self) -> Searched:
        """Return the ranker that scores every cluster."""
        return replace(self, groups=None, group_starts=np.array([0, self.clusters.size], dtype=np.int32))

    def _held(self, k: int) -> Held:
        """Return the tree with the limits of a search for the best k."""
        if k not in self._searches:
            self._searches[k] = hold((self._tree, self._limits(k)))
        return self._searches[k]

    @cached_property
    def _searches(self) -> dict[int, Held]:
        return {}  # of every k that was asked for: a search takes little longer than finding its limits

    @cached_property
    def _held_places(self) -> Held:
        return hold((self._tree, self._limits(1), self._places))

    def _limits(self, k: int) -> SearchLimits:
        enough = (
            int(self._clusters.of_smallest.searchsorted(k - int(self.starts[0]))) + 1
        )  # clusters, whichever they are
        beam = min(max(self.beam, enough), self.clusters.size)
        groups = self._groups_for(beam)
        capacity = int(self.starts[0]) + int(self._clusters.of_largest[beam - 1])
        scored = 0 if self.groups is None else int(self._groups.of_largest[groups - 1])
        # Which clusters of its own a model probes is part of its answers. Those of a tree are made to find labels.
        spare = max(_LEAST_SPARE, beam // _SPARE) if self.trained or self.probed else 0
        if spare and self.rescored >= self.num_labels:  # an exact search
            spare = self.clusters.size
        return SearchLimits(groups, beam, max(self.rescored, 2 * k), capacity, self.product, scored, spare)

    @property
    def probed_groups(self) -> int:
        """Return how many groups of clusters a search opens: more than are set where those have too few clusters."""
        return self._groups_for(min(self.beam, self.clusters.size))

    def _groups_for(self, beam: int) -> int:
        enough = int(self._groups.of_smallest.searchsorted(beam)) + 1  # whichever they are
        return min(max(self.open_groups, enough), len(self.group_starts) - 1)

    @cached_property
    def _clusters(self) -> Sizes:
        return Sizes.of(self.starts)

    @cached_property
    def _groups(self) -> Sizes:
        return Sizes.of(self.group_starts)

    @cached_property
    def _places(self) -> Int[np.ndarray, "labels"]:
        places = np.empty(len(self.order), dtype=np.int32)
        places[self.order] = np.arange(len(self.order), dtype=np.int32)
        return places

    @cached_property
    def _tree(self) -> Tree:
        groups = NO_NIBBLES if self.groups is None else self.groups.grid
        group_starts, starts, order = map(for_kernels, (self.group_starts, self.starts, self.order))
        return Tree(groups, group_starts, self.clusters.grid, starts, self.rows.grid, order)
